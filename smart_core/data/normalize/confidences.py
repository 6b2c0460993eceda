"""Confidences as users save them -> float64 in [0, 1], and whether each prediction is correct."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from smart_core.data.formats.raw import RawArray
from smart_core.data.logitset import PREDICTED_LABEL, TRUE_LABEL, Array, Notice, Part, read_only
from smart_core.data.normalize import extras
from smart_core.data.normalize.logits import EXACT
from smart_core.data.roles.assign import Assignment
from smart_core.data.roles.confidences import FALSE_WORDS, TRUE_WORDS
from smart_core.data.roles.names import words
from smart_core.errors import LogitFileError
from smart_core.formatting import plural, printable

LARGEST_RATING = 10
"""Whole numbers up to this are answers on a scale from 1 to 5 or 10, and not percentages, none of which is higher."""


def is_confidences(assigned: Assignment) -> bool:
    """Return whether the arrays are confidences without logits; raise if those of one split are and others are not."""
    have = {split: "confidence" in part for split, part in assigned.parts.items()}
    if any(have.values()) and not all(have.values()):
        split = next(split for split, confident in have.items() if not confident)
        item = assigned.parts[split]["logits"]
        raise LogitFileError(
            f"the {split} part holds logits and the other confidences alone",
            "give both in the same form",
            file=item.file,
        )
    return any(have.values())


def confidence_parts_of(assigned: Assignment, notices: list[Notice]) -> dict[str, Part]:
    """Return {split: part} of confidences."""
    items = {split: part["confidence"] for split, part in assigned.parts.items()}
    confidences, percentages = fractions(items)
    if percentages:
        text = "holds percentages; a hundredth of them is the confidence."
        notices.append(next(iter(items.values())).notice("percentages", text))
    if any(map(_is_logarithm, items.values())):
        text = "holds logarithms; their exponential is the confidence."
        notices.append(next(iter(items.values())).notice("logarithms", text))
    return {
        split: _part(part, confidences[split], assigned.metadata.get(split, {}), notices)
        for split, part in assigned.parts.items()
    }


def fractions(items: Mapping[str, RawArray]) -> tuple[dict[str, Array], bool]:
    """Return the confidences of each split, from 0 to 1, and whether they were percentages."""
    numbers = {split: _numbers(item) for split, item in items.items()}
    largest = max(float(values.max()) for values in numbers.values())
    percentages = largest > 1 + EXACT
    if 1 < largest <= LARGEST_RATING and all(np.all(values % 1 == 0) for values in numbers.values()):
        problem = f"holds whole numbers up to {largest:g}: ratings, not confidences from 0 to 1 or percentages"
        raise next(iter(items.values())).error(problem, "divide them by the highest rating of the scale")
    total = 100 if percentages else 1
    return {split: np.clip(values / total, 0.0, 1.0) for split, values in numbers.items()}, percentages


def _numbers(item: RawArray) -> Array:
    """Return finite numbers from 0 to 100; text such as 85% is read too."""
    values = item.values.reshape(-1)
    if len(values) == 0:
        raise item.error("is empty", "save at least one row")
    if item.kind in "US":
        text = np.char.strip(extras.text_of(item), "% \u00a0")
        try:
            values = text.astype(np.float64)
        except ValueError:
            row = next(row for row, word in enumerate(text.tolist()) if not _is_number(word))
            problem = f"holds '{printable(str(item.values.reshape(-1)[row]))}' at row {row} (counted from 0)"
            raise item.error(problem, "give each confidence as a number from 0 to 1") from None
    values = values.astype(np.float64)
    low, high, wanted = -EXACT, 100.0, "a confidence from 0 to 1"
    if _is_logarithm(item):
        low, high, wanted = -np.inf, EXACT, "the logarithm of a confidence"
    with np.errstate(invalid="ignore"):
        bad = ~((values >= low) & (values <= high))
    if bad.any():
        row = int(np.argmax(bad))
        count = plural(int(bad.sum()), "row")
        problem = f"holds {values[row]:g} at row {row} (counted from 0), not {wanted}, in {count}"
        raise item.error(problem, "correct or drop these rows")
    return np.exp(values) if _is_logarithm(item) else values


def _is_logarithm(item: RawArray) -> bool:
    return bool({"log", "ln", "logprob", "logprobs"} & {*words(str(item.path[-1:]))})


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _part(
    found: Mapping[str, RawArray], confidence: Array, metadata: Mapping[str, RawArray], notices: list[Notice]
) -> Part:
    rows = len(confidence)
    labels = {name: found.get(role) for name, role in ((TRUE_LABEL, "labels"), (PREDICTED_LABEL, "prediction"))}
    known = {name: read_only(extras.metadata_of(item, rows)) for name, item in labels.items() if item is not None}
    agree = _equal(*known.values()) if len(known) == 2 else None
    correct = _truth(found["correct"], rows) if "correct" in found else agree
    assert correct is not None
    if agree is not None and "correct" in found and (agree != correct).any():
        count = plural(int((agree != correct).sum()), "row")
        text = f"differs from whether label and prediction agree in {count}; it is used as it is."
        notices.append(found["correct"].notice("correct_differs", text))
    others = extras.others_of(found, metadata, rows, notices)
    others["metadata"] = known | {name: values for name, values in others["metadata"].items() if name not in known}
    return Part.of_confidences(confidence, correct, **others)


def _truth(item: RawArray, rows: int) -> Array:
    """Return whether each prediction is correct, from 0 and 1, true and false, yes and no, ..."""
    text = np.char.lower(extras.text_of(item))
    if len(text) != rows:
        problem = f"has {plural(len(text), 'row')} but there are {rows:,} confidences"
        raise item.error(problem, "save both from the same samples, in the same order")
    right = np.isin(text, TRUE_WORDS)
    odd = ~(right | np.isin(text, FALSE_WORDS))
    if odd.any():
        row = int(np.argmax(odd))
        problem = f"holds '{printable(str(text[row]))}' at row {row} (counted from 0)"
        raise item.error(problem, "write 1 or 0, or true or false")
    return right


def _equal(first: Array, second: Array) -> Array:
    """Return where two columns of labels agree; a number equals its text."""
    if (first.dtype.kind == "U") != (second.dtype.kind == "U"):
        first, second = extras.as_text(first), extras.as_text(second)
    return np.asarray(first == second)
