"""Products of each query with reference rows of its own, read where they lie."""

from __future__ import annotations

import numpy as np
from numba import njit

from smart_core.kernels.elementary import F32, F64, I64, SUMS


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SUMS)
def candidate_products(queries: F64, reference: F32, own: F64, place: I64, products: F64) -> None:
    """`q.r - |r|^2 / 2` in float64 of the reference rows at `place` (n, count), whose squared norms are `own`."""
    for i in range(place.shape[0]):
        query = queries[i]
        for j in range(place.shape[1]):
            row, total = reference[place[i, j]], 0.0
            for d in range(query.size):
                total += query[d] * np.float64(row[d])
            products[i, j] = total - 0.5 * own[place[i, j]]
