"""From labels as users save them to class indices 0..K-1; every change leaves a notice."""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import ascii_uppercase

import numpy as np

from smart_core.data.formats.raw import RawArray
from smart_core.data.logitset import Array, Cure, Notice
from smart_core.data.roles.candidates import is_one_hot
from smart_core.formatting import plural, printable, quoted, shape_text

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
"""Control characters, line separators, marks that change the writing direction, and lone surrogates.

Names are shown in figures, tables, files and terminals, each of which could fail on one of these.
"""
START_AT_0 = Cure("labels_start_at", 0, "Labels start at 0")
START_AT_1 = Cure("labels_start_at", 1, "Labels start at 1")
_ONE_INTEGER_PER_ROW = "give one integer per row"


def clean_text(words: Array) -> Array:
    """Return the strings with a question mark for every unprintable character; the same array if there is none."""
    names = np.unique(words)
    clean = np.array([_UNPRINTABLE.sub("?", name) for name in names.tolist()], dtype=np.str_)
    return words if np.array_equal(names, clean) else clean[np.searchsorted(names, words)]


def flat_labels(item: RawArray, notices: list[Notice]) -> Array:
    """Return a vector of int64 or of strings; (N, 1) and (1, N) are squeezed, one-hot rows replaced by their index."""
    values = item.values
    if values.ndim == 0:
        raise item.error("is a single value", _ONE_INTEGER_PER_ROW)
    if values.ndim > 1 and sum(n != 1 for n in values.shape) <= 1:
        text = f"of shape {shape_text(values.shape)} is used as a vector of labels."
        notices.append(item.notice("column_labels", text))
        values = values.reshape(-1)
    if values.ndim == 2 and values.dtype.kind in "biuf":
        for matrix, transposed in ((values, ""), (values.T, " and transposed")):
            if is_one_hot(matrix):
                text = f"is one-hot{transposed}; the index of the 1 is the label."
                notices.append(item.notice("one_hot_labels", text))
                return matrix.argmax(axis=1).astype(np.int64)
    if values.ndim != 1:
        problem = f"of shape {shape_text(values.shape)} is neither a vector of labels nor one-hot"
        raise item.error(problem, _ONE_INTEGER_PER_ROW)
    if len(values) == 0:
        raise item.error("is empty", "save at least one row")
    if values.dtype.kind == "S":
        return np.char.decode(values, "utf-8", "replace")
    if values.dtype.kind == "U":
        return values
    if values.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            bad = ~(np.isfinite(values) & (values % 1 == 0) & (np.abs(values) < 2**53))
        if bad.any():
            row, more = int(np.argmax(bad)), int(bad.sum()) - 1
            others = f" and {plural(more, 'more row')}" if more else ""
            problem = f"holds {values[row]:g}, not an integer, at row {row} (counted from 0){others}"
            raise item.error(problem, "give the class of each row as an integer, and drop rows without one")
        notices.append(item.notice("float_labels", f"holds integers as {item.dtype}."))
    elif values.dtype.kind == "u" and int(values.max()) > np.iinfo(np.int64).max:
        row = int(values.argmax())
        raise item.error(f"holds {values[row]} at row {row}", "labels are classes 0 to K-1")
    return values.astype(np.int64)


