"""The input of a reader, a `Source`, and its output, a `RawFile` of raw arrays.

Raw arrays have names; `roles` decides later what they mean.
"""

from __future__ import annotations

import codecs
import mmap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import numpy as np

from smart_core.data.logitset import Array, Cure, Notice
from smart_core.errors import Fix, LogitFileError
from smart_core.formatting import printable

MAX_ARRAYS = 10_000
MAX_CHARACTERS = 200
"""Names of arrays, columns, classes and groups are cut to this before anything else looks at them."""
MAX_AXES = 64
"""NumPy's arrays have no more; a file may claim millions of one that is not read."""
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst", ".zstd", ".lz4")
"""Extensions that may follow that of a format."""
BFLOAT16 = "bfloat16"
"""A type that NumPy lacks: such arrays are kept as uint16 and widened when they are used."""

ArrayPath = tuple[str | int, ...]
"""Where an array is in the containers of its file: names of dict entries and positions in lists."""

_SAVE_PLAIN = "save it as a plain numeric array"
_SAVE_OBJECTS = (
    "save it again with a plain type: np.stack(rows) where the rows are arrays, shorter ones filled up with -inf, "
    "else .astype(float), .astype(int) or .astype(str)"
)
_PROBLEMS = {
    "O": ("holds Python objects instead of numbers", _SAVE_OBJECTS),
    "V": ("holds records instead of numbers", _SAVE_PLAIN),
    "c": ("holds complex numbers instead of real ones", _SAVE_PLAIN),
}


@dataclass(frozen=True)
class Source:
    """One file: its name, its content, and the split (`val` or `test`) that the caller gave it for, if any."""

    name: str
    content: bytes | mmap.mmap
    split: str | None = None
    folder: str = ""
    members: Mapping[str, bytes] = field(default_factory=dict)
    """Of a folder that is read as one file (zarr): the content of each file below it, by its path."""

    @property
    def data(self) -> bytes:
        """The content in memory."""
        return self.content if isinstance(self.content, bytes) else self.content[:]

    @property
    def head(self) -> bytes:
        return self.content[:4096]

    @property
    def stem(self) -> str:
        return stem_of(self.name)

    @property
    def extension(self) -> str:
        """`.npz`, in lower case; of `a.csv.gz`, `.csv`."""
        return extension_of(self.name)

    @property
    def encoding(self) -> str | None:
        """The encoding of text, from its first bytes; None where it is not text.

        8-bit encodings cannot be told apart: Windows-1252, the most common one, stands for all of them.
        """
        head = self.head
        if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
            return "utf-32"
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        if 0 in head:
            # ASCII in UTF-16: every other byte is zero
            even, odd = head[0::2], head[1::2]
            if len(head) > 3 and not any(odd) and all(even):
                return "utf-16-le"
            if len(head) > 3 and not any(even) and all(odd):
                return "utf-16-be"
            return None
        try:
            codecs.getincrementaldecoder("utf-8")().decode(head)
        except UnicodeDecodeError:
            return None if any(byte < 32 and byte not in b"\t\n\r\f" for byte in head) else "cp1252"
        return "utf-8"


