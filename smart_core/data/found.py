"""What a reader finds in a file: arrays with a key, not yet given a meaning; and the form of a refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smart_core.data.logitset import Array, Notice
from smart_core.errors import LogitFileError

MAX_BYTES = 8 << 30
"""No file, and no array inside one, may be larger than this."""
ALWAYS_FINE_BYTES = 256 << 20
"""Below this size an array is never suspected of being a bomb, however small the file that claims it."""
MAX_RATIO = 200
"""Above that size, an array may be at most this many times larger than the bytes it came from."""
MAX_ARRAYS = 10_000
MAX_DEPTH = 12
BFLOAT16 = "bfloat16"
"""A type that NumPy lacks: such arrays travel as uint16 bits and are widened when they are used."""

Path = tuple[str | int, ...]


@dataclass(frozen=True, eq=False)
class Leaf:
    """An array inside a container, with the name of its type where NumPy would call it something else."""

    array: Array
    dtype: str


@dataclass(frozen=True, eq=False)
class Found:
    """One array of one file; `problem` says why it cannot be used, where it cannot."""

    file: str
    path: Path
    array: Array | None
    dtype: str
    role: str | None = None
    """Known from the file's structure (a table's columns); otherwise the key's name or the shape decides."""
    split: str | None = None
    problem: str | None = None
    shape: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        """The name to show: `logits`, `val.logits`, `[0][1]`."""
        text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return shown(text.removeprefix("."))

    @property
    def label(self) -> str:
        """How a sentence speaks of it."""
        return f"array '{self.key}'" if self.path else "the array"

    @property
    def values(self) -> Array:
        """The array, or the refusal that says why it cannot be used."""
        if self.array is None:
            raise refuse(self.file, f"{self.label} {self.problem}", "save it as a plain numeric array")
        return widen_bfloat16(self.array) if self.dtype == BFLOAT16 else self.array

    @property
    def kind(self) -> str:
        """NumPy's letter for the type: f, i, u, b, U, S; empty where the array cannot be used."""
        if self.array is None:
            return ""
        return "f" if self.dtype == BFLOAT16 else self.array.dtype.kind


@dataclass
class Contents:
    """All a reader found in one file."""

    found: list[Found] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)


def refuse(file: str, what: str, cure: str) -> LogitFileError:
    """The one form of an error at the door: file, what is wrong and where, the cure."""
    return LogitFileError(f"{file}: {what}; {cure}.")


def shown(text: str, limit: int = 80) -> str:
    """Foreign text made fit for one line of a sentence."""
    clean = "".join(c if c.isprintable() else "?" for c in text)
    return clean if len(clean) <= limit else clean[: limit - 3] + "..."


def widen_bfloat16(bits: Array) -> Array:
    """bfloat16 bits (uint16) as float32: the upper half of the float32 with the same value."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def plural(count: int, noun: str) -> str:
    """`1 row`, `2,000 rows`, `3 classes`."""
    suffix = "" if count == 1 else ("es" if noun.endswith("s") else "s")
    return f"{count:,} {noun}{suffix}"


def bytes_shown(count: int) -> str:
    """A size for a sentence."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def check_claim(file: str, what: str, claimed: int, held: int) -> None:
    """Refuses an array that claims far more memory than the bytes behind it can honestly fill."""
    if claimed > MAX_BYTES or (claimed > ALWAYS_FINE_BYTES and claimed > MAX_RATIO * max(held, 1)):
        raise refuse(
            file,
            f"{what} claims {bytes_shown(claimed)} out of {bytes_shown(held)} in the file",
            "the file is damaged or a decompression bomb; save the arrays again",
        )


def found_array(
    file: str,
    path: Path,
    array: Array,
    *,
    dtype: str | None = None,
    role: str | None = None,
    split: str | None = None,
) -> Found:
    """A `Found` for any NumPy array; one that holds neither numbers nor text carries a problem."""
    problem = None
    if array.dtype.kind not in "biufUS":
        kind = {"O": "Python objects", "V": "records", "c": "complex numbers"}.get(array.dtype.kind, str(array.dtype))
        problem = f"holds {kind} instead of numbers"
    array = array.view()
    array.flags.writeable = False
    return Found(
        file=file,
        path=path,
        array=None if problem else array,
        dtype=dtype or str(array.dtype),
        role=role,
        split=split,
        problem=problem,
        shape=array.shape,
    )


def flatten(file: str, tree: object, budget: int, unwrap: Callable[[Any], Any] = lambda node: node) -> list[Found]:
    """The arrays of nested dicts, lists and tuples, each with its path.

    Lists of numbers count as arrays. A sequence of exactly two containers is the published form
    ((logits, labels) of validation, (logits, labels) of test). `budget` bounds the entries visited: a small
    file can name one list many times over; an honest tree has no more entries than the file has instructions.
    """
    walk = _Walk(file, budget + MAX_ARRAYS, unwrap)
    walk.visit(tree, (), None)
    return walk.found


class _Walk:
    def __init__(self, file: str, budget: int, unwrap: Callable[[Any], Any]) -> None:
        self.file, self.budget, self.unwrap = file, budget, unwrap
        self.found: list[Found] = []

    def visit(self, node: Any, path: Path, split: str | None) -> None:
        node = self.unwrap(node)
        dtype = None
        if isinstance(node, Leaf):
            node, dtype = node.array, node.dtype if node.dtype == BFLOAT16 else None
        if isinstance(node, np.ndarray):
            if node.ndim:
                self.found.append(found_array(self.file, path, node, dtype=dtype, split=split))
            return
        if not isinstance(node, Mapping | list | tuple) or not node:
            return
        self.spend(len(node))
        if len(path) > MAX_DEPTH or len(self.found) > MAX_ARRAYS:
            raise refuse(self.file, "nests its containers too deeply to be logits", "save a flat dict of arrays")
        if isinstance(node, Mapping):
            for key, child in node.items():
                self.visit(child, (*path, str(key)), split)
        elif isinstance(node[0], bool | int | float | str) or self.is_matrix(node):
            self.found.append(found_array(self.file, path, self.numbers(node, path), split=split))
        else:
            children = [self.unwrap(child) for child in node]
            pairs = len(node) == 2 and split is None and all(isinstance(c, list | tuple | Mapping) for c in children)
            for index, child in enumerate(children):
                self.visit(child, (*path, index), ("val", "test")[index] if pairs else split)

    def is_matrix(self, node: list[Any] | tuple[Any, ...]) -> bool:
        """Whether the entries are equally long rows of numbers; two of them are a pair of vectors instead."""
        rows = [row for row in node if isinstance(row, list | tuple) and row]
        if len(rows) != len(node) or len(rows) == 2:
            return False
        return len({len(row) for row in rows}) == 1 and all(isinstance(row[0], bool | int | float) for row in rows)

    def numbers(self, node: list[Any] | tuple[Any, ...], path: Path) -> Array:
        self.spend(sum(len(row) for row in node if isinstance(row, list | tuple)))
        try:
            return np.array(node)
        except (ValueError, OverflowError) as error:
            where = Found(self.file, path, None, "").label
            cure = "save it as a plain numeric array"
            raise refuse(self.file, f"{where} is a list of unequal or mixed entries", cure) from error

    def spend(self, entries: int) -> None:
        self.budget -= entries
        if self.budget < 0:
            raise refuse(self.file, "repeats its lists until they are larger than the file", "save plain arrays")