def text_to_codes(
    items: Sequence[RawArray],
    labels: list[Array],
    names: tuple[str, ...] | None,
    classes: int,
    notices: list[Notice],
) -> tuple[list[Array], tuple[str, ...] | None]:
    """Return text labels as indices into the class names; digits as text need no names, nor do A, B, C, ..."""
    if all(values.dtype.kind != "U" for values in labels):
        return labels, names
    stripped = [clean_text(np.char.strip(values.astype(np.str_))) for values in labels]
    if all(np.all(np.char.isdecimal(values)) and np.char.str_len(values).max() < 10 for values in stripped):
        return [values.astype(np.int64) for values in stripped], names
    letters = tuple(ascii_uppercase[:classes])
    if names is None and 1 < classes <= len(ascii_uppercase) and all(np.isin(v, letters).all() for v in stripped):
        text = f"{items[0].file}: the labels A to {letters[-1]} are used as the classes 0 to {classes - 1}."
        notices.append(Notice("letter_labels", text))
        names = letters
    if names is None:
        word = printable(str(stripped[0][0]))
        problem = f"holds text such as '{word}', and no class names say which class is which"
        raise items[0].error(problem, "add class_names in the order of the logit columns", "give integers")
    codes: dict[str, list[int]] = {}
    for k, name in enumerate(names):
        codes.setdefault(name, []).append(k)
    coded = []
    for item, values in zip(items, stripped, strict=True):
        for row, word in enumerate(values.tolist()):
            if len(codes.get(word, ())) != 1:
                raise _not_one_class(item, row, word, codes)
        coded.append(np.array([codes[word][0] for word in values.tolist()], dtype=np.int64))
    return coded, names


def _not_one_class(item: RawArray, row: int, word: str, codes: dict[str, list[int]]) -> Exception:
    """Return the error that a text label is not the name of a class, or is the name of several."""
    start = f"holds '{printable(word)}' at row {row} (counted from 0)"
    if word not in codes:
        return item.error(f"{start}, which is not a class name", f"the class names are {quoted(codes)}")
    several = " and ".join(map(str, codes[word]))
    return item.error(f"{start}, the name of classes {several}", "give every class its own name", "give integers")


def zero_based(
    items: Sequence[RawArray], labels: list[Array], classes: int, start_at: int | None, notices: list[Notice]
) -> list[Array]:
    """Return labels in 0..K-1; labels in 1..K (K occurs, 0 does not, in either split) are shifted down."""
    low = min(int(values.min()) for values in labels)
    high = max(int(values.max()) for values in labels)
    shift = low >= 1 and high == classes if start_at is None else start_at == 1
    run = f"{items[0].file}: labels run from {low} to {high} for {plural(classes, 'class')}"
    if shift:
        labels = [values - 1 for values in labels]
        notices.append(Notice("one_based_labels", f"{run}; 1 was subtracted.", START_AT_0))
    elif low == 1 and high < classes:
        notices.append(Notice("no_label_is_0", f"{run}; they are used as if they started at 0.", START_AT_1))
    for item, values in zip(items, labels, strict=True):
        bad = (values < 0) | (values >= classes)
        if bad.any():
            row, first = int(np.argmax(bad)), int(shift)
            where = f"at row {row} (counted from 0), outside {first} to {classes - 1 + first}"
            problem = f"holds {int(values[row]) + first} {where}, in {plural(int(bad.sum()), 'row')}"
            raise item.error(problem, "correct or drop these rows", "check that the logits have a column per class")
    return labels


def binary(item: RawArray, labels: list[Array], start_at: int | None, notices: list[Notice]) -> list[Array]:
    """Return the labels for one column of scores: 0 and 1, or -1 and 1, or 1 and 2; raise for others."""
    seen = set(np.unique(np.concatenate(labels)).tolist())
    if start_at is None and seen == {-1, 1}:
        notices.append(Notice("signed_labels", f"{item.file}: labels -1 and 1 are used as classes 0 and 1."))
        return [(values + 1) // 2 for values in labels]
    if seen == {1, 2} and start_at != 0:
        text = f"{item.file}: labels 1 and 2 are used as classes 0 and 1."
        notices.append(Notice("one_based_labels", text, START_AT_0))
        return [values - 1 for values in labels]
    if seen == {0, 1} and start_at != 1:
        return labels
    if len(seen) == 1:
        raise item.error(f"has a single column and every label is {seen.pop()}: one class only", "give two classes")
    problem = f"has a single column, but the labels run from {min(seen)} to {max(seen)}"
    raise item.error(problem, "give one column of scores per class, not predicted classes")
