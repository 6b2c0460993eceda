"""The arrays in nested containers: what a pickle or a torch file holds, laid out flat with their paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from smart_core.data.found import BFLOAT16, MAX_ARRAYS, Contents, Found, Path, found_array, refuse, unusable
from smart_core.data.limits import Budget
from smart_core.data.logitset import Array
from smart_core.data.text import text_array

MAX_DEPTH = 12
_NUMBERS = {bool, int, float}


@dataclass(frozen=True, eq=False)
class Leaf:
    """An array inside a container, with the name of its type where NumPy would call it something else."""

    array: Array
    dtype: str


@dataclass(frozen=True, eq=False)
class Unusable:
    """The place of an array that holds neither numbers nor text."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def flatten(tree: object, entries: int, budget: Budget, unwrap: Callable[[Any], Any] = lambda node: node) -> Contents:
    """The arrays of nested dicts, lists and tuples, each with its path.

    Lists of numbers count as arrays. A sequence of exactly two containers is the published form
    ((logits, labels) of validation, (logits, labels) of test). `entries` bounds the entries visited: a small
    file can name one list many times over; an honest tree has no more entries than the file has instructions.
    """
    walk = _Walk(entries + MAX_ARRAYS, budget, unwrap)
    walk.visit(tree, (), None)
    return walk.contents


class _Walk:
    def __init__(self, entries: int, budget: Budget, unwrap: Callable[[Any], Any]) -> None:
        self.file, self.entries, self.budget, self.unwrap = budget.file, entries, budget, unwrap
        self.contents = Contents()

    def visit(self, node: Any, path: Path, split: str | None) -> None:
        node = self.unwrap(node)
        dtype = None
        if isinstance(node, Leaf):
            node, dtype = node.array, node.dtype if node.dtype == BFLOAT16 else None
        if isinstance(node, np.ndarray):
            self.keep(found_array(self.file, path, node, dtype=dtype, split=split))
        elif isinstance(node, Unusable):
            self.keep(unusable(self.file, path, node.dtype, node.shape, split=split))
        elif isinstance(node, Mapping | list | tuple) and node:
            self.enter(node, path, split)

    def enter(self, node: Any, path: Path, split: str | None) -> None:
        self.spend(len(node))
        if len(path) > MAX_DEPTH or len(self.contents.found) > MAX_ARRAYS:
            raise refuse(self.file, "nests its containers too deeply to be logits", "save a flat dict of arrays")
        if isinstance(node, Mapping):
            for key, child in node.items():
                self.visit(child, (*path, str(key)), split)
        elif isinstance(node[0], bool | int | float | str) or self.is_matrix(node):
            self.keep(self.listed(node, path, split))
        else:
            children = [self.unwrap(child) for child in node]
            pairs = len(node) == 2 and split is None and all(isinstance(c, list | tuple | Mapping) for c in children)
            for index, child in enumerate(children):
                self.visit(child, (*path, index), ("val", "test")[index] if pairs else split)

    def keep(self, found: Found) -> None:
        self.contents.found.append(found)

    def is_matrix(self, node: list[Any] | tuple[Any, ...]) -> bool:
        """Whether the entries are equally long rows of numbers; two of them are a pair of vectors instead."""
        rows = [row for row in node if isinstance(row, list | tuple) and row]
        if len(rows) != len(node) or len(rows) == 2:
            return False
        return len({len(row) for row in rows}) == 1 and all(isinstance(row[0], bool | int | float) for row in rows)

    def listed(self, node: list[Any] | tuple[Any, ...], path: Path, split: str | None) -> Found:
        """A list of numbers or of words, or a list of rows of numbers."""
        self.spend(sum(len(row) for row in node if isinstance(row, list | tuple)))
        label = Found(self.file, path, None, "").label
        kinds = set(map(type, node))
        if kinds == {str}:
            words = text_array(node, label, self.budget, self.contents.notices)
            return found_array(self.file, path, words, split=split)
        if kinds <= {list, tuple}:
            kinds = {kind for row in node for kind in set(map(type, row))}
        if kinds <= _NUMBERS:
            return found_array(self.file, path, np.array(node), split=split)
        problem = "is a list of unequal or mixed entries"
        return Found(self.file, path, None, "list", split=split, problem=problem, shape=(len(node),))

    def spend(self, entries: int) -> None:
        self.entries -= entries
        if self.entries < 0:
            raise refuse(self.file, "repeats its lists until they are larger than the file", "save plain arrays")
