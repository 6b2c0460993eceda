"""Scores as users save them -> (N, K) float32 logits: orientation, single columns, probabilities, strays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NewType

import numpy as np

from smart_core.data.found import Found, plural, refuse, shape_shown
from smart_core.data.logitset import Array, Notice, read_only
from smart_core.data.reading import (
    COLUMNS_ARE_SAMPLES,
    PROBABILITIES,
    ROWS_ARE_SAMPLES,
    THESE_ARE_LOGITS,
    THESE_ARE_PERCENTAGES,
    THESE_ARE_PROBABILITIES,
)
from smart_core.data.shapes import squeezed
from smart_core.data.zeros import Floor, floor_of

LogitMatrix = NewType("LogitMatrix", np.ndarray)
ProbabilityMatrix = NewType("ProbabilityMatrix", np.ndarray)

LARGEST = float(np.finfo(np.float32).max)
REACH = 1e30
"""Logits are kept within this, so that their differences, and sums over the classes, stay finite in float32."""
CHUNK = 1 << 18
"""Numbers looked at together; a chunk and its temporaries stay in the cache."""
EXACT, ROUNDED = 1e-3, 5e-2
"""How far the row sums of probabilities may lie from 1; beyond the first they were rounded, which is said."""
NOUNS = {1: "probabilities", 100: "percentages"}
"""What the rows of a matrix of shares sum to -> what they are called."""


@dataclass(frozen=True)
class Sums:
    """The row sums held against one total, as fractions of it."""

    error: float
    """The largest distance of a row sum from the total."""
    off: int
    """Rows whose sum is further than ROUNDED from it."""
    first_off: int


@dataclass(frozen=True)
class Scan:
    """One pass over a matrix of scores."""

    low: float
    high: float
    zeros: int
    sums: dict[int, Sums]

    def could_be(self, total: int) -> bool:
        """Whether no value is outside what shares of the total can be."""
        return self.low >= -1e-6 * total and self.high <= total * (1 + EXACT)


def chunks(scores: Array) -> Iterator[tuple[int, Array]]:
    """(first row, rows) in pieces of about CHUNK numbers, as float32 or float64."""
    wide = (
        np.float64
        if scores.dtype.itemsize > 4 or (scores.dtype.kind in "iu" and scores.dtype.itemsize > 2)
        else np.float32
    )
    step = max(1, CHUNK // max(1, scores.shape[1]))
    for start in range(0, len(scores), step):
        yield start, np.asarray(scores[start : start + step], dtype=wide)


def scan(item: Found, scores: Array) -> Scan:
    """Looks at every score once; NaN, infinity and what float32 cannot hold are refused with their place."""
    low, high, zeros = np.inf, -np.inf, 0
    sums = {total: Sums(0.0, 0, -1) for total in NOUNS}
    for start, rows in chunks(scores):
        with np.errstate(over="ignore", invalid="ignore"):
            totals = rows.sum(axis=1, dtype=np.float64)
        if not np.isfinite(totals).all():
            _refuse_stray(item, scores)
        largest, smallest = rows.max(axis=1), rows.min(axis=1)
        low, high = min(low, float(smallest.min())), max(high, float(largest.max()))
        sums = {total: _summed(seen, totals, total, start) for total, seen in sums.items()}
        if low >= 0:
            zeros += int(rows.size - np.count_nonzero(rows))
    if max(high, -low) > LARGEST:
        _refuse_stray(item, scores)
    return Scan(low, high, zeros, sums)


def _summed(seen: Sums, totals: Array, total: int, start: int) -> Sums:
    distance = np.abs(totals / total - 1)
    far = distance > ROUNDED
    first = start + int(np.argmax(far)) if seen.first_off < 0 and far.any() else seen.first_off
    return Sums(max(seen.error, float(distance.max())), seen.off + int(far.sum()), first)


def _refuse_stray(item: Found, scores: Array) -> None:
    """Raises for NaN or infinity, or else for values beyond float32; returns if there are none of either."""
    stray, beyond = (
        ("NaN or infinity", "remove these rows or compute them again"),
        (
            "values beyond the range of float32 (3.4e38)",
            "divide the logits by a constant",
        ),
    )
    for (what, cure), test in ((stray, lambda x: ~np.isfinite(x)), (beyond, lambda x: np.abs(x) > LARGEST)):
        count, place = 0, (0, 0)
        for start, rows in chunks(scores):
            bad = test(rows)
            if count == 0 and bad.any():
                row, column = (int(n) for n in np.argwhere(bad)[0])
                place = (start + row, column)
            count += int(np.count_nonzero(bad))
        if count:
            masked = what is stray[0] and np.isneginf(float(scores[place]))
            cure = "write a finite number such as -1e4 for masked classes" if masked else cure
            where = f"the first at row {place[0]}, column {place[1]} (counted from 0)"
            raise refuse(item.file, f"{item.label} holds {what} in {plural(count, 'place')}, {where}", cure)


def oriented(
    items: Sequence[Found], rows: Sequence[int | None], transposed: bool | None, notices: list[Notice]
) -> list[Array]:
    """The scores of each side with one row a sample: axes of length 1 dropped, (K, N) turned to (N, K).

    `rows` is the number of samples where it is known: from the labels, or from the classes of a calibrator. A
    square matrix could be read either way; the other side of the split may tell which.
    """
    scores = [_matrix(item) for item in items]
    square = [matrix.shape[0] == matrix.shape[1] == n for matrix, n in zip(scores, rows, strict=True)]
    turned = [transposed or False] * len(items)
    if transposed is None:
        fits = [m.shape[1] == n != m.shape[0] for m, n in zip(scores, rows, strict=True)]
        turned = [fit or (any(fits) and either) for fit, either in zip(fits, square, strict=True)]
    for item, matrix, turn in zip(items, scores, turned, strict=True):
        shape = f"{item.file}: {item.label} of shape {shape_shown(matrix.shape)}"
        if turn:
            text = f"{shape} was transposed to one row a sample."
            notices.append(Notice("transposed", text, ROWS_ARE_SAMPLES))
        elif all(square) and len(matrix) > 1:
            text = f"{shape} could be read either way; a row is a sample."
            notices.append(Notice("square", text, COLUMNS_ARE_SAMPLES))
    return [matrix.T if turn else matrix for matrix, turn in zip(scores, turned, strict=True)]


def _matrix(item: Found) -> Array:
    """The scores as a matrix; a vector is one column."""
    scores = item.values
    if item.kind in "US":
        raise refuse(item.file, f"{item.label} holds text instead of numbers", "save the logits as numbers")
    scores = scores.reshape(squeezed(scores.shape))
    if scores.ndim == 0:
        raise refuse(item.file, f"{item.label} is a single number", "give one row a sample, one column a class")
    if scores.ndim > 2:
        what = f"{item.label} of shape {shape_shown(scores.shape)} is no matrix"
        raise refuse(item.file, what, "give one row a sample, one column a class")
    if scores.size == 0:
        raise refuse(item.file, f"{item.label} is empty", "save at least one row with two or more classes")
    return scores[:, None] if scores.ndim == 1 else scores


def log_of(probabilities: ProbabilityMatrix, floor: float, total: int = 1) -> LogitMatrix:
    """log(p / total) as float32, nothing below the floor (in the unit of p): its softmax is p again, but for zeros."""
    out = np.empty(probabilities.shape, dtype=np.float32)
    for start, rows in chunks(probabilities):
        raised = np.maximum(rows, floor)
        out[start : start + len(rows)] = np.log(raised if total == 1 else raised / total)
    return LogitMatrix(out)


def matrix_to_logits(item: Found, scores: Array, values: str | None, notices: list[Notice]) -> LogitMatrix:
    """Logits from a matrix of logits, probabilities or percentages; the caller says which, or the row sums."""
    seen = scan(item, scores)
    if values == PROBABILITIES and seen.low < 0:
        what = f"{item.label} was to be read as probabilities but holds negative numbers (down to {seen.low:g})"
        raise refuse(item.file, what, "read it as logits")
    total = next((t for t in NOUNS if seen.could_be(t) and seen.sums[t].off == 0), None)
    if values is None and total is None:
        _refuse_nearly(item, seen, len(scores))
    if values == PROBABILITIES or (values is None and total is not None):
        return _shares_to_logits(item, scores, seen, total or (1 if seen.could_be(1) else 100), notices)
    start = f"{item.file}: {item.label}"
    if total is not None:
        text = f"{start} looks like {NOUNS[total]} but is read as logits, as asked."
        notices.append(Notice("read_as_logits", text, THESE_ARE_PROBABILITIES))
    elif seen.low >= 0 and seen.high <= 1:
        text = f"{start} lies in 0 to 1 but its rows do not sum to 1; taken as logits."
        notices.append(Notice("maybe_probabilities", text, THESE_ARE_PROBABILITIES))
    return within_reach(item, as_float32(scores), seen, notices)


def _refuse_nearly(item: Found, seen: Scan, rows: int) -> None:
    """Raises where all but a few rows are shares of one total."""
    for total, noun in NOUNS.items():
        sums = seen.sums[total]
        if seen.could_be(total) and 0 < sums.off <= rows // 100:
            what = (
                f"{item.label} looks like {noun}, but not in {plural(sums.off, 'row')}, "
                f"where the sum is not {total} (the first is row {sums.first_off}, counted from 0)"
            )
            raise refuse(item.file, what, "correct these rows, or say what they are with values=")


def _shares_to_logits(item: Found, scores: Array, seen: Scan, total: int, notices: list[Notice]) -> LogitMatrix:
    floor = floor_of((rows for _, rows in chunks(scores)), scores.shape[1], total, spacing(scores), seen.low)
    zeros = f" ({plural(seen.zeros, 'zero')} taken as {floor.value:.2g})" if seen.zeros else ""
    error = seen.sums[total].error
    rounded = f", rows sum to {total} within {error * total:.2g}" if error > EXACT else ""
    if error > ROUNDED:
        rounded = f" whose rows do not sum to {total} (off by up to {error * total:.2g})"
    how = "their logarithm" if total == 1 else f"the logarithm of a {total}th of them"
    text = f"{item.file}: {item.label} holds {NOUNS[total]}{rounded}; {how} is used as logits{zeros}.{_looks(floor)}"
    notices.append(Notice(NOUNS[total], text, THESE_ARE_LOGITS))
    return log_of(ProbabilityMatrix(scores), floor.value, total)


def _looks(floor: Floor) -> str:
    return f" They look {floor.rounding}; logits would be better." if floor.rounding else ""


def spacing(scores: Array) -> float:
    """The distance of neighbouring numbers of the stored type at 1; 0 for whole numbers."""
    return float(np.finfo(scores.dtype).eps) if scores.dtype.kind == "f" else 0.0


def columns_to_logits(
    items: Sequence[Found], columns: Sequence[Array], values: str | None, notices: list[Notice]
) -> list[LogitMatrix]:
    """Two classes from one score a row, of class 1; both sides of a split are read alike.

    [log(1 - p), log p] from a probability (or a percentage, where it is said to be one), [0, z] from a logit.
    """
    scans = [scan(item, column) for item, column in zip(items, columns, strict=True)]
    low, high = min(seen.low for seen in scans), max(seen.high for seen in scans)
    total = next((total for total in NOUNS if low >= 0 and high <= total), None)
    if values == PROBABILITIES and total is None:
        raise refuse(items[0].file, f"{items[0].label} holds values outside 0 to 1 (or 100)", "read it as logits")
    shares = values == PROBABILITIES or (values is None and total == 1)
    kind = {1: "probability", 100: "percentage"}[total or 1] if shares else "logit"
    other = {1: THESE_ARE_PROBABILITIES, 100: THESE_ARE_PERCENTAGES}.get(total or 0)
    cure = THESE_ARE_LOGITS if shares else other
    result = []
    for item, column, seen in zip(items, columns, scans, strict=True):
        out = np.zeros((len(column), 2), dtype=np.float32)
        looks = ""
        if shares:
            whole = total or 1
            p = column[:, 0].astype(np.float64)
            floor = floor_of([p], 2, whole, spacing(column))
            other_floor = floor if floor.rounding else floor_of([whole - p], 2, whole, spacing(column))
            out[:, 0] = np.log(np.maximum(whole - p, other_floor.value) / whole)
            out[:, 1] = np.log(np.maximum(p, floor.value) / whole)
            looks = _looks(floor)
        else:
            out[:, 1] = column[:, 0]
        text = f"{item.file}: {item.label} has one column, taken as the {kind} of class 1 of 2.{looks}"
        notices.append(Notice("binary_column", text, cure))
        result.append(within_reach(item, out, seen, notices))
    return result


def within_reach(item: Found, logits: Array, seen: Scan, notices: list[Notice]) -> LogitMatrix:
    """The logits with none beyond REACH: a row whose largest is beyond it is shifted so that this one is 0, which
    changes no softmax, and what lies further below is raised to -REACH. Order of the top and ties are kept.
    """
    if max(seen.high, -seen.low) <= REACH:
        return LogitMatrix(logits)
    out, touched = np.empty(logits.shape, dtype=np.float32), 0
    for start, rows in chunks(logits):
        exact = rows.astype(np.float64)
        top = exact.max(axis=1, keepdims=True)
        exact -= np.where(np.abs(top) > REACH, top, 0.0)
        out[start : start + len(rows)] = np.maximum(exact, -REACH)
        touched += int(np.any(np.abs(rows) > REACH, axis=1).sum())
    text = (
        f"{item.file}: {item.label} goes beyond {REACH:.0e} in {plural(touched, 'row')}, where differences "
        "overflow; such rows are shifted, and logits far below their largest raised, which changes no probability."
    )
    notices.append(Notice("beyond_reach", text))
    return LogitMatrix(read_only(out))


def as_float32(array: Array) -> Array:
    """C-contiguous, read-only float32; the same memory where it is so already."""
    ready = array.dtype == np.float32 and array.dtype.isnative and array.flags.c_contiguous and array.flags.aligned
    return read_only(array if ready else np.array(array, dtype=np.float32, order="C"))
