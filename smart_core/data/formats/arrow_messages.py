"""How much the messages of an Arrow stream unpack to, from the sizes that they declare.

A message's description is a FlatBuffers table: the buffers of a batch as (place, length) in its body. A compressed
buffer begins with its length when decompressed, -1 where it is stored as it is.
"""

from __future__ import annotations

import struct
from typing import Any

_DICTIONARY, _BATCH = 2, 3
"""Kinds of messages that carry arrays."""
_HEADER_KIND, _HEADER = 1, 2
"""Fields of a message."""
_BUFFERS, _COMPRESSION = 2, 3
"""Fields of a batch."""
_DATA = 1
"""Field of a dictionary that holds its batch."""


def unpacked_size(message: Any) -> int:
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
