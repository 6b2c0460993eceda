"""From the columns of a table to raw arrays: which column is the label, which are logits, and which are metadata."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from smart_core.data.formats.raw import Column, RawArray, RawFile
from smart_core.data.logitset import Array, Notice
from smart_core.data.roles.candidates import WHOLE, Candidate
from smart_core.data.roles.confidences import as_confidences
from smart_core.data.roles.names import METADATA_ROLE, role_of, split_of
from smart_core.errors import LogitFileError
from smart_core.formatting import printable

_INDEX_NAMES = frozenset({"", "index", "id", "idx", "row", "sample", "sample_id", "__index_level_0__"})
_WITHOUT_MEANING = frozenset({"", "__index_level_0__"})
"""Names of row numbers that pandas adds on its own."""
_NUMBERED = re.compile(r"(.*?)[_ .\-\[(]*(\d+)[\])]*")
_RANKED = re.compile(r"(.*?)(\d+)(.*)")
_OF_CLASS = re.compile(
    r"(?:logits?|(?:log_?)?(?:probs?|probabilit(?:y|ies)|likelihoods?)|probas?|scores?|outputs?|softmax|p|z)"
    r"(?:[_ .:\-](.+)|[(\[](.+)[)\]])",
    re.IGNORECASE,
)
"""A column named after its class: `logit_cat`, `P(cat)`."""


def arrays_of_table(table: RawFile) -> RawFile:
    """Return the file with the columns of its table as arrays.

    Columns named label, split, group, ... have these roles; list columns are arrays of their own; of the others, those
    that are named as scores, or else all numeric ones, in order, are the logits, and the rest are metadata. A table
    with a single column is that array.
    """
    columns, named = table.columns, table.has_header
    if not columns or len(columns[0].values) == 0:
        raise LogitFileError("is a table without rows", "save it again with one row per sample", file=table.name)
    raw = replace(table, columns=None)
    label_splits = {split_of(column.name) for column in columns if role_of(column.name) == "labels"} - {None}
    if any(column.values.ndim == 2 for column in columns) or len(label_splits) > 1:
        raw.arrays = [RawArray.of(raw.name, (c.name,), c.values) for c in columns]
        return raw
    confidences = _confidences(columns, raw) if named else None
    if confidences is not None:
        raw.arrays = [replace(c.array, role=c.role or METADATA_ROLE) for c in confidences]
        return raw
    rest: list[Column] = []
    features: list[Column] = []
    for column in columns:
        role = role_of(column.name) if named else None
        if role in ("labels", "split", "group", "cw_l2"):
            _add(raw, column.name, column.values, role)
        elif named and role == "features" and _NUMBERED.fullmatch(column.name):
            features.append(column)
        else:
            rest.append(column)
    logits = _logit_columns(rest, raw)
    if not any(item.role == "labels" for item in raw.arrays):
        logits = _take_label(logits, raw)
    if features:
        _add(raw, "features", _matrix(features), "features")
    if len(logits) == 1 and not raw.arrays:  # its name decides the role, or else the file's name
        _add(raw, logits[0].name if named and role_of(logits[0].name) else raw.stem, logits[0].values, None)
    elif logits:
        span = f"{logits[0].name}..{logits[-1].name}" if named else f"columns 0..{len(logits) - 1}"
        _add(raw, span, _matrix(logits), "logits")
        names = _class_names(logits) if named else None
        if names is not None:
            _add(raw, "column names", names, "class_names")
    return raw


def _add(raw: RawFile, name: str, values: Array, role: str | None) -> None:
    raw.arrays.append(RawArray.of(raw.name, (name,), values, role=role))


def _confidences(columns: Sequence[Column], raw: RawFile) -> list[Candidate] | None:
    """Return the columns with their roles if the table holds a confidence per row and no column per class."""
    ranks = _roles_of_ranks(columns)
    if not ranks and _score_columns(columns):
        return None
    return as_confidences(
        [
            Candidate(RawArray.of(raw.name, (c.name,), c.values), WHOLE, ranks.get(c.name) or role_of(c.name))
            for c in columns
            if c.name not in _WITHOUT_MEANING
        ]
    )


def _roles_of_ranks(columns: Sequence[Column]) -> dict[str, str]:
    """Return the roles of the columns that hold the few most likely classes of each row and their scores, if any do.

    Such are `pred_1, prob_1, pred_2, prob_2, ...` and `top1_class, top1_conf, ...`: a number counts the ranks, the
    classes of a row differ, and the scores do not rise. The first of each are the prediction and its confidence.
    """
    ranks: dict[tuple[str, str], list[Column]] = {}
    for column in columns:
        if found := _RANKED.fullmatch(column.name):
            ranks.setdefault((found[1], found[3]), []).append(column)
    several = [own for own in ranks.values() if len(own) > 1]
    scores = [own for own in several if all(c.values.dtype.kind == "f" for c in own) and _never_rise(own)]
    classes = [own for own in several if all(_is_count(c) or c.values.dtype.kind in "US" for c in own) and _differ(own)]
    if len(scores) != 1 or len(classes) != 1 or len(scores[0]) != len(classes[0]):
        return {}
    others = {c.name: METADATA_ROLE for c in (*scores[0], *classes[0])}
    return others | {scores[0][0].name: "confidence", classes[0][0].name: "prediction"}


def _never_rise(columns: Sequence[Column]) -> bool:
    matrix = _matrix([*columns])
    return bool(np.all((matrix >= 0) & (matrix <= 1)) and np.all(np.diff(matrix, axis=1) <= 0))


def _differ(columns: Sequence[Column]) -> bool:
    first = columns[0].values
    return all(c.values.dtype.kind == first.dtype.kind and not np.any(c.values == first) for c in columns[1:])


def _score_columns(columns: Sequence[Column]) -> list[Column]:
    """Return the numeric columns whose names say that they are scores: logit_0, prob_cat, or 0, 1, 2, ..."""
    numeric = [c for c in columns if _is_number(c)]
    for test in (
        lambda c: _prefix_role(c.name) == "logits",
        lambda c: _OF_CLASS.fullmatch(c.name) is not None,
        lambda c: c.name.strip().isdecimal(),
    ):
        found = [c for c in numeric if test(c)]
        if len(found) > 1:
            return found
    return []


def _is_number(column: Column) -> bool:
    return column.values.dtype.kind in "biuf"


def _is_count(column: Column) -> bool:
    """Return whether every entry is a non-negative integer."""
    values = column.values
    return _is_number(column) and values.ndim == 1 and bool(np.all((values >= 0) & (values % 1 == 0)))


def _logit_columns(rest: list[Column], raw: RawFile) -> list[Column]:
    """Return the numeric columns that are scores, sorted by number if they are named logit_0, logit_1, ..."""
    if not raw.has_header:
        return [column for column in rest if _is_number(column)]
    named = _score_columns(rest)
    chosen = named or [c for c in rest if _is_number(c) and c.name.lower() not in _INDEX_NAMES]
    if len(chosen) > 1 and not named:
        # beside scores, one column of integers named prediction is the predicted class
        chosen = [c for c in chosen if not (_is_count(c) and role_of(c.name) == "logits")] or chosen
    kept = {id(column) for column in chosen}
    for column in rest:
        if id(column) not in kept and column.name not in _WITHOUT_MEANING:
            _add(raw, column.name, column.values, METADATA_ROLE)
    order = sorted(chosen, key=lambda c: _number(c.name)) if len(named) > 1 else chosen
    if [c.name for c in order] != [c.name for c in chosen]:
        raw.notices.append(Notice("reordered", f"{raw.name}: logit columns sorted by their numbers."))
    return order


def _take_label(columns: list[Column], raw: RawFile) -> list[Column]:
    """Without a column named label, use the only column of integers, or the last or first of several."""
    counts = [i for i, column in enumerate(columns) if _is_count(column)]
    if len(columns) < 2 or not counts or (len(counts) == len(columns) and (raw.has_header or len(columns) > 2)):
        return columns
    last = len(columns) - 1
    index = last if last in counts else 0 if 0 in counts else counts[0] if len(counts) == 1 else None
    if index is None:
        return columns
    label = columns[index]
    which = f"'{printable(label.name)}'" if raw.has_header else f"{index} (counted from 0)"
    _add(raw, label.name, label.values, "labels")
    text = f"{raw.name}: column {which} holds integers and is used as the labels."
    raw.notices.append(Notice("guessed_roles", text))
    return columns[:index] + columns[index + 1 :]


def _matrix(columns: list[Column]) -> Array:
    return np.stack([column.values for column in columns], axis=1)


def _prefix_role(name: str) -> str | None:
    match = _NUMBERED.fullmatch(name)
    return role_of(match[1]) if match and match[1] else None


def _number(name: str) -> int:
    match = _NUMBERED.fullmatch(name)
    return int(match[2]) if match else -1


def _class_names(columns: list[Column]) -> Array | None:
    """Return the column names if they are not numbered; `logit_cat` becomes `cat`."""
    if len(columns) < 2 or any(_NUMBERED.fullmatch(c.name) for c in columns):
        return None
    found = [_OF_CLASS.fullmatch(c.name) for c in columns]
    return np.array(
        [(match[1] or match[2]) if match else c.name for match, c in zip(found, columns, strict=True)], dtype=np.str_
    )
