"""Kernel density estimates in two coordinates, in one loop over the points of a query."""

from __future__ import annotations

import numpy as np
from numba import njit

from smart_core.kernels import elementary
from smart_core.kernels.elementary import F64, ORDERED


@njit(cache=True, nogil=True, error_model="numpy", fastmath=ORDERED)
def log_kernel_sums(first: F64, second: F64, x: F64, y: F64, logs: F64) -> None:
    """`log sum_i exp(-|q - p_i|^2 / 2)` of queries (first, second) over points (x, y), one value per query.

    Distances are float64, for a bandwidth may be as narrow as float32 is coarse; the powers, which are between 0 and 1
    relative to the largest, are float32.
    """
    for n in range(first.size):
        a, b, least = first[n], second[n], 1e300
        for i in range(x.size):
            square = (a - x[i]) * (a - x[i]) + (b - y[i]) * (b - y[i])
            least = square if square < least else least
        total = 0.0
        for i in range(x.size):
            square = (a - x[i]) * (a - x[i]) + (b - y[i]) * (b - y[i])
            total += np.float64(elementary.exp(np.float32(0.5 * (least - square))))
        logs[n] = np.log(total) - 0.5 * least
