"""Rows of logits, each divided by its own temperature: what the metrics keep of the exact softmax, in one pass."""

from __future__ import annotations

import numpy as np
from numba import njit

from smart_core.kernels import elementary
from smart_core.kernels.elementary import F32, F64, I64, ONE, ORDERED, SUMS, ZERO
from smart_core.kernels.probability_rows import STRETCH, bin_of

LANES = 32
"""Columns that are compared side by side when a row is searched for its two largest entries."""

LEAST = np.finfo(np.float32).min


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})
def all_finite(logits: F32) -> bool:
    """Whether no entry is NaN or infinite: `x - x` is 0 for all others."""
    for i in range(logits.shape[0]):
        row, total = logits[i], ZERO
        for k in range(row.size):
            total += row[k] - row[k]
        if total != ZERO:
            return False
    return True


@njit(cache=True, nogil=True, error_model="numpy", fastmath=ORDERED)
def top_two(logits: F32, top: F32, second: F32, place: I64) -> None:
    """The largest logit of each row, the column of its first occurrence, and the largest of the others.

    Column k belongs to lane k mod `LANES`, which keeps the two largest of its columns. Lanes are independent of each
    other, so they become vector instructions, which a search for one maximum does not.
    """
    largest, next_largest = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    for i in range(logits.shape[0]):
        row = logits[i]
        for k in range(LANES):
            largest[k], next_largest[k] = LEAST, LEAST
        for start in range(0, row.size, LANES):
            stretch = row[start : start + LANES]
            for k in range(stretch.size):
                z, high, low = stretch[k], largest[k], next_largest[k]
                beaten = z if z < high else high
                largest[k] = z if z > high else high
                next_largest[k] = beaten if beaten > low else low
        best, other = largest[0], next_largest[0]
        for k in range(1, LANES):
            if largest[k] > best:
                best, other = largest[k], max(best, next_largest[k])
            else:
                other = max(other, largest[k])
        top[i], second[i], place[i] = best, other, _first(row, best)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _first(row: F32, value: np.float32) -> int:
    """The first column that holds a value, which must occur in the row."""
    start, found = 0, 0
    while found == 0:
        stretch = row[start : start + STRETCH]
        for k in range(stretch.size):
            found += 1 if stretch[k] == value else 0
        start += STRETCH
    start -= STRETCH
    while row[start] != value:
        start += 1
    return start


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SUMS)
def confidences(logits: F32, top: F32, temperature: F32, confidence: F32) -> None:
    """`1 / sum_k exp((z_k - max z) / T)` of each row."""
    for i in range(logits.shape[0]):
        row, beta, total = logits[i], ONE / temperature[i], ZERO
        for k in range(row.size):
            total += elementary.exp((row[k] - top[i]) * beta)
        confidence[i] = ONE / total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SUMS)
def evaluate_rows(
    logits: F32, top: F32, labels: I64, temperature: F32, edges: F32,
    confidence: F32, nll: F32, brier: F32, residual: F64,
) -> None:  # fmt: skip
    """Confidence, NLL and Brier score of each row; its sums of p - [y = k] per class and bin are added to `residual`.

    `residual` is (K, B). A row has fewer than B entries above the first inner edge: only these are assigned to a bin
    one by one, and the first bin gets the rest of the column's sum.
    """
    classes, last = logits.shape[1], edges.size - 2
    power, column = np.empty(classes, np.float32), np.zeros(classes, np.float32)
    for i in range(logits.shape[0]):
        row, beta, total = logits[i], ONE / temperature[i], ZERO
        for k in range(classes):
            e = elementary.exp((row[k] - top[i]) * beta)
            power[k] = e
            total += e
        share, squares = ONE / total, ZERO
        for start in range(0, classes, STRETCH):
            count = min(STRETCH, classes - start)
            q, sums = power[start : start + count], column[start : start + count]
            above = ZERO
            for k in range(count):
                p = q[k] * share
                q[k] = p
                sums[k] += p
                squares += p * p
                above += ONE if p > edges[1] else ZERO
            if above > ZERO:
                for k in range(count):
                    if q[k] > edges[1]:
                        b = bin_of(q[k], edges, last)
                        residual[start + k, b] += q[k]
                        residual[start + k, 0] -= q[k]
        y = labels[i]
        residual[y, bin_of(power[y], edges, last)] -= 1.0
        confidence[i] = share
        nll[i] = elementary.log(total) - (row[y] - top[i]) * beta
        brier[i] = squares - np.float32(2.0) * power[y] + ONE
    for k in range(classes):
        residual[k, 0] += column[k]
