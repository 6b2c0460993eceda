"""npy and npz: the header is held against the bytes that follow it before any array is made."""

from __future__ import annotations

import math
from io import BytesIO
from typing import Any

import numpy as np
from numpy.lib import format as npy

from smart_core.data.found import Contents, Found, Path, found_array, refuse, unusable
from smart_core.data.limits import bytes_shown
from smart_core.data.readers.archive import open_zip, unpacked
from smart_core.data.source import Source

_LONGEST_HEADER = 1 << 17
"""NumPy itself reads no header longer than 10,000 characters."""
_HEADERS: dict[tuple[int, int], Any] = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_npy(source: Source) -> Contents:
    """One array, known by the file's name."""
    return Contents([array_of_npy(source.name, source.data, (source.stem,))])


def read_npz(source: Source) -> Contents:
    """Every array of the archive, known by its member's name."""
    archive = open_zip(source.name, source.data)
    found = [
        array_of_npy(source.name, unpacked(archive, member.filename), (member.filename.removesuffix(".npy"),))
        for member in archive.infolist()
        if member.filename.endswith(".npy")
    ]
    return Contents(found)


def array_of_npy(file: str, data: bytes | bytearray, path: Path) -> Found:
    """The array as a view of the bytes; object arrays, which only code could build, are marked unusable."""
    stream = BytesIO(bytes(data[:_LONGEST_HEADER]))
    version = npy.read_magic(stream)
    if version not in _HEADERS:
        return Found(file, path, None, "record", problem="holds records instead of numbers")
    shape, fortran, dtype = _HEADERS[version](stream)
    if dtype.hasobject or dtype.kind == "V":
        return unusable(file, path, dtype, shape)
    start = stream.tell()
    held, claimed = len(data) - start, math.prod(shape) * dtype.itemsize
    if claimed > held or min(shape, default=0) < 0:
        where = Found(file, path, None, "").label
        what = f"{where} claims {bytes_shown(claimed)} but the file holds {bytes_shown(held)} of it"
        raise refuse(file, what, "it is truncated or damaged; copy or save it again")
    if claimed == 0:
        return found_array(file, path, np.empty(shape, dtype=dtype))
    flat = np.frombuffer(data, dtype=dtype, count=math.prod(shape), offset=start)
    return found_array(file, path, flat.reshape(shape, order="F" if fortran else "C"))
