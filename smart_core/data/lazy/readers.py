"""Rows of one file, read when they are asked for: one reader per format.

A reader lists the arrays of a file from its header, and reads a range of rows of one of them in blocks. npy and
safetensors, which are a header and then the numbers, are read here: every offset is checked against the size of the
file, and rows are read at their place rather than mapped, because a mapped file that is cut short kills the process
that reads it. The other formats are read by their libraries, with the limits that `docs/trust.md` states.
"""

from __future__ import annotations

import json
import math
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format

from smart_core.data.formats.limits import DAMAGED, text_array
from smart_core.data.formats.safetensors_file import MAX_HEADER
from smart_core.data.formats.zarr_store import CODECS, MAX_METADATA, codecs
from smart_core.data.logitset import Array
from smart_core.errors import LogitFileError
from smart_core.formatting import bytes_text, error_text, join_words, printable

NPY_HEADER = 10_000
"""Bytes of a npy header, of which a plain matrix takes 128."""
NAME_AND_NUMBER = re.compile(r"^(.*?)[_.\- ]?(\d{1,6})$")
"""A column of a table of logits, such as `logit_17`."""

PLAIN = {
    **{"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1"},
    **{"U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1"},
}
"""The types of safetensors that NumPy has."""
BY_TORCH = {"BF16": ("bfloat16", 2), "F8_E4M3": ("float8_e4m3fn", 1), "F8_E5M2": ("float8_e5m2", 1)}
"""Those that PyTorch widens: the name of its type, if this version has it, and the bytes of a number."""


@dataclass(frozen=True)
class Found:
    """An array in a file: its shape, and whether it holds floating-point numbers, whole numbers or text."""

    shape: tuple[int, ...]
    kind: str
    """`f`, `i` or `U`."""


class Reader(ABC):
    """Reads the files of one format."""

    format: str
    """Its name in errors."""

    @abstractmethod
    def arrays(self, path: str) -> Mapping[str, Found]:
        """The arrays of a file by name, from its header; "" is the name of the only one of a format without names."""

    @abstractmethod
    def blocks(self, path: str, key: str, start: int, stop: int, size: int) -> Iterator[Array]:
        """The rows from `start` to `stop` of an array, in consecutive blocks of at most `size` rows.

        A block may share its memory with the next one.
        """

    sparse = False
    """Whether a few rows can be read without those between them."""


# -- a header, then the numbers --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Numbers:
    """Where the numbers of an array are in its file."""

    offset: int
    shape: tuple[int, ...]
    dtype: str
    """NumPy's name of the type, or PyTorch's."""
    item: int
    """Bytes of a number."""

    @property
    def found(self) -> Found:
        return Found(self.shape, "i" if self.dtype[0] in "<>|=" and self.dtype[1] in "iub" else "f")


class _Flat(Reader):
    sparse = True

    @abstractmethod
    def _layout(self, handle: IO[bytes], size: int, name: str) -> dict[str, _Numbers]:
        """Every array of an open file of this size."""

    def arrays(self, path: str) -> Mapping[str, Found]:
        with open_binary(path) as (handle, size):
            return {key: numbers.found for key, numbers in self._checked(handle, size, name_of(path)).items()}

    def _checked(self, handle: IO[bytes], size: int, name: str) -> dict[str, _Numbers]:
        layout = self._layout(handle, size, name)
        for numbers in layout.values():
            end = numbers.offset + math.prod(numbers.shape) * numbers.item
            if min(numbers.shape, default=0) < 0 or end > size:
                problem = f"should hold {bytes_text(end)} and holds {bytes_text(size)}"
                raise LogitFileError(problem, DAMAGED, file=name)
        return layout

    def blocks(self, path: str, key: str, start: int, stop: int, size: int) -> Iterator[Array]:
        with open_binary(path) as (handle, length):
            numbers = self._checked(handle, length, name_of(path))[key]
            width = math.prod(numbers.shape[1:]) * numbers.item
            whole = np.empty(min(size, max(stop - start, 0)) * width, dtype=np.uint8)
            for first in range(start, stop, size):
                rows = min(size, stop - first)
                buffer = whole[: rows * width]
                handle.seek(numbers.offset + first * width)
                if _fill(handle, buffer) < len(buffer):
                    raise LogitFileError("ends before its last row", DAMAGED, file=name_of(path))
                yield _as_array(buffer, numbers.dtype).reshape(rows, *numbers.shape[1:])


