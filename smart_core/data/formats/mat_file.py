"""MATLAB files of versions 4 to 7: numeric and logical matrices, text, and cells of text.

SciPy is not used because its parser crashes the whole process on some damaged files.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from smart_core.data.formats.limits import MAX_CHARACTERS, Budget, text_bytes
from smart_core.data.formats.raw import RawArray, RawFile, Source
from smart_core.data.logitset import Array

Order = Literal["<", ">"]

_HEADER = 128
_MATRIX, _COMPRESSED = 14, 15
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
"""Data type of an element -> NumPy type."""
_CLASS = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
"""Class of a matrix -> NumPy type; its numbers may be stored in a smaller one."""
_CELL, _CHAR = 1, 4
_TEXT = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
_CHARACTER_BYTES = 24
"""Memory per character while a text is split into characters."""
_COMPLEX, _LOGICAL = 0x0800, 0x0200
_MAT4 = {0: "f8", 1: "f4", 2: "i4", 3: "i2", 4: "u2", 5: "u1"}


@dataclass(frozen=True, eq=False)
class Variable:
    """One variable; `problem` says why it cannot be used, if it cannot."""

    name: str
    array: Array | None
    problem: str = ""


def read_mat(source: Source) -> RawFile:
    """Every variable, under its name."""
    data, raw = source.data, RawFile(source.name)
    version5 = data.startswith(b"MATLAB")
    for variable in _variables5(Budget(source.name, len(data)), data) if version5 else _variables4(data):
        path = (variable.name,)
        if variable.array is None:
            raw.arrays.append(RawArray(source.name, path, None, "other", problem=variable.problem))
        else:
            raw.arrays.append(RawArray.of(source.name, path, variable.array))
    return raw


def _variables5(budget: Budget, data: bytes) -> Iterator[Variable]:
    order: Order = ">" if data[126:128] == b"MI" else "<"
    for kind, content in _elements(data[_HEADER:], order):
        if kind == _COMPRESSED:
            content = _unpacked(content, budget)
            kind, content = next(_elements(content, order))
        if kind == _MATRIX:
            yield _matrix(content, order, budget)


def _elements(data: bytes, order: Order) -> Iterator[tuple[int, bytes]]:
    """(type, content) of each element; short ones share their first word with the length."""
    place = 0
    while place + 8 <= len(data):
        kind, size = (int(n) for n in np.frombuffer(data, f"{order}u4", 2, place))
        if kind >> 16:
            kind, size = kind & 0xFFFF, kind >> 16
            start, after = place + 4, place + 8
        else:
            start = place + 8
            after = start + size + (0 if kind == _COMPRESSED else -size % 8)
        if start + size > len(data):
            raise ValueError(f"an element of {size} bytes where {len(data) - start} are left")
        yield kind, data[start : start + size]
        place = after


def _unpacked(content: bytes, budget: Budget) -> bytes:
    """The content decompressed; stops as soon as it is out of proportion to the file."""
    unpacker = zlib.decompressobj()
    pieces = []
    while content and not unpacker.eof:
        pieces.append(unpacker.decompress(content, 1 << 20))
        content = unpacker.unconsumed_tail
        budget.charge("the file", len(pieces[-1]))
    return b"".join(pieces)


def _matrix(content: bytes, order: Order, budget: Budget) -> Variable:
    """Flags, dimensions, name, then the numbers."""
    elements = _elements(content, order)
    (_, flags), (_, sizes), (_, title) = next(elements), next(elements), next(elements)
    word = int(np.frombuffer(flags, f"{order}u4", 1)[0])
    kind = word & 0xFF
    shape = tuple(int(n) for n in np.frombuffer(sizes, f"{order}i4"))
    name = title.decode("latin-1")
    if word & _COMPLEX:
        return Variable(name, None, "holds complex numbers instead of real ones")
    if kind in _CLASS:
        stored, raw = next(elements)
        values = _shaped(np.frombuffer(raw, f"{order}{_STORED[stored]}"), shape)
        dtype = np.dtype("?" if word & _LOGICAL else _CLASS[kind])
        budget.charge("the file", max(0, dtype.itemsize - values.itemsize) * values.size)
        return Variable(name, values.astype(dtype))
    if kind == _CHAR:
        stored, raw = next(elements)
        budget.charge("the file", _CHARACTER_BYTES * len(raw))
        return Variable(name, _text(raw, _TEXT[stored], order, shape))
    if kind == _CELL:
        cells = [_matrix(cell, order, budget).array for _, cell in elements]
        if cells and all(c is not None and c.dtype.kind == "U" and c.size == 1 for c in cells):
            words = [str(c[0]) for c in cells if c is not None]
            budget.charge("the file", text_bytes(len(words), max(map(len, words))))
            return Variable(name, np.array([word[:MAX_CHARACTERS] for word in words], dtype=np.str_))
    return Variable(name, None, "holds cells, structures or sparse numbers instead of a plain matrix")


def _shaped(flat: Array, shape: tuple[int, ...]) -> Array:
    if min(shape, default=-1) < 0 or math.prod(shape) != flat.size:
        raise ValueError(f"{flat.size} numbers for a matrix of shape {shape}")
    return flat.reshape(shape, order="F")


def _text(raw: bytes, encoding: str, order: Order, shape: tuple[int, ...]) -> Array:
    """One string per row of the character matrix, without the blanks that pad it."""
    if encoding in ("utf-16", "utf-32"):
        encoding += "-le" if order == "<" else "-be"
    characters = np.array(list(raw.decode(encoding)), dtype="U1")
    if characters.size == 0:
        return np.array([""], dtype=np.str_)
    rows = _shaped(characters, shape).reshape(shape[0], -1)
    return np.array(["".join(row).rstrip() for row in rows], dtype=np.str_)


def _variables4(data: bytes) -> Iterator[Variable]:
    """Version 4: five integers, the name, the numbers; the first integer says type and byte order."""
    place = 0
    while place < len(data):
        order: Order = "<" if 0 <= int(np.frombuffer(data, "<i4", 1, place)[0]) < 5000 else ">"
        code, rows, columns, imaginary, length = (int(n) for n in np.frombuffer(data, f"{order}i4", 5, place))
        place += 20
        if min(rows, columns, length) < 0 or not 0 <= code < 5000:
            raise ValueError("not the header of a MATLAB variable")
        name = data[place : place + length].rstrip(b"\0").decode("latin-1")
        place += length
        dtype = np.dtype(_MAT4[code // 10 % 10]).newbyteorder(order)
        size = rows * columns * dtype.itemsize
        if place + size > len(data):
            raise ValueError(f"a variable of {size} bytes where {len(data) - place} are left")
        if imaginary or code % 10:
            yield Variable(name, None, "holds text, sparse or complex numbers")
        else:
            yield Variable(name, _shaped(np.frombuffer(data[place : place + size], dtype), (rows, columns)))
        place += size * (2 if imaginary else 1)
