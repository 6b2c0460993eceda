"""npy and npz: the header is compared with the bytes that follow it before any array is made."""

from __future__ import annotations

import math
from dataclasses import replace
from io import BytesIO
from typing import Any

import numpy as np
from numpy.lib import format as npy

from smart_core.data.formats.limits import DAMAGED, open_zip, unzip
from smart_core.data.formats.pickle_file import read_pickle
from smart_core.data.formats.raw import ArrayPath, RawArray, RawFile, Source
from smart_core.formatting import bytes_text

_LONGEST_HEADER = 1 << 17
"""NumPy itself reads no header longer than 10,000 characters."""
_HEADERS: dict[tuple[int, int], Any] = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_npy(source: Source) -> RawFile:
    """One array, under the file's name, or the arrays of a dict, which `np.save` pickles."""
    item = array_of_npy(source.name, source.data, (source.stem,))
    if item.dtype == "object" and item.shape == ():
        header = _header(source.data)
        return read_pickle(replace(source, content=source.data[header[-1] if header else 0 :]))
    return RawFile(source.name, [item])


def read_npz(source: Source) -> RawFile:
    """Every array of the archive, under its member's name."""
    archive = open_zip(source.name, source.data)
    arrays = [
        array_of_npy(source.name, unzip(archive, member), (member.filename.removesuffix(".npy"),))
        for member in archive.infolist()
        if member.filename.endswith(".npy")
    ]
    return RawFile(source.name, arrays)


def array_of_npy(file: str, data: bytes | bytearray, path: ArrayPath) -> RawArray:
    """The array as a view of the bytes; object arrays, which only code could build, are marked unusable."""
    header = _header(data)
    if header is None:
        return RawArray(file, path, None, "record", problem="holds records instead of numbers")
    shape, fortran, dtype, start = header
    if dtype.hasobject or dtype.kind == "V":
        return RawArray.unusable(file, path, dtype, shape)
    held, claimed = len(data) - start, math.prod(shape) * max(dtype.itemsize, 1)  # a text of no characters takes one
    if claimed > held or min(shape, default=0) < 0:
        problem = f"claims {bytes_text(claimed)} but the file holds {bytes_text(held)} of it"
        raise RawArray(file, path, None, "").error(problem, DAMAGED)
    if claimed == 0:
        return RawArray.of(file, path, np.empty(shape, dtype=dtype))
    flat = np.frombuffer(data, dtype=dtype, count=math.prod(shape), offset=start)
    return RawArray.of(file, path, flat.reshape(shape, order="F" if fortran else "C"))


def _header(data: bytes | bytearray) -> tuple[tuple[int, ...], bool, np.dtype[Any], int] | None:
    """Shape, Fortran order, type, and where the values start; None for a version that only records need."""
    stream = BytesIO(bytes(data[:_LONGEST_HEADER]))
    version = npy.read_magic(stream)
    return (*_HEADERS[version](stream), stream.tell()) if version in _HEADERS else None
