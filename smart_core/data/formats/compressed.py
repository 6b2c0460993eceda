"""Files compressed as a whole: gzip, bzip2, xz, zstd and lz4. What is unpacked is a file of any other format."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from typing import Any

from smart_core.data.formats.limits import DAMAGED, Budget
from smart_core.data.formats.raw import Source
from smart_core.errors import LogitFileError

PIECE = 1 << 20
"""Bytes that are unpacked at a time."""


def _arrow(codec: str) -> Callable[[bytes], Any]:
    def opened(data: bytes) -> Any:
        import pyarrow

        return pyarrow.CompressedInputStream(pyarrow.BufferReader(data), codec)

    return opened


def _xz(data: bytes) -> Any:
    return lzma.LZMAFile(BytesIO(data))


OPENERS: dict[bytes, tuple[str, Callable[[bytes], Any]]] = {
    b"\x1f\x8b": ("gzip", lambda data: gzip.GzipFile(fileobj=BytesIO(data))),
    b"BZh": ("bzip2", lambda data: bz2.BZ2File(BytesIO(data))),
    b"\xfd7zXZ\x00": ("xz", _xz),
    b"\x28\xb5\x2f\xfd": ("zstd", _arrow("zstd")),
    b"\x04\x22\x4d\x18": ("lz4", _arrow("lz4")),
}
"""First bytes of a compressed file -> the name of the compression, and what opens it."""


def is_compressed(head: bytes | bytearray) -> bool:
    """Return whether these first bytes are those of a compressed file."""
    return head.startswith(tuple(OPENERS))


def unpacked(source: Source) -> Source:
    """Return the file that is inside; raise if it is out of proportion to the compressed one."""
    name, opener = next(value for start, value in OPENERS.items() if source.head.startswith(start))
    budget, content = Budget(source.name, len(source.data)), bytearray()
    try:
        with opener(source.data) as stream:
            while piece := stream.read(PIECE):
                budget.charge(f"the {name} file", len(piece))
                content += piece
    except (LogitFileError, MemoryError):
        raise
    except Exception as error:  # each library has errors of its own
        raise LogitFileError(f"cannot be unpacked as a {name} file", DAMAGED, file=source.name) from error
    if is_compressed(content):
        raise LogitFileError("is compressed twice", "uncompress it once", file=source.name)
    return replace(source, content=bytes(content))
