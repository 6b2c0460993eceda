"""Rows of logits, each divided by its own temperature: what the metrics keep of the exact softmax, in one pass."""

from __future__ import annotations

import numpy as np
from numba import njit

from smart_core.kernels import elementary
from smart_core.kernels.elementary import F32, F64, I64, LOWEST, ONE, ORDERED, SUMS, ZERO
from smart_core.kernels.partition import PIECE
from smart_core.kernels.probability_rows import STRETCH, bin_of

LANES = 32
"""Columns that are compared side by side when a row is searched for its two largest entries."""

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
def other_powers(logits: F32, top: F32, place: I64, temperature: F32, others: F64) -> None:
    """`sum_k exp((z_k - max z) / T)` over the classes of each row other than `place`, the largest."""
    power = np.empty(logits.shape[1], np.float32)
    for i in range(logits.shape[0]):
        others[i] = _powers(logits[i], top[i], ONE / temperature[i], place[i], power)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SUMS)
def evaluate_rows(
    logits: F32, top: F32, second: F32, place: I64, labels: I64, temperature: F32, edges: F32,
    confidence: F32, nll: F64, brier: F64, count: F64, sum_p: F64, sum_p2: F64, sum_y: F64,
) -> None:  # fmt: skip
    """Confidence, NLL and Brier score of each row under its temperature.

    The sums per class and bin of `ClasswiseHistogram` are added to the last four, each (K, B), or (0, B) for none.
    """
    power, total = np.empty(logits.shape[1], np.float32), np.zeros((2, sum_p.shape[0]), np.float32)
    for i in range(logits.shape[0]):
        y, beta = labels[i], ONE / temperature[i]
        others = _powers(logits[i], top[i], beta, place[i], power)
        share = np.float32(1.0 / (1.0 + others))
        gap = (logits[i, y] - top[i]) * beta
        own = share if y == place[i] else np.float32(np.exp(float(gap))) * share
        squares = _add(
            power, share, ZERO, ONE, place[i], share, elementary.exp((second[i] - top[i]) * beta), y, own,
            edges, total, count, sum_p, sum_p2, sum_y,
        )  # fmt: skip
        confidence[i] = share
        nll[i] = np.log1p(others) - float(gap)
        brier[i] = squares - 2.0 * float(own) + 1.0
        if (i + 1) % FEW == 0:
            _flush(total, sum_p, sum_p2)
    _flush(total, sum_p, sum_p2)
    count[:, 0] += float(logits.shape[0])


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SUMS)
def share_rows(
    logits: F32, top: F32, second: F32, place: I64, labels: I64,
    confidence: F32, scale: F32, even: F32, ceiling: F32, edges: F32,
    nll: F64, brier: F64, count: F64, sum_p: F64, sum_p2: F64, sum_y: F64,
) -> None:  # fmt: skip
    """The same of rows with `confidence` at `place` and `min(scale exp(z_k - max z) + even, ceiling)` elsewhere.

    `scale`, `even` and `ceiling` are numbers of each row. A label of probability 0 costs what `LEAST_SHARE` does.
    """
    power, total = np.empty(logits.shape[1], np.float32), np.zeros((2, sum_p.shape[0]), np.float32)
    for i in range(logits.shape[0]):
        _powers(logits[i], top[i], ONE, place[i], power)
        y, own = labels[i], confidence[i]
        if y != place[i]:
            own = min(np.float32(np.exp(float(logits[i, y] - top[i]))) * scale[i] + even[i], ceiling[i])
        squares = _add(
            power, scale[i], even[i], ceiling[i], place[i], confidence[i], elementary.exp(second[i] - top[i]), y, own,
            edges, total, count, sum_p, sum_p2, sum_y,
        )  # fmt: skip
        nll[i] = -np.log(max(float(own), LEAST_SHARE))
        brier[i] = squares - 2.0 * float(own) + 1.0
        if (i + 1) % FEW == 0:
            _flush(total, sum_p, sum_p2)
    _flush(total, sum_p, sum_p2)
    count[:, 0] += float(logits.shape[0])


@njit(nogil=True, error_model="numpy", fastmath=SUMS)
def _powers(row: F32, top: np.float32, beta: np.float32, place: int, power: F32) -> float:
    """`exp((z_k - max z) beta)` in `power`, 0 at `place`; their sum, which keeps its digits where 1 + it loses them."""
    found = 0.0
    for start in range(0, row.size, PIECE):
        z, e, part = row[start : start + PIECE], power[start : start + PIECE], ZERO
        for k in range(z.size):
            gap = (z[k] - top) * beta
            e[k] = elementary.exp(gap) if gap > LOWEST else ZERO
        if start <= place < start + PIECE:
            e[place - start] = ZERO
        for k in range(z.size):
            part += e[k]
        found += float(part)
    return found


@njit(nogil=True, error_model="numpy", fastmath=SUMS)
def _add(
    power: F32, scale: np.float32, even: np.float32, ceiling: np.float32, place: int, confidence: np.float32,
    largest: np.float32, label: int, own: np.float32,
    edges: F32, total: F32, count: F64, sum_p: F64, sum_p2: F64, sum_y: F64,
) -> float:  # fmt: skip
    """Add the row `min(scale power + even, ceiling)`, but `confidence` at `place`, to the sums.

    Returns the sum of its squares. `own` is the label's share, and `largest` the largest power at other places: if its
    share is not above the first inner edge, `place` alone can be in another bin than the first. `total` collects all
    shares, and the first bin gets the rest.
    """
    last, squares = edges.size - 2, 0.0
    if total.shape[1] == 0:
        for start in range(0, power.size, PIECE):
            e, part = power[start : start + PIECE], ZERO
            for k in range(e.size):
                q = e[k] * scale + even
                q = q if q < ceiling else ceiling
                part += q * q
            squares += float(part)
    else:
        for start in range(0, power.size, PIECE):
            e, part = power[start : start + PIECE], ZERO
            plain, squared = total[0, start : start + PIECE], total[1, start : start + PIECE]
            for k in range(e.size):
                q = e[k] * scale + even
                q = q if q < ceiling else ceiling
                plain[k] += q
                squared[k] += q * q
                part += q * q
            squares += float(part)
    there, c = float(min(even, ceiling)), float(confidence)
    squares += c * c - there * there
    if total.shape[1] == 0:
        return squares
    sum_p[place, 0] -= there
    sum_p2[place, 0] -= there * there
    _put(place, confidence, edges, count, sum_p, sum_p2)
    sum_p[place, 0] += c
    sum_p2[place, 0] += c * c
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
    return squares


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
def _flush(total: F32, sum_p: F64, sum_p2: F64) -> None:
    """Move sums in float32 to those in float64."""
    for k in range(total.shape[1]):
        sum_p[k, 0] += float(total[0, k])
        sum_p2[k, 0] += float(total[1, k])
        total[0, k], total[1, k] = ZERO, ZERO