def _fill(handle: Any, buffer: Array) -> int:
    """Read until the buffer is full or the file ends; return the bytes read."""
    view, done = buffer.data, 0
    while done < len(buffer):
        if hasattr(handle, "readinto"):
            count = handle.readinto(view[done:])
        else:
            piece = handle.read(len(buffer) - done)
            count = len(piece)
            view[done : done + count] = piece
        if not count:
            break
        done += count
    return done


def _as_array(buffer: Array, dtype: str) -> Array:
    if dtype[0] in "<>|=":
        return buffer.view(dtype)
    import torch

    return torch.from_numpy(buffer).view(getattr(torch, dtype)).float().numpy()


class _Npy(_Flat):
    format = "npy"

    def _layout(self, handle: IO[bytes], size: int, name: str) -> dict[str, _Numbers]:
        version = npy_format.read_magic(handle)
        read = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}.get(version)
        if read is None:
            raise LogitFileError(f"is npy of version {version[0]}.{version[1]}", "save it with numpy.save", file=name)
        shape, fortran, dtype = read(handle, max_header_size=NPY_HEADER)
        if dtype.kind not in "fiub":
            problem = f"holds {dtype} instead of numbers"
            raise LogitFileError(problem, "save float16, float32 or float64; bfloat16 as safetensors", file=name)
        if fortran and sum(n != 1 for n in shape) > 1:
            problem = "is stored column by column, so rows cannot be read one by one"
            raise LogitFileError(problem, "save numpy.ascontiguousarray(logits)", file=name)
        return {"": _Numbers(handle.tell(), tuple(shape), dtype.str, dtype.itemsize)}


class _Safetensors(_Flat):
    format = "safetensors"

    def _layout(self, handle: IO[bytes], size: int, name: str) -> dict[str, _Numbers]:
        length = int.from_bytes(handle.read(8), "little")
        if length > min(size - 8, MAX_HEADER):
            problem = f"its header claims {bytes_text(length)} of {bytes_text(size)}"
            raise LogitFileError(problem, DAMAGED, file=name)
        header = json.loads(handle.read(length))
        header.pop("__metadata__", None)
        found = {}
        for key, entry in header.items():
            shape, (begin, end) = tuple(map(int, entry["shape"])), map(int, entry["data_offsets"])
            if (kind := str(entry["dtype"])) in PLAIN:
                dtype, item = PLAIN[kind], np.dtype(PLAIN[kind]).itemsize
            elif kind in BY_TORCH and _torch_has(BY_TORCH[kind][0]):
                dtype, item = BY_TORCH[kind]
            else:
                continue
            if begin < 0 or end - begin != math.prod(shape) * item:
                problem = f"'{printable(key)}' does not fit the bytes that it claims"
                raise LogitFileError(problem, DAMAGED, file=name)
            found[key] = _Numbers(8 + length + begin, shape, dtype, item)
        return found


@cache
def _torch_has(dtype: str) -> bool:
    import torch

    return hasattr(torch, dtype)


# -- formats that libraries read -------------------------------------------------------------------------------


