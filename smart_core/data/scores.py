"""Scores as users save them -> (N, K) float32 logits: orientation, single columns, probabilities, strays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NewType

import numpy as np

from smart_core.data.found import Found, plural, refuse
from smart_core.data.logitset import Array, Notice, read_only

LogitMatrix = NewType("LogitMatrix", np.ndarray)
ProbabilityMatrix = NewType("ProbabilityMatrix", np.ndarray)

TINY = float(np.finfo(np.float32).tiny)
"""The smallest positive normal float32, which stands in for a probability of zero."""
LARGEST = float(np.finfo(np.float32).max)
CHUNK = 1 << 18
"""Numbers looked at together; a chunk and its temporaries stay in the cache."""
EXACT, ROUNDED = 1e-3, 5e-2
"""How far the row sums of probabilities may lie from 1; beyond the first they were rounded, which is said."""


@dataclass(frozen=True)
class Scan:
    """One pass over a matrix of scores."""

    low: float
    high: float
    sum_error: float
    """The largest distance of a row sum from 1."""
    rows_off: int
    """Rows whose sum is further than ROUNDED from 1."""
    first_off: int
    zeros: int


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
    low, high, error, off, first_off, zeros = np.inf, -np.inf, 0.0, 0, -1, 0
    for start, rows in chunks(scores):
        with np.errstate(over="ignore", invalid="ignore"):
            sums = rows.sum(axis=1, dtype=np.float64)
        if not np.isfinite(sums).all():
            _refuse_stray(item, scores)
        largest, smallest = rows.max(axis=1), rows.min(axis=1)
        low, high = min(low, float(smallest.min())), max(high, float(largest.max()))
        distance = np.abs(sums - 1)
        error = max(error, float(distance.max()))
        far = distance > ROUNDED
        if first_off < 0 and far.any():
            first_off = start + int(np.argmax(far))
        off += int(far.sum())
        if low >= 0:
            zeros += int(rows.size - np.count_nonzero(rows))
    if max(high, -low) > LARGEST:
        _refuse_stray(item, scores)
    return Scan(low, high, error, off, first_off, zeros)


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


def oriented(item: Found, rows: int, transpose: bool | None, notices: list[Notice]) -> Array:
    """The scores with one row a label: extra axes of length 1 dropped, (K, N) turned to (N, K)."""
    scores = item.values
    if item.kind in "US":
        raise refuse(item.file, f"{item.label} holds text instead of numbers", "save the logits as numbers")
    if scores.ndim > 2:
        scores = scores.reshape([n for i, n in enumerate(scores.shape) if n != 1 or i == 0])
    if scores.ndim > 2 or scores.ndim == 0:
        shape = " x ".join(map(str, scores.shape))
        raise refuse(
            item.file,
            f"{item.label} of shape {shape} is no matrix",
            "give one row a sample, one column a class",
        )
    if scores.size == 0:
        raise refuse(item.file, f"{item.label} is empty", "save at least one row with two or more classes")
    if scores.ndim == 1:
        scores = scores[:, None]
    fits = scores.shape[1] == rows != scores.shape[0]
    if transpose or (transpose is None and fits):
        shape = f"{scores.shape[0]} x {scores.shape[1]}"
        text = f"{item.file}: {item.label} of shape {shape} was transposed to one row a sample."
        notices.append(Notice("transposed", text))
        scores = scores.T
    return scores


def log_of(probabilities: ProbabilityMatrix) -> LogitMatrix:
    """log p as float32, zeros floored at the smallest positive normal one: the softmax of it is p again."""
    out = np.empty(probabilities.shape, dtype=np.float32)
    for start, rows in chunks(probabilities):
        out[start : start + len(rows)] = np.log(np.maximum(rows, TINY))
    return LogitMatrix(out)


def looks_like_probabilities(item: Found, scores: Scan, rows: int) -> bool:
    """Non-negative rows that sum to 1; refuses a matrix that is so for nearly all rows only."""
    if scores.low < -1e-6 or scores.high > 1 + EXACT:
        return False
    if 0 < scores.rows_off <= rows // 100:
        what = (
            f"{item.label} looks like probabilities, but not in {plural(scores.rows_off, 'row')}, "
            f"where the sum is not 1 (the first is row {scores.first_off}, counted from 0)"
        )
        raise refuse(item.file, what, "correct these rows, or say what they are with treat_as=")
    return scores.rows_off == 0


def matrix_to_logits(item: Found, scores: Array, treat_as: str | None, notices: list[Notice]) -> LogitMatrix:
    """Logits from a matrix of logits or probabilities; the caller says which, or the sums of the rows."""
    seen = scan(item, scores)
    if treat_as == "probabilities" and seen.low < 0:
        what = f"{item.label} was to be read as probabilities but holds negative numbers (down to {seen.low:g})"
        raise refuse(item.file, what, "read it as logits")
    if treat_as == "probabilities" or (treat_as is None and looks_like_probabilities(item, seen, len(scores))):
        zeros = f" ({plural(seen.zeros, 'zero')} replaced by {TINY:.2g})" if seen.zeros else ""
        rounded = f", rows sum to 1 within {seen.sum_error:.2g}" if seen.sum_error > EXACT else ""
        what = f"{item.label} holds probabilities{rounded}"
        text = f"{item.file}: {what}; their logarithm is used as logits{zeros}."
        notices.append(Notice("probabilities", text))
        return log_of(ProbabilityMatrix(scores))
    if treat_as is None and seen.low >= 0 and seen.high <= 1:
        text = f"{item.file}: {item.label} lies in 0 to 1 but its rows do not sum to 1; taken as logits."
        notices.append(Notice("maybe_probabilities", text))
    return LogitMatrix(as_float32(scores))


def column_to_matrix(item: Found, column: Array, probabilities: bool, notices: list[Notice]) -> LogitMatrix:
    """Two classes from one score a row, of class 1: [log(1 - p), log p], or [0, z] from a logit."""
    scan(item, column)
    out = np.zeros((len(column), 2), dtype=np.float32)
    if probabilities:
        p = column[:, 0].astype(np.float64)
        out[:, 0], out[:, 1] = np.log(np.maximum(1 - p, TINY)), np.log(np.maximum(p, TINY))
        kind = "probability"
    else:
        out[:, 1] = column[:, 0]
        kind = "logit"
    text = f"{item.file}: {item.label} has one column, taken as the {kind} of class 1 of 2."
    notices.append(Notice("binary_column", text))
    return LogitMatrix(out)


def as_float32(array: Array) -> Array:
    """C-contiguous, read-only float32; the same memory where it is so already."""
    ready = array.dtype == np.float32 and array.dtype.isnative and array.flags.c_contiguous and array.flags.aligned
    return read_only(array if ready else np.array(array, dtype=np.float32, order="C"))
