"""parquet, arrow and feather, read by pyarrow: columns of numbers or text, or list columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.parquet
from pyarrow import types

from smart_core.data.formats.limits import Budget, check_width, text_array
from smart_core.data.formats.ragged import padded
from smart_core.data.formats.raw import Column, RawFile, Source
from smart_core.data.logitset import Array, Notice
from smart_core.errors import LogitFileError
from smart_core.formatting import printable


def read_parquet(source: Source) -> RawFile:
    """Read a parquet table; columns that no role can use are not decoded."""
    file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(source.data), memory_map=False, pre_buffer=False)
    schema = file.schema_arrow
    check_width(source.name, len(schema))
    usable = [field.name for field in schema if _is_usable(field.type)]
    columns = usable if len(usable) < len(schema) else None
    rows = file.metadata.num_rows
    ragged = any(_is_list(field.type) and not types.is_fixed_size_list(field.type) for field in schema)
    if ragged or file.num_row_groups < 2:  # lists whose length differs from group to group are padded together
        return _raw_file(source, [file.read(columns=columns, use_threads=False)], list(schema.names), rows)
    # group by group: pyarrow needs several times the size of what it reads
    groups = range(file.num_row_groups)
    tables = (file.read_row_group(group, columns=columns, use_threads=False) for group in groups)
    return _raw_file(source, tables, list(schema.names), rows)


def read_arrow(source: Source) -> RawFile:
    """Read an Arrow or Feather file, or an Arrow stream."""
    opener = pyarrow.ipc.open_file if source.data.startswith(b"ARROW1") else pyarrow.ipc.open_stream
    reader = opener(pyarrow.BufferReader(source.data), options=pyarrow.ipc.IpcReadOptions(use_threads=False))
    check_width(source.name, len(reader.schema))
    table = reader.read_all()
    return _raw_file(source, [table], table.column_names, table.num_rows)


def _raw_file(source: Source, tables: Iterable[Any], names: list[str], rows: int) -> RawFile:
    """Return the columns of a table of so many rows, given in pieces.

    Columns of `names` that no role can use need not be in it.
    """
    raw = RawFile(source.name, has_header=True)
    found: dict[str, Array] = {}
    at = 0
    for table in tables:
        usable = table.select([i for i, field in enumerate(table.schema) if _is_usable(field.type)])
        usable.validate(full=True)
        for name, column in zip(usable.column_names, usable.columns, strict=True):
            label = f"column '{printable(name)}'"
            values = _values(source.name, column, raw.notices, label, at)
            if len(values) == rows:
                found[name] = values
                continue
            if name not in found:
                found[name] = np.empty((rows, *values.shape[1:]), dtype=values.dtype)
            if found[name].shape[1:] != values.shape[1:]:
                raise _ragged(source.name, label, at)
            found[name] = found[name].astype(np.promote_types(found[name].dtype, values.dtype), copy=False)
            found[name][at : at + len(values)] = values
        at += len(usable)
    columns = [Column(name, values) for name, values in found.items()]
    read = set(found)
    # dates, structures and others become empty texts that take no memory
    empty = np.broadcast_to(np.array("", dtype=np.str_), (rows,))
    raw.columns = columns + [Column(name, empty) for name in names if name not in read]
    return raw


def _is_number(kind: Any) -> bool:
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _is_text(kind: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_list(kind: Any) -> bool:
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(lists and _is_number(kind.value_type))


def _is_usable(kind: Any) -> bool:
    """Numbers, text, lists of numbers, and categories of numbers or text."""
    if isinstance(kind, pyarrow.BaseExtensionType):
        return _is_usable(kind.storage_type)
    if types.is_dictionary(kind):
        return _is_text(kind.value_type) or _is_number(kind.value_type)
    return _is_number(kind) or _is_text(kind) or _is_list(kind)


def _values(file: str, column: Any, notices: list[Notice], label: str, first: int) -> Array:
    """Return a column as an array; `first` is the row of the file that it begins at, for errors."""
    if _is_list(column.type) and types.is_floating(column.type.value_type) and not column.null_count:
        lengths = pyarrow.compute.list_value_length(column).to_numpy()
        if len(lengths) and lengths.min() < lengths.max():
            flat = pyarrow.compute.list_flatten(column).to_numpy()
            return padded(Budget(file, flat.nbytes), label, np.split(flat, lengths.cumsum()[:-1]))
    pieces: list[Array] = []
    rows = first
    for chunk in [chunk for chunk in column.chunks if len(chunk)] or [pyarrow.array([], column.type)]:
        array = chunk.storage if isinstance(chunk, pyarrow.ExtensionArray) else chunk
        if types.is_dictionary(array.type):
            pieces.append(_categorical(file, array, notices, label))
        elif _is_list(array.type):
            pieces.append(_matrix(file, label, array, rows))
        elif _is_text(array.type):
            pieces.append(text_array(_words(array), file, label, notices))
        else:
            pieces.append(np.asarray(array.to_numpy(zero_copy_only=False)))
        if pieces[-1].shape[1:] != pieces[0].shape[1:]:
            raise _ragged(file, label, rows)
        rows += len(array)
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _words(array: Any) -> list[str]:
    return [word or "" for word in array.to_pylist()]


def _categorical(file: str, array: Any, notices: list[Notice], label: str) -> Array:
    """Return the category of each row; a missing code is an empty text, or NaN."""
    if _is_text(array.dictionary.type):
        words = text_array([*_words(array.dictionary), ""], file, label, notices)
    else:
        words = np.asarray(array.dictionary.to_numpy(zero_copy_only=False))
        words = np.append(words, np.nan) if array.null_count else words
    return words[array.indices.cast(pyarrow.int64()).fill_null(len(array.dictionary)).to_numpy(zero_copy_only=False)]


def _matrix(file: str, label: str, array: Any, before: int) -> Array:
    """A list column as a matrix, if every list is equally long."""
    lengths = pyarrow.compute.list_value_length(array)
    bounds = pyarrow.compute.min_max(lengths).as_py()
    if array.null_count or bounds["min"] != bounds["max"]:
        odd = pyarrow.compute.fill_null(pyarrow.compute.not_equal(lengths, bounds["max"]), True)
        raise _ragged(file, label, before + odd.to_numpy(zero_copy_only=False).argmax())
    flat = array.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat).reshape(len(array), bounds["max"] or 0)


def _ragged(file: str, label: str, row: int) -> LogitFileError:
    problem = f"{label} holds lists of unequal length, the first at row {row} (counted from 0)"
    return LogitFileError(problem, "give every row the same number of classes", file=file)