@dataclass(frozen=True, eq=False)
class RawArray:
    """One array of a file, read-only. If it cannot be used, `problem` says why and `fix` what to do."""

    file: str
    path: ArrayPath
    array: Array | None
    dtype: str
    shape: tuple[int, ...] = ()
    split: str | None = None
    """`val` or `test`, if the structure of the file says so."""
    role: str | None = None
    """Given by the structure of the file (the columns of a table); otherwise names and shapes decide."""
    problem: str | None = None
    fix: str = _SAVE_PLAIN

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", tuple(x[:MAX_CHARACTERS] if isinstance(x, str) else x for x in self.path))
        object.__setattr__(self, "shape", self.shape[:MAX_AXES])

    @classmethod
    def of(cls, file: str, path: ArrayPath, array: Array, dtype: str | None = None, **known: Any) -> RawArray:
        """Return a raw array; one that holds neither numbers nor text is unusable."""
        if array.dtype.kind not in "biufUS":
            return cls.unusable(file, path, array.dtype, array.shape, **known)
        array = array.view()
        array.flags.writeable = False
        return cls(file, path, array, dtype or _type_name(array.dtype), array.shape, **known)

    @classmethod
    def unusable(
        cls, file: str, path: ArrayPath, dtype: np.dtype[Any], shape: tuple[int, ...], **known: Any
    ) -> RawArray:
        """Return an array of the file that holds neither numbers nor text."""
        problem, fix = _PROBLEMS.get(dtype.kind, (f"holds {dtype.name} instead of numbers", _SAVE_PLAIN))
        if dtype.kind == "O" and shape == ():
            problem, fix = "is one Python object, such as a dict", "save the arrays in it with np.savez(path, **arrays)"
        return cls(file, path, None, _type_name(dtype), shape, problem=problem, fix=fix, **known)

    @property
    def key(self) -> str:
        """The name to show: `logits`, `val.logits`, `[0][1]`."""
        text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return printable(text.removeprefix("."))

    @property
    def label(self) -> str:
        """How a sentence refers to the array."""
        return f"array '{self.key}'" if self.path else "the array"

    @property
    def values(self) -> Array:
        """The array; raises if it cannot be used."""
        if self.array is None:
            raise self.error(str(self.problem), self.fix)
        return widen_bfloat16(self.array) if self.dtype == BFLOAT16 else self.array

    @property
    def kind(self) -> str:
        """NumPy's character for the kind of type: f, i, u, b, U, S; empty where the array cannot be used."""
        if self.array is None:
            return ""
        return "f" if self.dtype == BFLOAT16 else self.array.dtype.kind

    def error(self, problem: str, *fixes: str | Fix) -> LogitFileError:
        """Return the error that this array has a problem."""
        return LogitFileError(f"{self.label} {problem}", *fixes, file=self.file)

    def notice(self, code: str, text: str, cure: Cure | None = None) -> Notice:
        return Notice(code, f"{self.file}: {self.label} {text}", cure)


@dataclass(frozen=True, eq=False)
class Column:
    """A column of a table: a vector of numbers or text, or (from a list column) a matrix."""

    name: str
    values: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name[:MAX_CHARACTERS])


@dataclass
class RawFile:
    """The content of one file as plain arrays and text; the file itself is not kept."""

    name: str
    arrays: list[RawArray] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    columns: Sequence[Column] | None = None
    """Of a table: their roles decide which columns form one array."""
    has_header: bool = False
    """Of a table: whether the names of its columns are its own."""
    split: str | None = None
    """`val` or `test`, if the caller says so."""
    folder: str = ""
    unread: Mapping[ArrayPath, Callable[[], RawArray]] | None = None
    """Of a file that may hold many experiments (HDF5, zarr): how to read each array."""

    @property
    def stem(self) -> str:
        return stem_of(self.name)


def stem_of(name: str) -> str:
    """Return a file's name without its extension, and without that of a compression before it."""
    return PurePath(_uncompressed(name)).stem


def extension_of(name: str) -> str:
    """Return a file's extension in lower case; of `a.csv.gz`, `.csv`."""
    return PurePath(_uncompressed(name)).suffix.lower()


def _uncompressed(name: str) -> str:
    path = PurePath(name)
    return path.stem if path.suffix.lower() in COMPRESSIONS and PurePath(path.stem).suffix else name


def widen_bfloat16(bits: Array) -> Array:
    """Return bfloat16 bits (uint16) as float32, of which they are the upper half."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _type_name(dtype: np.dtype[Any]) -> str:
    """`float16` for either byte order."""
    return str(dtype)[:MAX_CHARACTERS] if dtype.kind in "USV" else dtype.name
