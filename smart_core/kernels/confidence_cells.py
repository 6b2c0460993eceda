"""Sums over cells of the confidence axis, for several groups of samples in one pass."""

from __future__ import annotations

from typing import Any

from numba import njit
from numpy.typing import NDArray

from smart_core.kernels.elementary import F64


@njit(cache=True, nogil=True, error_model="numpy")
def confidence_sums(p: NDArray[Any], correct: NDArray[Any], group: NDArray[Any], edges: NDArray[Any], out: F64) -> None:
    """Add each sample to `out[group, cell]`: 1, p, a, p (1 - p) and (p - a)^2; cell c is (edges[c], edges[c + 1]].

    `group` has one number per sample, or a single one if all are of group 0.
    """
    cells = edges.size - 1
    several = group.size == p.size
    for i in range(p.size):
        x = p[i]
        c = min(int(x * cells), cells - 1)
        while c > 0 and x <= edges[c]:
            c -= 1
        while c < cells - 1 and x > edges[c + 1]:
            c += 1
        g = group[i] if several else 0
        wide, a = float(x), 1.0 if correct[i] else 0.0
        row = out[g, c]
        row[0] += 1.0
        row[1] += wide
        row[2] += a
        row[3] += wide * (1.0 - wide)
        row[4] += (wide - a) * (wide - a)
