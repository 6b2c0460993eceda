"""From the columns of a table to raw arrays: which column is the label, and which are logits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from smart_core.data.formats.raw import Column, RawArray, RawFile
from smart_core.data.logitset import Array, Notice
from smart_core.data.roles.names import role_of, split_of
from smart_core.errors import LogitFileError
from smart_core.formatting import printable, quoted

_INDEX_NAMES = frozenset({"", "index", "id", "idx", "row", "sample", "sample_id", "__index_level_0__"})
_NUMBERED = re.compile(r"(.*?)[_ .\-\[(]*(\d+)[\])]*")


def arrays_of_table(table: RawFile) -> RawFile:
    """Return the file with the columns of its table as arrays.

    Columns named label, split, group, ... have these roles; list columns are arrays of their own; the remaining numeric
    columns, in order, are the logits. A table with a single column is that array.
    """
    columns, named = table.columns, table.has_header
    if not columns or len(columns[0].values) == 0:
        raise LogitFileError("is a table without rows", "save it again with one row per sample", file=table.name)
    raw = replace(table, columns=None)
    if any(column.values.ndim == 2 for column in columns) or _names_both_splits(columns):
        raw.arrays = [RawArray.of(raw.name, (c.name,), c.values) for c in columns]
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


def _names_both_splits(columns: Sequence[Column]) -> bool:
    """Return whether there are label columns of both splits, so that each column is an array."""
    return len({split_of(c.name) for c in columns if role_of(c.name) == "labels"} - {None}) > 1


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
    numbered = [c for c in rest if _is_number(c) and _prefix_role(c.name) == "logits"]
    chosen = (
        numbered if len(numbered) > 1 else [c for c in rest if _is_number(c) and c.name.lower() not in _INDEX_NAMES]
    )
    if len(chosen) > 1 and not numbered:
        # beside scores, one column of integers named prediction is the predicted class
        chosen = [c for c in chosen if not (_is_count(c) and role_of(c.name) == "logits")] or chosen
    kept = {id(column) for column in chosen}
    dropped = [c.name for c in rest if id(c) not in kept]
    if dropped:
        raw.notices.append(Notice("ignored_columns", f"{raw.name}: columns not used: {quoted(dropped)}."))
    order = sorted(chosen, key=lambda c: _number(c.name)) if len(numbered) > 1 else chosen
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
    names = [
        re.sub(r"^(logits?|probs?|scores?|outputs?|p|z)[_ .:\-]", "", c.name, flags=re.IGNORECASE) for c in columns
    ]
    return np.array(names, dtype=np.str_)
