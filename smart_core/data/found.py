"""What a reader finds in a file: arrays with a key, not yet given a meaning; and the form of a refusal."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smart_core.data.logitset import Array, Notice
from smart_core.errors import LogitFileError

MAX_ARRAYS = 10_000
BFLOAT16 = "bfloat16"
"""A type that NumPy lacks: such arrays travel as uint16 bits and are widened when they are used."""

Path = tuple[str | int, ...]

_OBJECT = re.compile(r"<[^<>]* at 0x[0-9a-fA-F]+>")
"""How Python shows an object that has no better form."""

PLAIN = "save it as a plain numeric array"
_RESAVE_OBJECTS = (
    "save it again with a plain type: np.stack(rows) where the rows are arrays of equal length, "
    "else .astype(float), .astype(int) or .astype(str)"
)
_PROBLEMS = {
    "O": ("holds Python objects instead of numbers", _RESAVE_OBJECTS),
    "V": ("holds records instead of numbers", PLAIN),
    "c": ("holds complex numbers instead of real ones", PLAIN),
}


@dataclass(frozen=True, eq=False)
class Found:
    """One array of one file; `problem` says why it cannot be used, where it cannot, and `cure` what to do."""

    file: str
    path: Path
    array: Array | None
    dtype: str
    role: str | None = None
    """Known from the file's structure (a table's columns); otherwise the key's name or the shape decides."""
    split: str | None = None
    problem: str | None = None
    cure: str = PLAIN
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
            raise refuse(self.file, f"{self.label} {self.problem}", self.cure)
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


def reason(error: Exception) -> str:
    """What a parser said, for the brackets of a sentence: one line, without the addresses of its objects."""
    first = next(iter(str(error).strip().splitlines()), "")
    return shown(_OBJECT.sub("something else", first) or type(error).__name__, 120).rstrip(".")


def shape_shown(shape: tuple[int, ...]) -> str:
    """`60 x 4`, `60`, or `()` for a single value."""
    return " x ".join(map(str, shape)) or "()"


def widen_bfloat16(bits: Array) -> Array:
    """bfloat16 bits (uint16) as float32: the upper half of the float32 with the same value."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def plural(count: int, noun: str) -> str:
    """`1 row`, `2,000 rows`, `3 classes`."""
    suffix = "" if count == 1 else ("es" if noun.endswith("s") else "s")
    return f"{count:,} {noun}{suffix}"


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
    if array.dtype.kind not in "biufUS":
        return unusable(file, path, array.dtype, array.shape, role=role, split=split)
    array = array.view()
    array.flags.writeable = False
    return Found(file, path, array, dtype or _type_name(array.dtype), role=role, split=split, shape=array.shape)


def unusable(
    file: str,
    path: Path,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    *,
    role: str | None = None,
    split: str | None = None,
) -> Found:
    """A `Found` for an array that was there but holds neither numbers nor text."""
    problem, cure = _PROBLEMS.get(dtype.kind, (f"holds {dtype.name} instead of numbers", PLAIN))
    if dtype.kind == "O" and shape == ():
        problem, cure = "is one Python object, such as a dict", "save the arrays in it with np.savez(path, **arrays)"
    return Found(file, path, None, _type_name(dtype), role, split, problem, cure, shape)


def _type_name(dtype: np.dtype[Any]) -> str:
    """`float16` for either byte order: the order of the bytes is no concern of a reader."""
    return str(dtype) if dtype.kind in "USV" else dtype.name
