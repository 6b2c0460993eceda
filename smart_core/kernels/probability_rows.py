"""Rows of float32 probabilities: what their check and their top label need, and the classwise sums, in float64."""

from __future__ import annotations

import numpy as np
from numba import njit

from smart_core.kernels.elementary import F32, F64, I64, ONE, SUMS, ZERO

STRETCH = 64
"""Classes that are tested together when a row is searched for a rare entry."""


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SUMS)
def row_statistics(rows: F32, total: F64, least: F32, top: F32, place: I64) -> None:
    """Sum, smallest and largest entry of each row, and the column of its first occurrence.

    A row that holds NaN has a sum of NaN; its other values are undefined.
    """
    classes = rows.shape[1]
    for i in range(rows.shape[0]):
        row = rows[i]
        best, lowest, where, whole = row[0], row[0], 0, 0.0
        for start in range(0, classes, STRETCH):
            stretch = row[start : min(start + STRETCH, classes)]
            high, low, part = stretch[0], stretch[0], ZERO
            for k in range(stretch.size):
                p = stretch[k]
                high = p if p > high else high
                low = p if p < low else low
                part += p
            whole += float(part)
            lowest = min(lowest, low)
            if high > best:
                best, where = high, start
        while where < classes - 1 and row[where] != best:
            where += 1
        total[i], least[i], top[i], place[i] = whole, lowest, best, where


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SUMS)
def classwise_sums(rows: F32, labels: I64, edges: F32, count: F64, sum_p: F64, sum_p2: F64, sum_y: F64) -> None:
    """Add rows to the sums per class and bin, each (K, B): ones, p, p^2, and labels.

    Bins are `(l, u]` between the B + 1 `edges`, the first closed at 0. Rows that sum to 1 have fewer than B entries
    above the first inner edge: only these are assigned to a bin one by one, and the first bin gets the rest.
    """
    classes, last = rows.shape[1], edges.size - 2
    column, squares = np.zeros(classes), np.zeros(classes)
    for i in range(rows.shape[0]):
        row = rows[i]
        for start in range(0, classes, STRETCH):
            stop = min(start + STRETCH, classes)
            p, plain, squared = row[start:stop], column[start:stop], squares[start:stop]
            above = ZERO
            for k in range(p.size):
                wide = np.float64(p[k])
                plain[k] += wide
                squared[k] += wide * wide
                above += ONE if p[k] > edges[1] else ZERO
            if above > ZERO:
                for k in range(p.size):
                    if p[k] > edges[1]:
                        b = bin_of(p[k], edges, last)
                        wide = np.float64(p[k])
                        count[start + k, b] += 1.0
                        count[start + k, 0] -= 1.0
                        sum_p[start + k, b] += wide
                        plain[k] -= wide
                        sum_p2[start + k, b] += wide * wide
                        squared[k] -= wide * wide
        sum_y[labels[i], bin_of(row[labels[i]], edges, last)] += 1.0
    for k in range(classes):
        count[k, 0] += rows.shape[0]
        sum_p[k, 0] += column[k]
        sum_p2[k, 0] += squares[k]


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def bin_of(p: np.float32, edges: F32, last: int) -> int:
    """The b with `edges[b] < p <= edges[b + 1]`; guessed from equal widths, then corrected."""
    b = min(max(int(p * np.float32(last + 1)), 0), last)
    while b > 0 and p <= edges[b]:
        b -= 1
    while b < last and p > edges[b + 1]:
        b += 1
    return b
