"""parquet, arrow and feather: columns of numbers or text, or list columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.parquet
from pyarrow import types

from smart_core.data.formats.column_sizes import size_of_message, size_of_pages
from smart_core.data.formats.limits import Budget, check_width, decode_categories, text_array
from smart_core.data.formats.raw import Column, RawFile, Source
from smart_core.data.logitset import Array, Notice
from smart_core.errors import LogitFileError
from smart_core.formatting import printable

_SIGNATURE = b"ARROW1"


def read_parquet(source: Source) -> RawFile:
    """Read a parquet table whose pages are in proportion to the file.

    Text is read as categories with codes, so that a repeated word takes no more than its code.
    """
    budget = Budget(source.name, len(source.data))
    file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(source.data))
    schema = file.schema_arrow
    check_width(source.name, len(schema))
    budget.charge("the table", file.metadata.num_rows * len(schema) * 4)
    for group in range(file.metadata.num_row_groups):
        _check_pages(source, file, group, budget)
    words = [field.name for field in schema if _is_text(field.type)]
    file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(source.data), read_dictionary=words)
    usable = [field.name for field in schema if _is_usable(field.type)]
    table = file.read(columns=usable if len(usable) < len(schema) else None, use_threads=False)
    return _raw_file(source, table, list(schema.names), budget)


def _check_pages(source: Source, file: Any, group: int, budget: Budget) -> None:
    row_group = file.metadata.row_group(group)
    for index in range(row_group.num_columns):
        chunk = row_group.column(index)
        # some writers say 0 where there is no dictionary
        start = min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)
        end = start + chunk.total_compressed_size
        if not 0 <= start <= end <= len(source.data):
            raise ValueError("a column outside the file")
        width = max(8, file.schema.column(index).length or 0)
        budget.charge("the table", size_of_pages(source.data, start, end, width))


def read_arrow(source: Source) -> RawFile:
    """Read an Arrow or Feather file, or an Arrow stream; the file is a stream between two signatures."""
    budget = Budget(source.name, len(source.data))
    stream = pyarrow.py_buffer(source.data)
    if source.data.startswith(_SIGNATURE):
        if not source.data.endswith(_SIGNATURE):
            raise ValueError("its end is missing")
        stream = stream[8:]
    for message in pyarrow.ipc.MessageReader.open_stream(pyarrow.BufferReader(stream)):
        budget.charge("the table", size_of_message(message))
    reader = pyarrow.ipc.open_stream(pyarrow.BufferReader(stream))
    check_width(source.name, len(reader.schema))
    table = reader.read_all()
    budget.charge("the table", table.num_rows * table.num_columns * 4)
    return _raw_file(source, table, table.column_names, budget)


def _raw_file(source: Source, table: Any, names: list[str], budget: Budget) -> RawFile:
    """Return the columns of a table; columns of `names` that no role can use need not be in it."""
    table = table.select([i for i, field in enumerate(table.schema) if _is_usable(field.type)])
    for name, column in zip(table.column_names, table.columns, strict=True):
        _charge_views(column, f"column '{printable(name)}'", budget)
    table.validate(full=True)
    raw = RawFile(source.name, has_header=True)
    columns = [
        Column(name, _values(column, budget, raw.notices, name))
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    read = set(table.column_names)
    # dates, structures and others become empty texts that take no memory
    empty = np.broadcast_to(np.array("", dtype=np.str_), (table.num_rows,))
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


def _values(column: Any, budget: Budget, notices: list[Notice], name: str) -> Array:
    label = f"column '{printable(name)}'"
    pieces: list[Array] = []
    rows = 0
    for chunk in [chunk for chunk in column.chunks if len(chunk)] or [pyarrow.array([], column.type)]:
        array = _storage(chunk)
        if types.is_dictionary(array.type):
            pieces.append(_categorical(array, label, budget, notices))
        elif _is_list(array.type):
            pieces.append(_matrix(budget.file, label, array, rows))
        elif _is_text(array.type):
            pieces.append(text_array(_words(array), label, budget, notices))
        else:
            pieces.append(np.asarray(array.to_numpy(zero_copy_only=False)))
        if pieces[-1].shape[1:] != pieces[0].shape[1:]:
            raise _ragged(budget.file, label, rows)
        rows += len(array)
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _storage(array: Any) -> Any:
    """The array under an extension type."""
    return array.storage if isinstance(array, pyarrow.ExtensionArray) else array


def _words(array: Any) -> list[str]:
    return [word or "" for word in array.to_pylist()]


def _charge_views(column: Any, label: str, budget: Budget) -> None:
    """Charge the lengths of string views before any is read: many views may refer to one long text."""
    for chunk in map(_storage, column.chunks):
        array = chunk.dictionary if types.is_dictionary(chunk.type) else chunk
        if len(array) and types.is_string_view(array.type):
            views = np.frombuffer(array.buffers()[1], np.int32).reshape(-1, 4)[array.offset : array.offset + len(array)]
            budget.charge(label, int(np.maximum(views[:, 0], 0).sum(dtype=np.int64)))


def _categorical(array: Any, label: str, budget: Budget, notices: list[Notice]) -> Array:
    """Categories and codes; a missing code is an empty text, or NaN."""
    if _is_text(array.dictionary.type):
        words = text_array([*_words(array.dictionary), ""], label, budget, notices)
    else:
        words = np.asarray(array.dictionary.to_numpy(zero_copy_only=False))
        words = np.append(words, np.nan) if array.null_count else words
    codes = array.indices.cast(pyarrow.int64()).fill_null(len(array.dictionary)).to_numpy(zero_copy_only=False)
    return decode_categories(words, codes, label, budget)


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
