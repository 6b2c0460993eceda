"""How much memory the columns of a parquet or Arrow file take, from the sizes that its pages and messages declare.

Parquet: the metadata at the end of a file may claim anything; the decoder uses the header of each page, which has the
number of values and of decompressed bytes. The headers are structures in Thrift's compact protocol.

Arrow: the description of a message is a FlatBuffers table with the buffers of a batch as (offset, length) in its body.
A compressed buffer begins with its decompressed length, or -1 if it is stored uncompressed.
"""

from __future__ import annotations

import struct
from typing import Any

LEVEL_BYTES = 4
"""Two levels per value say where lists begin and what is missing."""
_PAGE, _DICTIONARY_PAGE, _PAGE_V2 = 5, 7, 8
"""Fields of a page header, each of which describes one kind of page."""
_PREFIXED = 7
"""DELTA_BYTE_ARRAY, in which a text repeats the beginning of the one before: only decoding it gives its size."""

_DICTIONARY, _BATCH = 2, 3
"""Kinds of messages that carry arrays."""
_HEADER_KIND, _HEADER = 1, 2
"""Fields of a message."""
_BUFFERS, _COMPRESSION = 2, 3
"""Fields of a batch."""
_DATA = 1
"""Field of a dictionary that holds its batch."""

Fields = dict[int, Any]


def size_of_pages(data: bytes, start: int, end: int, value_bytes: int) -> int:
    """An upper bound of the memory for the values of the pages in data[start:end]."""
    total, place = 0, start
    while place < end:
        header, place = _structure(data, place, depth=0)
        size, packed = header[2], header[3]
        part = header.get(_PAGE) or header.get(_PAGE_V2) or header.get(_DICTIONARY_PAGE) or {}
        values = part.get(1, 0)
        if min(size, packed, values) < 0 or packed > len(data):
            raise ValueError("a page with an impossible size")
        if part.get(4 if _PAGE_V2 in header else 2) == _PREFIXED:
            raise ValueError("texts that share their beginnings; write it with dictionary encoding")
        total += size + values * (value_bytes + LEVEL_BYTES)
        place += packed
    return total


def _structure(data: bytes, place: int, depth: int) -> tuple[Fields, int]:
    """(field -> value, the offset after it): integers and structures are kept, the rest is skipped."""
    fields: Fields = {}
    field = 0
    while (head := data[place]) != 0:
        place += 1
        kind = head & 15
        if head >> 4:
            field += head >> 4
        else:
            field, place = _whole(data, place)
        fields[field], place = _value(data, place, kind, depth)
    return fields, place + 1


def _value(data: bytes, place: int, kind: int, depth: int) -> tuple[Any, int]:
    if depth > 8:
        raise ValueError("a page header nested too deeply")
    if kind in (1, 2):  # true and false
        return kind == 1, place
    if kind == 3:
        return data[place], place + 1
    if kind in (4, 5, 6):
        return _whole(data, place)
    if kind == 7:
        return None, place + 8
    if kind == 8:
        length, place = _unsigned(data, place)
        return None, place + length
    if kind == 12:
        return _structure(data, place, depth + 1)
    raise ValueError("a page header with a part that none has")


def _whole(data: bytes, place: int) -> tuple[int, int]:
    """A signed integer in zigzag encoding."""
    value, place = _unsigned(data, place)
    return (value >> 1) ^ -(value & 1), place


def _unsigned(data: bytes, place: int) -> tuple[int, int]:
    """A varint: seven bits per byte, the lowest first."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise ValueError("a number without an end")


def size_of_message(message: Any) -> int:
    """Bytes that the arrays of one message take once they are decompressed."""
    description = memoryview(message.metadata)
    root = _Table(description, _at(description, "I", 0))
    kind = root.number(_HEADER_KIND, "B")
    if kind not in (_DICTIONARY, _BATCH):
        return 0
    batch = root.table(_HEADER)
    if kind == _DICTIONARY:
        batch = batch.table(_DATA)
    compressed = batch.where(_COMPRESSION) is not None
    body = memoryview(message.body) if message.body is not None else memoryview(b"")
    total = 0
    for place, length in batch.pairs(_BUFFERS):
        if min(place, length) < 0 or place + length > len(body):
            raise ValueError("a buffer outside its message")
        declared = _at(body, "q", place) if compressed and length else -1
        total += length if declared < 0 else declared
    return total


class _Table:
    """One FlatBuffers table: its vtable says where its fields are."""

    def __init__(self, data: memoryview, place: int) -> None:
        self.data, self.place = data, place
        self.offsets = place - _at(data, "i", place)

    def where(self, field: int) -> int | None:
        """The offset of a field, or None where it is absent."""
        entry = 4 + 2 * field
        if entry + 2 > _at(self.data, "H", self.offsets):
            return None
        offset = _at(self.data, "H", self.offsets + entry)
        return self.place + offset if offset else None

    def number(self, field: int, code: str) -> int:
        place = self.where(field)
        return 0 if place is None else _at(self.data, code, place)

    def table(self, field: int) -> _Table:
        place = self.where(field)
        if place is None:
            raise ValueError("a message without arrays")
        return _Table(self.data, place + _at(self.data, "I", place))

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """A list of pairs of integers."""
        place = self.where(field)
        if place is None:
            return []
        place += _at(self.data, "I", place)
        count = _at(self.data, "I", place)
        flat = struct.unpack_from(f"<{2 * count}q", self.data, place + 4)
        return list(zip(flat[::2], flat[1::2], strict=True))


def _at(data: memoryview, code: str, place: int) -> int:
    return int(struct.unpack_from(f"<{code}", data, place)[0])
