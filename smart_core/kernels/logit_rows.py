"""Rows of logits, each divided by its own temperature: what the metrics keep of the exact softmax, in one pass."""

from __future__ import annotations

import numpy as np
from numba import njit

from smart_core.kernels import elementary
from smart_core.kernels.elementary import F32, F64, I64, LOG2E, LOWEST_TWO, ONE, ORDERED, SUMS, ZERO
from smart_core.kernels.partition import PIECE
from smart_core.kernels.probability_rows import STRETCH, bin_of

LEAST = np.finfo(np.float32).min

FEW = 32
"""Rows whose probabilities are summed in float32 before the sum joins that in float64."""

LEAST_SHARE = 2.0**-1022
"""The least label probability under the logarithm, as in `smart_core.metrics.proper`."""


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

    The largest of each stretch of columns is found by vector instructions; only the stretch that holds the largest of
    all is searched one by one.
    """
    for i in range(logits.shape[0]):
        row = logits[i]
        best, other, where = LEAST, LEAST, 0
        for start in range(0, row.size, STRETCH):
            stretch, high = row[start : start + STRETCH], LEAST
            for k in range(stretch.size):
                high = elementary.larger(high, stretch[k])
            if high > best:
                best, other, where = high, best, start
            else:
                other = elementary.larger(other, high)
        stretch = row[where : where + STRETCH]
        first = 0
        while stretch[first] != best:
            first += 1
        for k in range(first):
            other = elementary.larger(other, stretch[k])
        for k in range(first + 1, stretch.size):
            other = elementary.larger(other, stretch[k])
        top[i], second[i], place[i] = best, other, where + first


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SUMS)
def confidences(logits: F32, top: F32, temperature: F32, confidence: F32) -> None:
    """`1 / sum_k exp((z_k - max z) / T)` of each row."""
    for i in range(logits.shape[0]):
        row, beta, total = logits[i], ONE / temperature[i], ZERO
        for k in range(row.size):
            total += elementary.exp((row[k] - top[i]) * beta)
        confidence[i] = ONE / total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SUMS)
def other_powers(logits: F32, top: F32, place: I64, temperature: F32, others: F64) -> None:
    """`sum_k exp((z_k - max z) / T)` over the classes of each row other than `place`, the largest."""
    power = np.empty(logits.shape[1], np.float32)
    for i in range(logits.shape[0]):
        others[i], _ = _powers(logits[i], top[i], ONE / temperature[i], place[i], power)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SUMS)
def evaluate_rows(
    logits: F32, top: F32, second: F32, place: I64, labels: I64, temperature: F32, edges: F32,
    confidence: F32, nll: F64, brier: F64, others: F64, count: F64, sum_p: F64, sum_p2: F64, sum_y: F64,
) -> None:  # fmt: skip
    """Confidence, NLL and Brier score of each row under its temperature, and the sum of `other_powers`.

    The sums per class and bin of `ClasswiseHistogram` are added to the last four, each (K, B), or (0, B) for none.
    """
    kept = sum_p.shape[0]
    power, few, all_of = np.empty(logits.shape[1], np.float32), np.zeros((2, kept), np.float32), np.zeros((2, kept))
    for i in range(logits.shape[0]):
        y, beta = labels[i], ONE / temperature[i]
        others[i], squares = _powers(logits[i], top[i], beta, place[i], power)
        share = np.float32(1.0 / (1.0 + others[i]))
        gap = (logits[i, y] - top[i]) * beta
        own = share if y == place[i] else np.float32(np.exp(float(gap))) * share
        confidence[i] = share
        nll[i] = np.log1p(others[i]) - float(gap)
        brier[i] = (1.0 + squares) * float(share) * float(share) - 2.0 * float(own) + 1.0
        if kept:
            _add(power, share, ZERO, ONE, few)
            largest = elementary.exp((second[i] - top[i]) * beta)
            _sort(power, share, ZERO, ONE, place[i], share, largest, y, own, edges, count, sum_p, sum_p2, sum_y)
            if (i + 1) % FEW == 0:
                _flush(few, all_of)
    _finish(logits.shape[0], few, all_of, count, sum_p, sum_p2)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SUMS)
def share_rows(
    logits: F32, top: F32, second: F32, place: I64, labels: I64,
    confidence: F32, scale: F32, even: F32, ceiling: F32, edges: F32,
    nll: F64, brier: F64, count: F64, sum_p: F64, sum_p2: F64, sum_y: F64,
) -> None:  # fmt: skip
    """The same of rows with `confidence` at `place` and `min(scale exp(z_k - max z) + even, ceiling)` elsewhere.

    `scale`, `even` and `ceiling` are numbers of each row. A label of probability 0 costs what `LEAST_SHARE` does.
    """
    kept = sum_p.shape[0]
    power, few, all_of = np.empty(logits.shape[1], np.float32), np.zeros((2, kept), np.float32), np.zeros((2, kept))
    unused = np.zeros((2, 0), np.float32)
    for i in range(logits.shape[0]):
        _powers(logits[i], top[i], ONE, place[i], power)
        y, own, c, there = labels[i], confidence[i], float(confidence[i]), float(min(even[i], ceiling[i]))
        if y != place[i]:
            own = min(np.float32(np.exp(float(logits[i, y] - top[i]))) * scale[i] + even[i], ceiling[i])
        squares = _add(power, scale[i], even[i], ceiling[i], few if kept else unused)
        nll[i] = -np.log(max(float(own), LEAST_SHARE))
        brier[i] = squares + c * c - there * there - 2.0 * float(own) + 1.0
        if kept:
            largest = elementary.exp(second[i] - top[i])
            _sort(
                power, scale[i], even[i], ceiling[i], place[i], confidence[i], largest, y, own,
                edges, count, sum_p, sum_p2, sum_y,
            )  # fmt: skip
            if (i + 1) % FEW == 0:
                _flush(few, all_of)
    _finish(logits.shape[0], few, all_of, count, sum_p, sum_p2)


@njit(nogil=True, error_model="numpy", fastmath=SUMS)
def _powers(row: F32, top: np.float32, beta: np.float32, place: int, power: F32) -> tuple[float, float]:
    """`exp((z_k - max z) beta)` in `power`, 0 at `place`; their sum, which keeps its digits where 1 + it loses them,
    and that of their squares."""
    found, squares, rate = 0.0, 0.0, beta * LOG2E
    for start in range(0, row.size, PIECE):
        z, e, part, squared = row[start : start + PIECE], power[start : start + PIECE], ZERO, ZERO
        for k in range(z.size):
            gap = z[k] - top
            e[k] = elementary.power_of_two(gap, rate) if gap * rate > LOWEST_TWO else ZERO
        if start <= place < start + PIECE:
            e[place - start] = ZERO
        for k in range(z.size):
            part += e[k]
            squared += e[k] * e[k]
        found += float(part)
        squares += float(squared)
    return found, squares


@njit(nogil=True, error_model="numpy", fastmath=SUMS)
def _add(power: F32, scale: np.float32, even: np.float32, ceiling: np.float32, few: F32) -> float:
    """The sum of squares of `q = min(scale power + even, ceiling)`; q and q^2 are added to `few`, (2, K) or (2, 0)."""
    squares = 0.0
    for start in range(0, power.size, PIECE):
        e, part = power[start : start + PIECE], ZERO
        if few.shape[1] == 0:
            for k in range(e.size):
                q = e[k] * scale + even
                q = q if q < ceiling else ceiling
                part += q * q
        else:
            plain, squared = few[0, start : start + PIECE], few[1, start : start + PIECE]
            for k in range(e.size):
                q = e[k] * scale + even
                q = q if q < ceiling else ceiling
                plain[k] += q
                squared[k] += q * q
                part += q * q
        squares += float(part)
    return squares


@njit(nogil=True, error_model="numpy", fastmath=SUMS)
def _sort(
    power: F32, scale: np.float32, even: np.float32, ceiling: np.float32, place: int, confidence: np.float32,
    largest: np.float32, label: int, own: np.float32, edges: F32, count: F64, sum_p: F64, sum_p2: F64, sum_y: F64,
) -> None:  # fmt: skip
    """Move what a row of `_add` has above the first inner edge from the first bin to its own; `place` has `confidence`.

    `own` is the label's share, and `largest` the largest power at other places: if its share is not above that edge,
    `place` alone can be in another bin.
    """
    last, there, c = edges.size - 2, float(min(even, ceiling)), float(confidence)
    sum_p[place, 0] += c - there
    sum_p2[place, 0] += c * c - there * there
    _put(place, confidence, edges, count, sum_p, sum_p2)
    if min(largest * scale + even, ceiling) > edges[1]:
        for start in range(0, power.size, STRETCH):
            e, above = power[start : start + STRETCH], ZERO
            for k in range(e.size):
                above += ONE if e[k] * scale + even > edges[1] else ZERO
            if above > ZERO:
                for k in range(e.size):
                    q = min(e[k] * scale + even, ceiling)
                    if q > edges[1] and start + k != place:
                        _put(start + k, q, edges, count, sum_p, sum_p2)
    sum_y[label, bin_of(own, edges, last)] += 1.0


@njit(nogil=True, error_model="numpy")
def _put(k: int, share: np.float32, edges: F32, count: F64, sum_p: F64, sum_p2: F64) -> None:
    """Move a share of class k from the first bin to its own."""
    b, wide = bin_of(share, edges, edges.size - 2), float(share)
    count[k, b] += 1.0
    count[k, 0] -= 1.0
    sum_p[k, b] += wide
    sum_p[k, 0] -= wide
    sum_p2[k, b] += wide * wide
    sum_p2[k, 0] -= wide * wide


@njit(nogil=True, error_model="numpy")
def _flush(few: F32, all_of: F64) -> None:
    """Move sums in float32 to those in float64."""
    for each in range(2):
        own, wide = few[each], all_of[each]
        for k in range(own.size):
            wide[k] += np.float64(own[k])
            own[k] = ZERO


@njit(nogil=True, error_model="numpy")
def _finish(rows: int, few: F32, all_of: F64, count: F64, sum_p: F64, sum_p2: F64) -> None:
    """Add the sums of all rows to the first bin, as if every share were in it."""
    _flush(few, all_of)
    for k in range(sum_p.shape[0]):
        count[k, 0] += float(rows)
        sum_p[k, 0] += all_of[0, k]
        sum_p2[k, 0] += all_of[1, k]
