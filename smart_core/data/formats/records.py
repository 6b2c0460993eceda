"""Records, one per sample, as the columns of a table: the lines of a JSON lines file, or a list of objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from smart_core.data.formats.limits import Budget, check_width, text_array
from smart_core.data.formats.ragged import padded
from smart_core.data.formats.raw import MAX_CHARACTERS, Column, RawFile
from smart_core.data.logitset import Array, Notice
from smart_core.formatting import printable, quoted

_NUMBERS = (bool, int, float)


class Records:
    """Collects records; of each it keeps numbers, text, and lists and objects of numbers."""

    def __init__(self, raw: RawFile, budget: Budget) -> None:
        self.raw, self.budget, self.count = raw, budget, 0
        self._entries: dict[str, list[tuple[int, Any]]] = {}

    def add(self, record: Mapping[str, Any]) -> None:
        for name, value in _fields(record):
            self._entries.setdefault(name[:MAX_CHARACTERS], []).append((self.count, value))
        check_width(self.raw.name, len(self._entries))
        self.count += 1

    def columns(self) -> list[Column]:
        """Return the columns that can be used; a notice names the others, and those that most records lack."""
        found, left = [], []
        for name, entries in self._entries.items():
            values = self._values(name, entries) if 2 * len(entries) > self.count else None
            if values is None:
                left.append(name)
            else:
                found.append(Column(name, values))
        if left:
            self.raw.notices.append(Notice("ignored_columns", f"{self.raw.name}: columns not used: {quoted(left)}."))
        return found

    def _values(self, name: str, entries: list[tuple[int, Any]]) -> Array | None:
        kinds = {type(value) for _, value in entries}
        complete = len(entries) == self.count
        label = f"column '{printable(name)}'"
        if kinds <= set(_NUMBERS) and complete:
            values = np.array([value for _, value in entries])
            return values if values.dtype.kind in "biuf" else None  # integers beyond 64 bits
        known = dict(entries)
        if kinds <= {*_NUMBERS, type(None)}:
            return np.array([known.get(row) for row in range(self.count)], dtype=np.float64)  # None becomes NaN
        if kinds <= {str, type(None)}:
            words = [known.get(row) or "" for row in range(self.count)]
            return text_array(words, self.raw.name, label, self.raw.notices)
        if kinds == {np.ndarray} and complete:
            rows = [value for _, value in entries]
            return np.stack(rows) if len({len(row) for row in rows}) == 1 else padded(self.budget, label, rows)
        return None


def _fields(record: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The fields that can be used; those of an object in the record are named `object_field`."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield from ((f"{name}_{key}", item) for key, item in value.items() if isinstance(item, (*_NUMBERS, str)))
        elif isinstance(value, list):
            kinds = {type(item) for item in value} - {type(None)}  # null becomes NaN
            if kinds and kinds <= set(_NUMBERS):
                yield name, np.array(value, dtype=np.float64)
            elif kinds == {dict} and is_scores_by_label(value):
                yield from scores_by_label(value, name).items()
        else:
            yield name, value


def is_scores_by_label(value: Any) -> bool:
    """Return whether a list holds {"label": ..., "score": ...} for each class, as a pipeline of transformers gives."""
    return isinstance(value, list) and all(isinstance(v, dict) and v.keys() == {"label", "score"} for v in value)


def scores_by_label(value: list[dict[str, Any]], name: str = "score") -> dict[str, Any]:
    """Return {"score_cat": 0.1, ...} of such a list, whatever its order."""
    return {f"{name}_{item['label']}": item["score"] for item in value if isinstance(item["score"], _NUMBERS)}


def table_of(raw: RawFile, budget: Budget, records: Iterable[Mapping[str, Any]]) -> RawFile:
    """Return the file with the records as its columns."""
    collected = Records(raw, budget)
    for record in records:
        collected.add(record)
    raw.columns, raw.has_header = collected.columns(), True
    return raw
