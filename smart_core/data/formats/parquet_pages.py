"""How much a parquet column unpacks to, from the headers of its pages.

The metadata at the end of a file may claim anything; the decoder uses each page's own header: the number of values
and of bytes when decompressed. The headers are structures in Thrift's compact protocol.
"""

from __future__ import annotations

from typing import Any

LEVEL_BYTES = 4
"""Two levels per value say where lists begin and what is missing."""
_DATA, _DICTIONARY, _DATA_V2 = 5, 7, 8
"""Field of a page header -> the part that describes such a page."""
_PREFIXED = 7
"""DELTA_BYTE_ARRAY, in which a text repeats the beginning of the one before: only decoding it gives its size."""

Fields = dict[int, Any]


def unpacked_size(data: bytes, start: int, end: int, value_bytes: int) -> int:
    """An upper bound of the memory for the values of the pages in data[start:end]."""
    total, place = 0, start
    while place < end:
        header, place = _structure(data, place, depth=0)
        size, packed = header[2], header[3]
        part = header.get(_DATA) or header.get(_DATA_V2) or header.get(_DICTIONARY) or {}
        values = part.get(1, 0)
        if min(size, packed, values) < 0 or packed > len(data):
            raise ValueError("a page with an impossible size")
        if part.get(4 if _DATA_V2 in header else 2) == _PREFIXED:
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
