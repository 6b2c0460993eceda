"""The candidates of one class in the search of CTS: the ECE for each temperature of a grid."""

from __future__ import annotations

import numpy as np
from numba import njit

from smart_core.kernels import elementary
from smart_core.kernels.elementary import EXACT, F32, I64, ONE
from smart_core.kernels.probability_rows import bin_of


@njit(cache=True, nogil=True, error_model="numpy", fastmath=EXACT)
def candidate_sums(
    column: F32, grid: F32, peak: F32, top: I64, log_sum: F32, labels: I64, k: int, edges: F32, unit: np.float32,
    sums: I64, hits: I64,
) -> None:  # fmt: skip
    """Add each sample's residual to its bin, `sums` (bins, F), and its hit to `hits` (F,), for every candidate.

    `column` are the logits of class k, `grid` its candidate temperatures, rising. `peak`, `top` and `log_sum` are the
    maximum, its class and the log-sum-exp of the other classes. Residuals are whole multiples of 1 / `unit`.

    A sample's confidence is monotone in the temperature as long as class k does not win. If both ends of the grid fall
    into one bin without a win, so do all between, and one loop without a decision adds them up.
    """
    last, bins = grid.size - 1, edges.size - 2
    for i in range(column.size):
        z, m, level = column[i], peak[i], log_sum[i]
        rival = min(elementary.exp(m - level), ONE)
        first_x, last_x = z / grid[0], z / grid[last]
        right = np.float32(labels[i] == top[i])
        before = k < top[i]
        if not (_wins(first_x, m, before) or _wins(last_x, m, before)):
            low = bin_of(rival / (ONE + elementary.exp(first_x - level)), edges, bins)
            if low == bin_of(rival / (ONE + elementary.exp(last_x - level)), edges, bins):
                row = sums[low]
                for g in range(grid.size):
                    confidence = rival / (ONE + elementary.exp(z / grid[g] - level))
                    row[g] += np.int64(np.int32(np.rint((confidence - right) * unit)))
                if right == ONE:
                    for g in range(grid.size):
                        hits[g] += 1
                continue
        own = np.float32(labels[i] == k)
        for g in range(grid.size):
            x = z / grid[g]
            won = _wins(x, m, before)
            power = elementary.exp(level - x if won else x - level)
            confidence = (ONE if won else rival) / (ONE + power)
            hit = own if won else right
            sums[bin_of(confidence, edges, bins), g] += np.int64(np.int32(np.rint((confidence - hit) * unit)))
            hits[g] += np.int64(hit)


@njit(nogil=True, error_model="numpy", inline="always")
def _wins(x: np.float32, peak: np.float32, before: bool) -> bool:
    """Whether class k is the prediction: ties go to the first class."""
    return bool(x > peak or (x == peak and before))