class _Table(Reader):
    """Columns of record batches: a column of lists, or one numeric column per class, is a matrix."""

    @abstractmethod
    def _schema(self, path: str) -> tuple[Any, int]:
        """Schema and number of rows."""

    @abstractmethod
    def _batches(self, path: str, columns: list[str], start: int, stop: int, size: int) -> Iterator[Any]:
        """Record batches of these columns that together are the rows from `start` to `stop`."""

    def arrays(self, path: str) -> Mapping[str, Found]:
        import pyarrow as pa

        schema, rows = self._schema(path)
        found = {}
        for field in schema:
            kind = field.type
            if pa.types.is_fixed_size_list(kind) and _numeric(kind.value_type):
                found[field.name] = Found((rows, kind.list_size), "f")
            elif (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _numeric(kind.value_type) and rows:
                first = next(self._batches(path, [field.name], 0, 1, 1)).column(0)
                found[field.name] = Found((rows, len(first[0].as_py() or ())), "f")
            elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
                found[field.name] = Found((rows,), "i")
            elif pa.types.is_floating(kind):
                found[field.name] = Found((rows,), "f")
            elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
                found[field.name] = Found((rows,), "U")
        for prefix, columns in _numbered(found).items():
            for name in columns:
                del found[name]
            found[f"{prefix}*"] = Found((rows, len(columns)), "f")
        return found

    def blocks(self, path: str, key: str, start: int, stop: int, size: int) -> Iterator[Array]:
        columns = self._columns(path, key)
        for batch in self._batches(path, columns, start, stop, size):
            if len(columns) > 1 or key.endswith("*"):
                yield np.column_stack([column.to_numpy(zero_copy_only=False) for column in batch.columns])
            else:
                yield _values(batch.column(0), name_of(path), key)

    def _columns(self, path: str, key: str) -> list[str]:
        names = self._schema(path)[0].names
        if not key.endswith("*") or key in names:
            return [key]
        parts = [part for name in names if (part := NAME_AND_NUMBER.match(name)) and part[1] == key[:-1]]
        return [part[0] for part in sorted(parts, key=lambda part: int(part[2]))]


def _numeric(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _numbered(found: Mapping[str, Found]) -> dict[str, list[str]]:
    """Prefix -> the float columns that it begins, numbered without a gap."""
    families: dict[str, list[tuple[int, str]]] = {}
    for name, each in found.items():
        if each.kind == "f" and len(each.shape) == 1 and (part := NAME_AND_NUMBER.match(name)):
            families.setdefault(part[1], []).append((int(part[2]), name))
    return {
        prefix: [name for _, name in sorted(members)]
        for prefix, members in families.items()
        if len(members) > 1 and sorted(number for number, _ in members)[-1] - min(members)[0] + 1 == len(members)
    }


def _values(column: Any, name: str, key: str) -> Array:
    """A column as a vector, or as a matrix if it holds lists."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        return text_array([str(word) for word in column.to_pylist()], name, f"'{printable(key)}'", [])
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    values = column.flatten().to_numpy(zero_copy_only=False)
    if column.null_count or len(values) % max(1, len(column)):
        problem = f"'{printable(key)}' has rows of unequal length"
        raise LogitFileError(problem, "give every row one number per class", file=name)
    lengths = None if pa.types.is_fixed_size_list(kind) else np.diff(column.offsets.to_numpy(zero_copy_only=False))
    if lengths is not None and len(lengths) and (lengths != lengths[0]).any():
        problem = f"'{printable(key)}' has rows of unequal length"
        raise LogitFileError(problem, "give every row one number per class", file=name)
    return np.asarray(values).reshape(len(column), -1)


class _Parquet(_Table):
    format = "Parquet"

    def _schema(self, path: str) -> tuple[Any, int]:
        from pyarrow.parquet import ParquetFile

        with open_binary(path) as (handle, _), ParquetFile(handle) as file:
            return file.schema_arrow, file.metadata.num_rows

    def _batches(self, path: str, columns: list[str], start: int, stop: int, size: int) -> Iterator[Any]:
        from pyarrow.parquet import ParquetFile

        with open_binary(path) as (handle, _), ParquetFile(handle) as file:
            ends = np.cumsum([file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)])
            begins = ends - np.diff(ends, prepend=0)
            groups = np.flatnonzero((ends > start) & (begins < stop)).tolist()
            if not groups:
                return
            at = int(begins[groups[0]])
            for batch in file.iter_batches(batch_size=size, row_groups=groups, columns=columns):
                low, high = max(start - at, 0), min(stop - at, len(batch))
                at += len(batch)
                if low < high:
                    yield batch.slice(low, high - low).select(columns)
                if at >= stop:
                    return


class _Arrow(_Table):
    format = "Arrow"

    @contextmanager
    def _file(self, path: str) -> Iterator[Any]:
        import pyarrow as pa

        with open_binary(path) as (handle, _):
            yield pa.ipc.open_file(handle)

    def _schema(self, path: str) -> tuple[Any, int]:
        with self._file(path) as file:
            return file.schema, sum(file.get_batch(i).num_rows for i in range(file.num_record_batches))

    def _batches(self, path: str, columns: list[str], start: int, stop: int, size: int) -> Iterator[Any]:
        with self._file(path) as file:
            at = 0
            for number in range(file.num_record_batches):
                batch = file.get_batch(number)
                low, high = max(start - at, 0), min(stop - at, len(batch))
                at += len(batch)
                for first in range(low, high, size):
                    yield batch.slice(first, min(size, high - first)).select(columns)
                if at >= stop:
                    return


class _Hdf5(Reader):
    """Datasets of numbers; what refers to another file is not listed."""

    format = "HDF5"

    def arrays(self, path: str) -> Mapping[str, Found]:
        import h5py

        found: dict[str, Found] = {}

        def visit(name: str, item: Any) -> None:
            plain = isinstance(item, h5py.Dataset) and item.shape and item.dtype.kind in "fiub"
            if plain and not item.is_virtual and not item.external:
                found[name] = Found(item.shape, "f" if item.dtype.kind == "f" else "i")

        with h5py.File(path, "r") as file:
            file.visititems(visit)
        return found

    def blocks(self, path: str, key: str, start: int, stop: int, size: int) -> Iterator[Array]:
        import h5py

        with h5py.File(path, "r") as file:
            data = file[key]
            for first in range(start, stop, size):
                yield np.asarray(data[first : min(first + size, stop)])


class _Zarr(Reader):
    """A store in a folder. Its codecs are checked first: one of zarr's runs code."""

    format = "zarr"

    def arrays(self, path: str) -> Mapping[str, Found]:
        found = {}
        for mark in sorted([*Path(path).rglob("zarr.json"), *Path(path).rglob(".zarray")]):
            if mark.stat().st_size > MAX_METADATA:
                continue
            metadata = json.loads(mark.read_bytes())
            version = 2 if mark.name == ".zarray" else 3
            if version == 3 and metadata.get("node_type") != "array":
                continue
            other = sorted(codecs(metadata, version) - CODECS)
            if other:
                problem = f"is packed with {printable(other[0], 40)}, which is not read here"
                raise LogitFileError(problem, "save it with zarr's default codecs", file=name_of(path))
            dtype = str(metadata.get("dtype") or metadata.get("data_type"))
            kind = "f" if "float" in dtype or dtype.lstrip("<>|").startswith("f") else "i"
            found[mark.parent.relative_to(path).as_posix()] = Found(tuple(map(int, metadata["shape"])), kind)
        return found

    def blocks(self, path: str, key: str, start: int, stop: int, size: int) -> Iterator[Array]:
        import zarr

        self.arrays(path)
        data: Any = zarr.open_array(str(Path(path) / key), mode="r")
        step = max(size, int(data.chunks[0]))  # a chunk is unpacked whole
        for first in range(start - start % step, stop, step):
            rows = np.asarray(data[max(first, start) : min(first + step, stop)])
            for low in range(0, len(rows), size):
                yield rows[low : low + size]


READERS: dict[str, Reader] = {
    ".npy": _Npy(),
    ".safetensors": _Safetensors(),
    ".parquet": _Parquet(),
    ".arrow": _Arrow(),
    ".feather": _Arrow(),
    ".h5": _Hdf5(),
    ".hdf5": _Hdf5(),
    ".zarr": _Zarr(),
}
"""The readers by the ends of names."""
READABLE_BY_ROWS = join_words(list(dict.fromkeys(reader.format for reader in READERS.values())))


def reader_of(path: str) -> Reader:
    """The reader of a file; an error for other formats."""
    suffix = Path(path).suffix.lower()
    if suffix not in READERS:
        problem = f"is not a format that is read by rows ({READABLE_BY_ROWS})"
        raise LogitFileError(problem, "save it as npy", "load it whole with load", file=name_of(path))
    return READERS[suffix]


def is_url(path: str) -> bool:
    """Whether a path is a URL, which fsspec opens."""
    return "://" in path


def name_of(path: str) -> str:
    """The name of a file in errors and notices."""
    return printable(Path(path).name or path)


@contextmanager
def open_binary(path: str) -> Iterator[tuple[Any, int]]:
    """An open binary file and its size."""
    if is_url(path):
        import fsspec

        filesystem, inner = fsspec.core.url_to_fs(path)
        with filesystem.open(inner, "rb") as remote:
            yield remote, int(filesystem.size(inner))
        return
    with Path(path).open("rb", buffering=0) as handle:
        yield handle, os.fstat(handle.fileno()).st_size


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn whatever goes wrong with a file into one sentence that names it."""
    name = name_of(path)
    try:
        yield
    except (LogitFileError, MemoryError):
        raise
    except FileNotFoundError:
        raise LogitFileError("there is no such file", "check the path", file=name) from None
    except PermissionError:
        raise LogitFileError("this process is not allowed to read it", "change its permissions", file=name) from None
    except ImportError as error:
        raise LogitFileError(f"needs the package {error.name}", f"pip install {error.name}", file=name) from None
    except Exception as error:  # a damaged file makes its library raise anything
        raise LogitFileError(f"could not be read ({error_text(error)})", DAMAGED, file=name) from error
