"""parquet, arrow and feather: the same columns as text, or list columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from smart_core.data.found import Contents, check_claim, refuse
from smart_core.data.logitset import Array
from smart_core.data.readers.columns import Column, arrays_of_columns
from smart_core.data.source import Source


def read_parquet(source: Source) -> Contents:
    """A parquet table, once its row count is seen to be in proportion to the file."""
    import pyarrow
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(source.data))
    check_claim(source.name, "the table", file.metadata.num_rows * len(file.schema_arrow) * 4, len(source.data))
    return _arrays(source, file.read(use_threads=False))


def read_arrow(source: Source) -> Contents:
    """An Arrow or Feather file, or an Arrow stream."""
    import pyarrow

    buffer = pyarrow.BufferReader(source.data)
    stream = not source.data.startswith(b"ARROW1")
    reader = pyarrow.ipc.open_stream(buffer) if stream else pyarrow.ipc.open_file(buffer)
    return _arrays(source, reader.read_all())


def _arrays(source: Source, table: Any) -> Contents:
    table.validate(full=True)
    check_claim(source.name, "the table", table.nbytes, len(source.data))
    columns = [
        Column(str(name), _values(source.name, str(name), table.column(i))) for i, name in enumerate(table.column_names)
    ]
    return arrays_of_columns(source.name, source.stem, columns, named=True)


def _values(file: str, name: str, column: Any) -> Array:
    import pyarrow

    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(array, pyarrow.ChunkedArray):
        array = pyarrow.concat_arrays(array.chunks)
    if isinstance(array, pyarrow.ExtensionArray):
        array = array.storage
    kinds = pyarrow.types
    if kinds.is_dictionary(array.type):
        array = array.dictionary_decode()
    if kinds.is_list(array.type) or kinds.is_large_list(array.type) or kinds.is_fixed_size_list(array.type):
        return _matrix(file, name, array)
    if kinds.is_string(array.type) or kinds.is_large_string(array.type) or kinds.is_string_view(array.type):
        return np.array([text or "" for text in array.to_pylist()], dtype=np.str_)
    values = array.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "biuf":
        return np.full(len(values), "", dtype=np.str_)  # dates and the like: no role needs them
    return np.asarray(values)


def _matrix(file: str, name: str, array: Any) -> Array:
    """A list column as a matrix, if every list is equally long."""
    import pyarrow.compute

    lengths = pyarrow.compute.list_value_length(array)
    bounds = pyarrow.compute.min_max(lengths).as_py()
    if array.null_count or bounds["min"] != bounds["max"]:
        ragged = [i for i, n in enumerate(lengths.to_pylist()) if n != bounds["max"]]
        what = f"column '{name}' holds lists of unequal length, the first at row {ragged[0]} (counted from 0)"
        raise refuse(file, what, "give every row the same number of classes")
    flat = array.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat).reshape(len(array), -1)
