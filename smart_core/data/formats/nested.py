"""The arrays in the nested containers of a pickle, a torch file or JSON, as one flat list with their paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from smart_core.data.formats.limits import Budget, text_array
from smart_core.data.formats.ragged import padded
from smart_core.data.formats.raw import MAX_ARRAYS, ArrayPath, RawArray, RawFile
from smart_core.data.logitset import Array
from smart_core.errors import LogitFileError
from smart_core.formatting import printable

MAX_DEPTH = 12
_NUMBERS = {bool, int, float}


def flatten(tree: object, file: str, size: int, unwrap: Callable[[Any], Any]) -> RawFile:
    """Return the arrays of nested dicts, lists and tuples, each with its path.

    `unwrap` turns an object that the pickle built into a NumPy array, or a `RawArray` without file and path. Lists of
    numbers count as arrays. A sequence of exactly two containers is the published form ((logits, labels) of
    validation, (logits, labels) of test). The tree may have no more entries than the pickle has bytes, `size`: a small
    one can refer to one list many times.
    """
    walk = _Walk(file, size + MAX_ARRAYS, unwrap)
    walk.visit(tree, (), None)
    return walk.raw


class _Walk:
    def __init__(self, file: str, entries: int, unwrap: Callable[[Any], Any]) -> None:
        self.file, self.entries, self.unwrap = file, entries, unwrap
        self.raw = RawFile(file)
        self.budget = Budget(file, entries)

    def visit(self, node: Any, path: ArrayPath, split: str | None) -> None:
        node = self.unwrap(node)
        if path and (whole := self.of_arrays(node, path)) is not None:
            node = whole
        if isinstance(node, np.ndarray):
            node = RawArray.of(self.file, path, node)
        if isinstance(node, RawArray):
            self.raw.arrays.append(replace(node, file=self.file, path=path, split=split))
        elif isinstance(node, Mapping | list | tuple) and node:
            self.enter(node, path, split)

    def enter(self, node: Any, path: ArrayPath, split: str | None) -> None:
        self.count(len(node))
        if len(path) > MAX_DEPTH or len(self.raw.arrays) > MAX_ARRAYS:
            problem = "nests its containers too deeply to be logits"
            raise LogitFileError(problem, "save a flat dict of arrays", file=self.file)
        if isinstance(node, Mapping):
            for key, child in node.items():
                self.visit(child, (*path, str(key)), split)
        elif columns := self.columns(node):
            for key, column in columns.items():
                self.visit(column, (*path, key), split)
        elif isinstance(node[0], bool | int | float | str) or self.is_matrix(node):
            self.raw.arrays.append(self.from_list(node, path, split))
        else:
            children = [self.unwrap(child) for child in node]
            pairs = len(node) == 2 and split is None and all(isinstance(c, list | tuple | Mapping) for c in children)
            if pairs and len({self.axes(child) for child in children} - {None}) == 2:
                pairs = False  # the logits of every batch, and the labels
            for index, child in enumerate(children):
                self.visit(child, (*path, index), ("val", "test")[index] if pairs else split)

    def columns(self, node: list[Any] | tuple[Any, ...]) -> dict[str, Any]:
        """The columns of a list of records, one per sample: each key's values, arrays of equal length as a matrix.

        A record is a dict, or a tuple such as (logits, label). It has a number or a word, such as the label, and no
        more than vectors beside it. Two records are validation and test.
        """
        keys = _keys(node[0])
        if len(node) < 3 or not keys or any(_keys(record) != keys for record in node):
            return {}
        self.count(len(node) * len(keys))
        columns: dict[str, Any] = {}
        scalars = False
        for key in keys:
            column = [self.unwrap(record[key]) for record in node]
            shapes = {_shape(value) for value in column}
            if any(len(shape) > 1 for shape in shapes):
                return {}
            scalars |= shapes <= {(), (1,)}
            columns[str(key)] = self.joined(str(key), column, batches=False) or column
        return columns if scalars else {}

    def of_arrays(self, node: Any, path: ArrayPath) -> RawArray | None:
        """A list of three or more arrays as one: batches, which the last may end early, or one array per sample."""
        if not isinstance(node, list | tuple) or len(node) < 3:
            return None
        return self.joined(str(path[-1]), [self.unwrap(child) for child in node], batches=True)

    def axes(self, node: Any) -> int | None:
        """The number of axes of the arrays in such a list, from the first."""
        first = self.unwrap(node[0]) if isinstance(node, list | tuple) and len(node) > 2 else None
        return len(first.shape) if isinstance(first, np.ndarray | RawArray) else None

    def joined(self, key: str, column: list[Any], batches: bool) -> RawArray | None:
        """Arrays as one, if they can be batches or else are one per sample; None for anything else."""
        items = [RawArray.of("", (), value) if isinstance(value, np.ndarray) else value for value in column]
        arrays = [item.array for item in items if isinstance(item, RawArray) and item.array is not None]
        if len(arrays) < len(column) or len({(item.dtype, len(item.shape)) for item in items}) > 1:
            return None
        self.count(sum(array.size for array in arrays))
        shapes, axes, kind = {array.shape for array in arrays}, arrays[0].ndim, items[0].kind
        lengths = [array.shape[0] for array in arrays if axes]
        batches &= len({*lengths[:-1]}) == 1 and lengths[-1] <= lengths[0]
        if len(shapes) == 1 and (axes == 0 or (axes == 1 and kind == "f") or not batches):
            return RawArray.of("", (), np.stack(arrays), items[0].dtype)
        if batches and len({shape[1:] for shape in shapes}) == 1:
            return RawArray.of("", (), np.concatenate(arrays), items[0].dtype)
        if axes == 1 and kind == "f":
            return RawArray.of("", (), padded(self.budget, f"'{printable(key)}'", [item.values for item in items]))
        return None

    def is_matrix(self, node: list[Any] | tuple[Any, ...]) -> bool:
        """Whether the entries are rows of numbers, perhaps of unequal length; two of them are a pair of vectors."""
        rows = [row for row in node if isinstance(row, list | tuple) and row]
        if len(rows) != len(node) or len(rows) == 2:
            return False
        return all(isinstance(row[0], bool | int | float) for row in rows)

    def from_list(self, node: list[Any] | tuple[Any, ...], path: ArrayPath, split: str | None) -> RawArray:
        """A list of numbers or of words, or a list of rows of numbers."""
        self.count(sum(len(row) for row in node if isinstance(row, list | tuple)))
        problem = "is a list of unequal or mixed entries"
        unusable = RawArray(self.file, path, None, "list", (len(node),), split, problem=problem)
        kinds = set(map(type, node))
        if kinds == {str}:
            words = text_array(node, self.file, unusable.label, self.raw.notices)
            return RawArray.of(self.file, path, words, split=split)
        if kinds <= {list, tuple}:
            kinds = {kind for row in node for kind in set(map(type, row))}
            if kinds <= _NUMBERS and len({len(row) for row in node}) > 1:
                return RawArray.of(self.file, path, self.from_unequal(node, kinds, unusable.label), split=split)
        return RawArray.of(self.file, path, np.array(node), split=split) if kinds <= _NUMBERS else unusable

    def from_unequal(self, node: list[Any] | tuple[Any, ...], kinds: set[type], label: str) -> Array:
        """Rows of unequal length: integers are labels or row numbers in batches, others are scores."""
        rows = [np.array(row) for row in node]
        return padded(self.budget, label, rows) if float in kinds else np.concatenate(rows)

    def count(self, entries: int) -> None:
        self.entries -= entries
        if self.entries < 0:
            problem = "repeats its lists until they are larger than the file"
            raise LogitFileError(problem, "save plain arrays", file=self.file)


def _keys(record: Any) -> list[Any]:
    """The keys of a dict, or the places of a tuple."""
    return list(record) if isinstance(record, Mapping) else list(range(len(record))) if type(record) is tuple else []


def _shape(node: Any) -> tuple[int, ...]:
    """The shape of an array; of a list, its length."""
    if isinstance(node, np.ndarray | RawArray):
        return node.shape
    return (len(node),) if isinstance(node, list | tuple | Mapping) else ()
