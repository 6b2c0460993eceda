"""Scores as users save them -> (N, K) float32 logits: orientation, single columns, probabilities, invalid values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from smart_core.data.formats.raw import RawArray
from smart_core.data.logitset import Array, Cure, Notice, read_only
from smart_core.data.roles.candidates import squeezed
from smart_core.errors import Fix
from smart_core.formatting import plural, shape_text

LOGITS, PROBABILITIES = "logits", "probabilities"
THESE_ARE_LOGITS = Cure("values", LOGITS, "These are logits")
THESE_ARE_PROBABILITIES = Cure("values", PROBABILITIES, "These are probabilities")
THESE_ARE_PERCENTAGES = Cure("values", PROBABILITIES, "These are percentages")
ROWS_ARE_SAMPLES = Cure("transposed", False, "The rows are the samples")
COLUMNS_ARE_SAMPLES = Cure("transposed", True, "The columns are the samples")

LARGEST = float(np.finfo(np.float32).max)
TINY = float(np.finfo(np.float32).tiny)
"""The smallest positive normal float32: no zero is replaced by less."""
MAX_LOGIT = 1e30
"""Logits are kept within this, so that their differences, and sums over the classes, stay finite in float32."""
CHUNK = 1 << 18
"""Numbers processed at a time; a chunk and its temporaries stay in the cache."""
EXACT, ROUNDED = 1e-3, 5e-2
"""How far the row sums of probabilities may be from 1; beyond the first, a notice says that they were rounded."""
NOUNS = {1: "probabilities", 100: "percentages"}
"""Row sum -> what such values are called."""
MAX_DECIMALS = 6
ZEROS_SHARE = 0.01
"""The most that the zeros of a row may add up to, so that its softmax stays close to the row that was saved."""

ONE_ROW_PER_SAMPLE = "give one row per sample and one column per class"


@dataclass
class RowSums:
    """How far the row sums of a matrix are from a total (1 or 100), as fractions of it."""

    total: int
    error: float = 0.0
    """The largest distance of a row sum from the total."""
    off: int = 0
    """Rows whose sum is further than ROUNDED from it."""
    first_off: int = -1

    def add(self, sums: Array, start: int) -> None:
        """Include the sums of the rows from `start` on."""
        distance = np.abs(sums / self.total - 1)
        far = distance > ROUNDED
        if self.off == 0 and far.any():
            self.first_off = start + int(np.argmax(far))
        self.error, self.off = max(self.error, float(distance.max())), self.off + int(far.sum())


@dataclass(frozen=True)
class Scan:
    """The result of one pass over a matrix of scores."""

    low: float
    high: float
    zeros: int
    sums: dict[int, RowSums]
    absent: int = 0
    """Entries of -inf: classes that a row does not have."""
    fewest: int = 0
    """The smallest number of classes of a row that lacks some."""

    def could_be(self, total: int) -> bool:
        """Return whether all values are in the range of probabilities (total 1) or percentages (total 100)."""
        return self.low >= -1e-6 * total and self.high <= total * (1 + EXACT)


def chunks(scores: Array) -> Iterator[tuple[int, Array]]:
    """Yield (first row, rows) in pieces of about CHUNK numbers, as float32 or float64."""
    size, kind = scores.dtype.itemsize, scores.dtype.kind
    dtype = np.float64 if size > 4 or (kind in "iu" and size > 2) else np.float32
    step = max(1, CHUNK // max(1, scores.shape[1]))
    for start in range(0, len(scores), step):
        yield start, np.asarray(scores[start : start + step], dtype=dtype)


def scan(item: RawArray, scores: Array, absent: bool = False) -> Scan:
    """Read every score once; raise with the position of NaN, infinity and values beyond float32.

    With `absent`, -inf is a class that a row does not have, of which each row must have two.
    """
    low, high, zeros, lacking, fewest = np.inf, -np.inf, 0, 0, scores.shape[1]
    sums = {total: RowSums(total) for total in NOUNS}
    for start, rows in chunks(scores):
        with np.errstate(over="ignore", invalid="ignore"):
            totals = rows.sum(axis=1, dtype=np.float64)
        if not np.isfinite(totals).all():
            there = ~np.isneginf(rows)
            if not absent or not np.isfinite(rows[there]).all():
                _raise_invalid(item, scores, absent)
            counts = there.sum(axis=1)
            _check_counts(item, counts, start)
            lacking, fewest = lacking + int(rows.size - counts.sum()), min(fewest, int(counts.min()))
            rows = np.where(there, rows, rows.max(axis=1, keepdims=True))  # in nothing below does it matter
            totals = np.where(there.all(axis=1), totals, np.inf)
        low, high = min(low, float(rows.min())), max(high, float(rows.max()))
        for seen in sums.values():
            seen.add(totals, start)
        if low >= 0:
            zeros += int(rows.size - np.count_nonzero(rows))
    if max(high, -low) > LARGEST:
        _raise_invalid(item, scores)
    return Scan(low, high, zeros, sums, lacking, fewest)


def _check_counts(item: RawArray, counts: Array, start: int) -> None:
    """Raise for a row with fewer than two classes: it has no confidence to calibrate."""
    if (counts < 2).any():
        row = int(np.argmax(counts < 2))
        has = "a single class" if counts[row] else "no class"
        problem = f"has {has} in row {start + row} (counted from 0), the others are -inf"
        raise item.error(problem, "drop rows with fewer than two classes")


def _raise_invalid(item: RawArray, scores: Array, absent: bool = False) -> None:
    """Raise for NaN or infinity, else for values beyond float32; return if there are none of either."""
    beyond = "values beyond the range of float32 (3.4e38)"
    for what, fix, test in (
        (
            "NaN or infinity",
            "remove these rows or compute them again",
            lambda x: ~(np.isfinite(x) | (np.isneginf(x) & absent)),
        ),
        (beyond, "divide the logits by a constant", lambda x: np.abs(x) > LARGEST),
    ):
        count, first = 0, (0, 0)
        for start, rows in chunks(scores):
            bad = test(rows)
            if count == 0 and bad.any():
                row, column = (int(n) for n in np.argwhere(bad)[0])
                first = (start + row, column)
            count += int(np.count_nonzero(bad))
        if count:
            fixes = [fix]
            if np.isneginf(float(scores[first])):
                fixes = ["write a finite number such as -1e4 for masked classes"]
            elif np.isnan(float(scores[first])) and absent:
                fixes.append("write -inf for the classes that a row does not have")
            where = f"the first at row {first[0]}, column {first[1]} (counted from 0)"
            raise item.error(f"holds {what} in {plural(count, 'place')}, {where}", *fixes)


def oriented(
    items: Sequence[RawArray], rows: Sequence[int | None], transposed: bool | None, notices: list[Notice]
) -> list[Array]:
    """Return the scores of each split with one row per sample: axes of length 1 dropped, (K, N) transposed to (N, K).

    `rows` is the number of samples if it is known, from the labels or from the classes of a calibrator. A square
    matrix could be read either way, unless the other split shows which.
    """
    scores = [_matrix(item) for item in items]
    square = [matrix.shape[0] == matrix.shape[1] == n for matrix, n in zip(scores, rows, strict=True)]
    turned = [transposed or False] * len(items)
    if transposed is None:
        fits = [m.shape[1] == n != m.shape[0] for m, n in zip(scores, rows, strict=True)]
        turned = [fit or (any(fits) and either) for fit, either in zip(fits, square, strict=True)]
    for item, matrix, turn in zip(items, scores, turned, strict=True):
        shape = f"of shape {shape_text(matrix.shape)}"
        if turn:
            text = f"{shape} was transposed to one row per sample."
            notices.append(item.notice("transposed", text, ROWS_ARE_SAMPLES))
        elif all(square) and len(matrix) > 1:
            text = f"{shape} could be read either way; its rows are used as samples."
            notices.append(item.notice("square", text, COLUMNS_ARE_SAMPLES))
    return [matrix.T if turn else matrix for matrix, turn in zip(scores, turned, strict=True)]


def _matrix(item: RawArray) -> Array:
    """Return the scores as a matrix; a vector is one column."""
    scores = item.values
    if item.kind in "US":
        raise item.error("holds text instead of numbers", "save the logits as numbers")
    scores = scores.reshape(squeezed(scores.shape))
    if scores.ndim == 0:
        raise item.error("is a single number", ONE_ROW_PER_SAMPLE)
    if scores.ndim > 2:
        raise item.error(f"of shape {shape_text(scores.shape)} is not a matrix", ONE_ROW_PER_SAMPLE)
    if scores.size == 0:
        raise item.error("is empty", "save at least one row with two or more classes")
    return scores[:, None] if scores.ndim == 1 else scores


def logits_of(
    items: Sequence[RawArray], scores: Sequence[Array], values: str | None, notices: list[Notice]
) -> list[Array]:
    """Return logits of two or more classes from oriented scores; a single column gives two classes."""
    if scores[0].shape[1] == 1:
        logits = columns_to_logits(items, scores, values, notices)
    else:
        logits = [matrix_to_logits(item, matrix, values, notices) for item, matrix in zip(items, scores, strict=True)]
    notices += [
        item.notice("coarse_dtype", f"was saved as {item.dtype}, so its margins are rounded.")
        for item in items
        if item.dtype in ("float16", "bfloat16", "int8", "uint8")
    ]
    return logits


def matrix_to_logits(item: RawArray, scores: Array, values: str | None, notices: list[Notice]) -> Array:
    """Return logits from a matrix of logits, probabilities or percentages; the caller says which, or the row sums."""
    seen = scan(item, scores, absent=values != PROBABILITIES)
    if seen.absent:
        text = f"has {seen.fewest} to {scores.shape[1]} classes per row; where it is -inf, the row lacks the class."
        notices.append(item.notice("ragged_rows", text))
        return within_range(item, as_float32(scores), seen, notices)
    if values == PROBABILITIES and seen.low < 0:
        problem = f"was to be read as probabilities but holds negative numbers (down to {seen.low:g})"
        raise item.error(problem, "read it as logits")
    total = next((t for t in NOUNS if seen.could_be(t) and seen.sums[t].off == 0), None)
    if values is None and total is None:
        _raise_if_nearly_probabilities(item, seen, len(scores))
    if values == PROBABILITIES or (values is None and total is not None):
        return _probabilities_to_logits(item, scores, seen, total or (1 if seen.could_be(1) else 100), notices)
    if total is not None:
        text = f"looks like {NOUNS[total]} but is read as logits, as requested."
        notices.append(item.notice("read_as_logits", text, THESE_ARE_PROBABILITIES))
    elif seen.low >= 0 and seen.high <= 1:
        text = "is between 0 and 1 but its rows do not sum to 1; read as logits."
        notices.append(item.notice("maybe_probabilities", text, THESE_ARE_PROBABILITIES))
    return within_range(item, as_float32(scores), seen, notices)


def _raise_if_nearly_probabilities(item: RawArray, seen: Scan, rows: int) -> None:
    """Raise if all but a few rows are probabilities, or percentages."""
    for total, noun in NOUNS.items():
        sums = seen.sums[total]
        if seen.could_be(total) and 0 < sums.off <= rows // 100:
            where = f"the sum is not {total} (the first is row {sums.first_off}, counted from 0)"
            problem = f"looks like {noun}, but not in {plural(sums.off, 'row')}, where {where}"
            raise item.error(problem, "correct these rows", Fix("values"))


def _probabilities_to_logits(item: RawArray, scores: Array, seen: Scan, total: int, notices: list[Notice]) -> Array:
    """Return log(max(p, floor) / total) as float32; without zeros, its softmax is p / total again."""
    pieces = (rows for _, rows in chunks(scores))
    floor, decimals = zero_floor(pieces, scores.shape[1], total, spacing(scores), seen.low)
    zeros = f" ({plural(seen.zeros, 'zero')} replaced by {floor:.2g})" if seen.zeros else ""
    error = seen.sums[total].error
    rounded = f", rows sum to {total} within {error * total:.2g}" if error > EXACT else ""
    if error > ROUNDED:
        rounded = f" whose rows do not sum to {total} (off by up to {error * total:.2g})"
    how = "their logarithm" if total == 1 else f"the logarithm of a {total}th of them"
    text = f"holds {NOUNS[total]}{rounded}; {how} is used as logits{zeros}.{_rounding(decimals)}"
    notices.append(item.notice(NOUNS[total], text, THESE_ARE_LOGITS))
    logits = np.empty(scores.shape, dtype=np.float32)
    for start, rows in chunks(scores):
        raised = np.maximum(rows, floor)
        logits[start : start + len(rows)] = np.log(raised if total == 1 else raised / total)
    return logits


def zero_floor(
    pieces: Iterable[Array], classes: int, total: int = 1, eps: float = 0.0, low: float = 0.0
) -> tuple[float, int | None]:
    """Return the value that replaces a probability of 0, and the decimals that all values are rounded to, or None.

    The value is min(h, 0.01 total / K), where h is half the rounding step 10^-d, else half the smallest positive value.
    A rounded zero may have been anything up to h: with a far smaller value, its logit would dominate all others. With
    many classes, h for each zero would add up to more than the rest of the row, hence the other bound. `eps` is the
    spacing of the stored type at 1, the relative error of a rounded value. `low` is the smallest value of all: if it is
    positive, there is no need to search for it.
    """
    eps = max(eps, float(np.finfo(np.float32).eps))
    decimals: int | None = 0
    smallest = low if low > 0 else float(total)
    for rows in pieces:
        if low > 0 and decimals is None:
            break
        above = rows > 0
        smallest = min(smallest, float(np.min(rows, where=above, initial=total)))
        positive = rows[above].astype(np.float64) if decimals is not None else None
        while positive is not None and decimals is not None and not _are_multiples(positive, decimals, eps):
            fine = decimals < MAX_DECIMALS and 10.0 ** (decimals + 1) * eps * total < 0.2
            decimals = decimals + 1 if fine else None
    half = smallest / 2 if decimals is None else 0.5 * 10.0**-decimals
    return max(min(half, ZEROS_SHARE * total / classes), TINY * total), decimals


def _are_multiples(positive: Array, decimals: int, eps: float) -> bool:
    """Return whether all values are multiples of 10^-decimals, within the relative error of the type."""
    steps = positive * 10.0**decimals
    whole = np.round(steps)
    return bool((np.abs(steps - whole) <= eps * whole).all())


def _rounding(decimals: int | None) -> str:
    """Return ` They look rounded to 3 decimals; logits would be better.`, or nothing."""
    if decimals is None:
        return ""
    to = plural(decimals, "decimal") if decimals else "whole numbers"
    return f" They look rounded to {to}; logits would be better."


def spacing(scores: Array) -> float:
    """Return the distance of neighbouring numbers of the stored type at 1; 0 for integers."""
    return float(np.finfo(scores.dtype).eps) if scores.dtype.kind == "f" else 0.0


def columns_to_logits(
    items: Sequence[RawArray], columns: Sequence[Array], values: str | None, notices: list[Notice]
) -> list[Array]:
    """Return logits of two classes from one score per row, that of class 1; both splits are read alike.

    They are [log(1 - p), log p] for a probability (or a percentage, if the caller says so), and [0, z] for a logit.
    """
    scans = [scan(item, column) for item, column in zip(items, columns, strict=True)]
    low, high = min(seen.low for seen in scans), max(seen.high for seen in scans)
    total = next((total for total in NOUNS if low >= 0 and high <= total), None)
    if values == PROBABILITIES and total is None:
        raise items[0].error("holds values outside 0 to 1 (or 100)", "read it as logits")
    is_share = values == PROBABILITIES or (values is None and total == 1)
    kind = {1: "probability", 100: "percentage"}[total or 1] if is_share else "logit"
    other = {1: THESE_ARE_PROBABILITIES, 100: THESE_ARE_PERCENTAGES}.get(total or 0)
    result = []
    for item, column, seen in zip(items, columns, scans, strict=True):
        out, rounding = np.zeros((len(column), 2), dtype=np.float32), ""
        if is_share:
            whole, p = total or 1, column[:, 0].astype(np.float64)
            floor, decimals = zero_floor([p], 2, whole, spacing(column))
            other_floor = floor if decimals is not None else zero_floor([whole - p], 2, whole, spacing(column))[0]
            out[:, 0] = np.log(np.maximum(whole - p, other_floor) / whole)
            out[:, 1] = np.log(np.maximum(p, floor) / whole)
            rounding = _rounding(decimals)
        else:
            out[:, 1] = column[:, 0]
        text = f"has one column, used as the {kind} of class 1 of 2.{rounding}"
        notices.append(item.notice("binary_column", text, THESE_ARE_LOGITS if is_share else other))
        result.append(within_range(item, out, seen, notices))
    return result


def within_range(item: RawArray, logits: Array, seen: Scan, notices: list[Notice]) -> Array:
    """Return the logits, none of them beyond MAX_LOGIT.

    A row whose largest logit is beyond it is shifted so that the largest is 0, which does not change the softmax;
    logits below -MAX_LOGIT are raised to it. The order of the largest logits and their ties are kept.
    """
    if max(seen.high, -seen.low) <= MAX_LOGIT:
        return logits
    out, touched = np.empty(logits.shape, dtype=np.float32), 0
    for start, rows in chunks(logits):
        exact = rows.astype(np.float64)
        top = exact.max(axis=1, keepdims=True)
        exact -= np.where(np.abs(top) > MAX_LOGIT, top, 0.0)
        out[start : start + len(rows)] = np.where(np.isneginf(rows), rows, np.maximum(exact, -MAX_LOGIT))
        touched += int(np.any((np.abs(rows) > MAX_LOGIT) & ~np.isneginf(rows), axis=1).sum())
    text = (
        f"goes beyond {MAX_LOGIT:.0e} in {plural(touched, 'row')}, where differences overflow; "
        "these rows are shifted, and logits far below their largest raised, which changes no probability."
    )
    notices.append(item.notice("beyond_reach", text))
    return read_only(out)


def as_float32(array: Array) -> Array:
    """Return a C-contiguous, read-only float32 array; the array itself if it is one already."""
    ready = array.dtype == np.float32 and array.dtype.isnative and array.flags.c_contiguous and array.flags.aligned
    return read_only(array if ready else np.array(array, dtype=np.float32, order="C"))
