"""The log-partition of rows of logits: tabulated over inverse temperatures, and the sums that Newton's method needs.

Notation as in `smart_core.fitting.profile`: gaps `d_k = z_k - max z`, held above a floor; logits are finite.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from smart_core.kernels import elementary
from smart_core.kernels.elementary import F32, F64, I64, ORDERED, ZERO

PIECE = 1024
"""Classes per pass: their gaps and exponentials stay in the nearest cache."""

VANISHING = np.float32(1e-18)
"""Powers below this are set to 0 instead of being squared, before they become denormal."""


@njit(cache=True, nogil=True, error_model="numpy", fastmath=ORDERED)
def tabulate(gaps: F32, betas: F64, per_octave: int, table: F32) -> None:
    """`g` and `dg/dlog beta` at every node, (N, nodes, 2).

    An octave further on, beta has doubled, so the exponentials are squared.
    """
    classes = gaps.shape[1]
    power = np.empty(PIECE, np.float32)
    sums = np.empty((betas.size, 2))
    for i in range(gaps.shape[0]):
        for node in range(betas.size):
            sums[node, 0], sums[node, 1] = 0.0, 0.0
        for start in range(0, classes, PIECE):
            d = gaps[i, start : min(start + PIECE, classes)]
            for offset in range(per_octave):
                beta = np.float32(betas[offset])
                for k in range(d.size):
                    power[k] = elementary.exp(d[k] * beta)
                for node in range(offset, betas.size, per_octave):
                    total, weighted = ZERO, ZERO
                    for k in range(d.size):
                        e = power[k]
                        total += e
                        weighted += e * d[k]
                        power[k] = e * e if e > VANISHING else ZERO
                    sums[node, 0] += total
                    sums[node, 1] += weighted
        for node in range(betas.size):
            table[i, node, 0] = np.log(sums[node, 0])
            table[i, node, 1] = betas[node] * sums[node, 1] / sums[node, 0]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=ORDERED)
def nll_sums(logits: F32, labels: I64, beta: np.float32, floor: np.float32) -> tuple[float, float]:
    """Sums over the rows of the first and the second derivative of the NLL in beta.

    With the mean and the variance of the gaps under `softmax(beta d)`: `mean - d_y`, and the variance.
    """
    slope, curvature = 0.0, 0.0
    for i in range(logits.shape[0]):
        top = logits[i, 0]
        for k in range(logits.shape[1]):
            top = elementary.larger(top, logits[i, k])
        total, first, second = ZERO, ZERO, ZERO
        for k in range(logits.shape[1]):
            d = max(logits[i, k] - top, floor)
            e = elementary.exp(d * beta)
            total += e
            first += e * d
            second += e * d * d
        mean = first / total
        slope += float(mean - (logits[i, labels[i]] - top))
        curvature += float(second / total - mean * mean)
    return slope, curvature
