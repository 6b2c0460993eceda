"""A parquet file written by hand, so that its headers can say anything."""

from __future__ import annotations

import struct
from collections.abc import Sequence

I32, I64, TEXT, LIST, STRUCT = 5, 6, 8, 9, 12
"""Types of Thrift's compact protocol."""
Value = tuple[int, bytes]
Field = tuple[int, Value]

DOUBLE, PLAIN, RLE, RLE_DICTIONARY, DATA_PAGE, DICTIONARY_PAGE = 5, 0, 3, 8, 0, 2
"""Types, encodings and pages of parquet."""


def unsigned(value: int) -> bytes:
    """Seven bits per byte, the lowest first."""
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def varint(value: int) -> bytes:
    """A signed number as parquet's headers write it."""
    return unsigned(value << 1 if value >= 0 else (-value << 1) - 1)


def i32(value: int) -> Value:
    return I32, varint(value)


def i64(value: int) -> Value:
    return I64, varint(value)


def text(value: str) -> Value:
    return TEXT, unsigned(len(value.encode())) + value.encode()


def listed(items: Sequence[Value]) -> Value:
    head = bytes([len(items) << 4 | items[0][0]]) if len(items) < 15 else bytes([0xF0 | items[0][0]])
    return LIST, head + (unsigned(len(items)) if len(items) >= 15 else b"") + b"".join(item for _, item in items)


def structure(*fields: Field) -> Value:
    """Fields by number, in any order and as often as given."""
    out, last = b"", 0
    for number, (kind, content) in fields:
        step = number - last
        out += (bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + varint(number)) + content
        last = number
    return STRUCT, out + b"\0"


def table(rows: int, data_header: Sequence[Field], names: Sequence[str] = ("logits", "labels")) -> bytes:
    """Columns of doubles, all 0: a dictionary of one number, then a page of codes whose header is given."""
    run = b"\0" + unsigned(rows << 1)  # codes of no bits, one run of them
    pages = [
        structure((1, i32(DICTIONARY_PAGE)), (2, i32(8)), (3, i32(8)), (7, structure((1, i32(1)), (2, i32(PLAIN)))))[1],
        bytes(8),
        structure((1, i32(DATA_PAGE)), (2, i32(len(run))), (3, i32(len(run))), *data_header)[1],
        run,
    ]
    body, columns = b"PAR1", []
    for name in names:
        start, data = len(body), len(body) + len(pages[0]) + 8
        body += b"".join(pages)
        size = i64(len(body) - start)
        encodings = listed([i32(PLAIN), i32(RLE), i32(RLE_DICTIONARY)])
        described = (1, i32(DOUBLE)), (2, encodings), (3, listed([text(name)])), (4, i32(0)), (5, i64(rows))
        places = (6, size), (7, size), (9, i64(data)), (11, i64(start))
        columns.append(structure((2, i64(start)), (3, structure(*described, *places))))
    root = structure((4, text("schema")), (5, i32(len(names))))
    leaves = [structure((1, i32(DOUBLE)), (3, i32(0)), (4, text(name))) for name in names]
    group = structure((1, listed(columns)), (2, i64(len(body))), (3, i64(rows)))
    footer = structure((1, i32(1)), (2, listed([root, *leaves])), (3, i64(rows)), (4, listed([group])))[1]
    return body + footer + struct.pack("<I", len(footer)) + b"PAR1"


def data_page(values: int, encoding: int = RLE_DICTIONARY) -> Field:
    """The part of a page's header that says how many values it has."""
    return 5, structure((1, i32(values)), (2, i32(encoding)), (3, i32(RLE)), (4, i32(RLE)))
