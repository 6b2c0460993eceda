"""From the columns of a table to arrays: which column is the label, which are logits, which neither."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from smart_core.data.found import Contents, Found, found_array, refuse, shown
from smart_core.data.logitset import Array, Notice
from smart_core.data.roles import role_of, split_of

MAX_COLUMNS = 100_000
_INDEX_NAMES = frozenset({"", "index", "id", "idx", "row", "sample", "sample_id", "__index_level_0__"})
_NUMBERED = re.compile(r"(.*?)[_ .\-\[(]*(\d+)[\])]*")


@dataclass(frozen=True, eq=False)
class Column:
    """One column: a vector of numbers or text, or (from a list column) a matrix."""

    name: str
    values: Array

    @property
    def numeric(self) -> bool:
        return self.values.dtype.kind in "biuf"

    @property
    def whole(self) -> bool:
        """Whether every entry is a whole number, none negative."""
        return self.numeric and self.values.ndim == 1 and bool(np.all((self.values >= 0) & (self.values % 1 == 0)))


def check_width(file: str, columns: int) -> None:
    """A table of very many columns takes minutes to look at, one by one."""
    if columns > MAX_COLUMNS:
        raise refuse(file, f"is a table of more than {MAX_COLUMNS:,} columns", "save the matrix as npz")


def arrays_of_columns(file: str, stem: str, columns: Sequence[Column], named: bool) -> Contents:
    """The arrays in a table.

    Columns called label, split, group, ... are those; list columns are arrays of their own; the remaining
    numeric columns, in order, are the logits. A table of a single column is that array.
    """
    contents = Contents()
    if not columns or len(columns[0].values) == 0:
        raise refuse(file, "is a table without rows", "save it again with one row a sample")
    if any(column.values.ndim == 2 for column in columns) or _has_wide_names(columns):
        contents.found = [found_array(file, (c.name,), c.values) for c in columns]
        return contents
    rest: list[Column] = []
    features: list[Column] = []
    for column in columns:
        role = role_of(column.name) if named else None
        if role in ("labels", "split", "group", "cw_l2"):
            contents.found.append(found_array(file, (column.name,), column.values, role=role))
        elif named and role == "features" and _NUMBERED.fullmatch(column.name):
            features.append(column)
        else:
            rest.append(column)
    logits = _logit_columns(file, rest, named, contents)
    if not any(f.role == "labels" for f in contents.found):
        logits = _take_label(file, logits, named, contents)
    if features:
        contents.found.append(found_array(file, ("features",), _matrix(features), role="features"))
    if len(logits) == 1 and not contents.found:
        contents.found.append(_lonely(file, stem, logits[0], named))
    elif logits:
        span = f"{logits[0].name}..{logits[-1].name}" if named else f"columns 0..{len(logits) - 1}"
        contents.found.append(found_array(file, (span,), _matrix(logits), role="logits"))
        names = _class_names(logits) if named else None
        if names is not None:
            contents.found.append(found_array(file, ("column names",), names, role="class_names"))
    return contents


def _has_wide_names(columns: Sequence[Column]) -> bool:
    """Whether single columns are named for both sides of a split, so that each is an array by itself."""
    return len({split_of(c.name) for c in columns if role_of(c.name) == "labels"} - {None}) > 1


def _lonely(file: str, stem: str, column: Column, named: bool) -> Found:
    """A table of one column: its own name decides what it is, or else the file's."""
    name = column.name if named and role_of(column.name) else stem
    return found_array(file, (name,), column.values)


def _logit_columns(file: str, rest: list[Column], named: bool, contents: Contents) -> list[Column]:
    """The numeric columns that are scores: by their numbers if they are called logit_0, logit_1, ..."""
    if not named:
        return [column for column in rest if column.numeric]
    numbered = [c for c in rest if c.numeric and _prefix_role(c.name) == "logits"]
    chosen = numbered if len(numbered) > 1 else [c for c in rest if c.numeric and c.name.lower() not in _INDEX_NAMES]
    if len(chosen) > 1 and not numbered:
        # beside real scores, one whole-numbered column called prediction is the predicted class
        chosen = [c for c in chosen if not (c.whole and role_of(c.name) == "logits")] or chosen
    kept = {id(column) for column in chosen}
    dropped = [c.name for c in rest if id(c) not in kept]
    if dropped:
        names = ", ".join(f"'{shown(name)}'" for name in dropped[:5]) + (", ..." if len(dropped) > 5 else "")
        contents.notices.append(Notice("ignored_columns", f"{file}: columns not used: {names}."))
    order = sorted(chosen, key=lambda c: _number(c.name)) if len(numbered) > 1 else chosen
    if [c.name for c in order] != [c.name for c in chosen]:
        contents.notices.append(Notice("reordered", f"{file}: logit columns put in the order of their numbers."))
    return order


def _take_label(file: str, columns: list[Column], named: bool, contents: Contents) -> list[Column]:
    """Without a column called label it is the only whole-numbered one, or the last or first of several."""
    whole = [i for i, column in enumerate(columns) if column.whole]
    if len(columns) < 2 or not whole or (len(whole) == len(columns) and (named or len(columns) > 2)):
        return columns
    last = len(columns) - 1
    place = last if last in whole else 0 if 0 in whole else whole[0] if len(whole) == 1 else None
    if place is None:
        return columns
    label = columns[place]
    which = f"'{shown(label.name)}'" if named else f"{place} (counted from 0)"
    contents.found.append(found_array(file, (label.name,), label.values, role="labels"))
    contents.notices.append(
        Notice("guessed_roles", f"{file}: column {which} holds whole numbers, taken as the labels.")
    )
    return columns[:place] + columns[place + 1 :]


def _matrix(columns: list[Column]) -> Array:
    return np.stack([column.values for column in columns], axis=1)


def _prefix_role(name: str) -> str | None:
    match = _NUMBERED.fullmatch(name)
    return role_of(match[1]) if match and match[1] else None


def _number(name: str) -> int:
    match = _NUMBERED.fullmatch(name)
    return int(match[2]) if match else -1


def _class_names(columns: list[Column]) -> Array | None:
    """The column names, where they are names and not numbers; `logit_cat` counts as `cat`."""
    if len(columns) < 2 or any(_NUMBERED.fullmatch(c.name) for c in columns):
        return None
    names = [
        re.sub(r"^(logits?|probs?|scores?|outputs?|p|z)[_ .:\-]", "", c.name, flags=re.IGNORECASE) for c in columns
    ]
    return np.array(names, dtype=np.str_)
