"""Reduced sets of many rows: what the verdict reads is in memory, the largest logits and the curves stay in the file.

Of a row, 36 bytes are read at once: label, prediction, and the numbers from which the uncalibrated confidence and the
maps of the top-1 confidence follow. The curve and the ten largest logits, which temperatures other than 1 read, take
several times as much and are read when a method is fitted or evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from smart_core.data.checks import notices_of
from smart_core.data.lazy.readers import is_url, name_of, open_binary, reading
from smart_core.data.lazy.rows import FIT_ROWS, LazyRows, Shard
from smart_core.data.logitset import TAIL_COLUMN, Array, LogitSet, Notice, Part, read_only
from smart_core.data.reduced import COLUMNS, LABEL, LOGITS, SHOWN, SPLIT
from smart_core.data.split import split_part, stratified_subset
from smart_core.errors import LogitFileError
from smart_core.formatting import join_words

MOST_NAMES = 1000
"""Different texts of a column of metadata that is read; one with more stays in the file."""


@dataclass(frozen=True, eq=False, repr=False)
class ReducedInPlace(Part):
    """Reduced rows whose `logits` (the largest ones) and curves are `LazyRows`."""

    in_memory = False

    margin: Array | None = None
    """(N,) float32: largest minus second largest logit."""

    def __post_init__(self) -> None:
        self._check_columns()
        self.check_labels()

    @property
    def rows(self) -> LazyRows:
        """The largest logits, by their type."""
        return cast(LazyRows, self.logits)

    @property
    def _tail(self) -> str:
        return next(name for name in self.reduced if TAIL_COLUMN.fullmatch(name))

    @property
    def ragged(self) -> bool:
        """False: `reduce` refuses rows that lack classes."""
        return False

    def subset(self, indices: Array) -> ReducedInPlace:
        """The rows at `indices` (integers or a mask), in that order; the file is not read."""
        tail, scalars = self._tail, {name: values for name, values in self.reduced.items() if name != self._tail}
        return replace(
            self,
            logits=self.rows.take(indices),  # type: ignore[arg-type]
            labels=read_only(self.labels[indices]),
            margin=None if self.margin is None else read_only(self.margin[indices]),
            metadata={name: read_only(values[indices]) for name, values in self.metadata.items()},
            reduced={
                **{name: read_only(values[indices]) for name, values in scalars.items()},
                tail: cast(LazyRows, self.reduced[tail]).take(indices),  # type: ignore[dict-item]
            },
        )

    def reduced_blocks(self, size: int, curve: bool) -> Iterator[tuple[slice, Array, Mapping[str, Array]]]:
        """As of a part in memory; without the curve, nothing is read, and the first logit is set to 0."""
        tail, scalars = self._tail, {name: values for name, values in self.reduced.items() if name != self._tail}
        if not curve:
            assert self.margin is not None
            for start in range(0, len(self), size):
                rows = slice(start, min(start + size, len(self)))
                gaps = np.column_stack([np.zeros_like(self.margin[rows]), -self.margin[rows]])
                own = {name: values[rows] for name, values in scalars.items()}
                yield rows, gaps, {**own, tail: np.empty((len(gaps), 0), dtype=np.uint16)}
            return
        curves = cast(LazyRows, self.reduced[tail])
        for (rows, top), (_, codes) in zip(self.rows.blocks(size), curves.blocks(size), strict=True):
            yield rows, top, {**{name: values[rows] for name, values in scalars.items()}, tail: codes}

    @cached_property
    def for_fit(self) -> Part:
        """The rows that a fit reads, in memory: all, or a sample stratified by label."""
        chosen = self
        if len(self) > FIT_ROWS:
            chosen = self.subset(stratified_subset(self.labels, FIT_ROWS, seed=0))
        found = [(top, columns) for _, top, columns in chosen.reduced_blocks(len(chosen), True)]
        ((top, columns),) = found
        tail = columns[self._tail].astype(np.uint16)
        return Part(top, chosen.labels, metadata=chosen.metadata, reduced={**columns, self._tail: tail})

    def content(self) -> Iterator[tuple[str, Array]]:
        """What tells the part from others: the state of its files and which rows of them it holds."""
        yield "shards", np.frombuffer(self.rows.fingerprint().encode(), dtype=np.uint8)

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Refused: most of a row is not in memory."""
        raise LogitFileError("A large reduced set stays in its file", "copy the file itself")


def open_reduced(paths: Sequence[str], name: str, val_fraction: float = 0.5, split_seed: int = 0) -> LogitSet:
    """The set of files that `reduce` made; the split is that of the column `split`, else drawn at random."""
    notices: list[Notice] = []
    tables = [_read(path) for path in paths]
    tail, nodes, width = tables[0].tail, tables[0].nodes, tables[0].width
    for path, table in zip(paths, tables, strict=True):
        if (table.tail, table.nodes, table.width) != (tail, nodes, width):
            raise LogitFileError("holds rows of another model", "give the pieces of one set", file=name_of(path))
    names = set.intersection(*({*table.columns} for table in tables))
    columns = {key: np.concatenate([table.columns[key] for table in tables]) for key in sorted(names)}
    shards = [(path, len(table.columns[LABEL])) for path, table in zip(paths, tables, strict=True)]

    def lazy(key: str, columns: int) -> Any:
        return LazyRows(tuple(Shard(path, key, rows) for path, rows in shards if rows), columns)

    splits = columns.pop(SPLIT, None)
    others = sorted(names - {LABEL, SPLIT, "margin", *COLUMNS})
    whole = ReducedInPlace(
        lazy(LOGITS, width),
        columns[LABEL],
        margin=columns["margin"],
        metadata={key: columns[key] for key in others},
        reduced={**{key: columns[key] for key in COLUMNS}, tail: lazy(tail, nodes)},
    )
    if splits is None:
        validation, test = split_part(whole, name_of(paths[0]), val_fraction, split_seed, notices)
    else:
        validation, test = (whole.subset(splits == side) for side in ("val", "test"))
    data = LogitSet(name, validation, test)
    left = sorted({key for table in tables for key in table.left})
    if left:
        text = f"Columns of many different texts, or of other types, stay in the file: {join_words(left)}."
        notices.append(Notice("left_in_file", text))
    place = "their file" if len(paths) == 1 else "their files"
    kept = f"The curves of {len(whole):,} reduced rows stay in {place}."
    notices.append(Notice("in_place", kept))
    return replace(data, notices=tuple(dict.fromkeys([*notices, *notices_of(data)])))


@dataclass(frozen=True, eq=False)
class _Table:
    tail: str
    nodes: int
    width: int
    columns: dict[str, Array]
    left: list[str]
    """Columns that are not read."""


def tail_column(path: str) -> str | None:
    """The column that marks a parquet file of reduced rows; None for other files."""
    from pyarrow.parquet import read_schema

    if not path.lower().endswith(".parquet"):
        return None
    with reading(path), open_binary(path) as (handle, _):
        return next((each for each in read_schema(handle).names if TAIL_COLUMN.fullmatch(each)), None)


def _read(path: str) -> _Table:
    """The columns of a file that are single numbers or few different texts."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    with reading(path), open_binary(path) as (handle, _), ParquetFile(handle, memory_map=not is_url(path)) as file:
        schema, tail = file.schema_arrow, tail_column(path)
        needed = {LABEL, LOGITS, "margin", *COLUMNS}
        if tail is None or not needed <= set(schema.names):
            raise LogitFileError("lacks columns of reduced rows", "reduce the shards again", file=name_of(path))
        known = {"margin", LABEL, SPLIT, *COLUMNS}
        others = [each.name for each in schema if each.name not in {tail, LOGITS, *SHOWN, *known}]
        texts = [each.name for each in schema if each.name in [*others, SPLIT] and pa.types.is_string(each.type)]
        numbers = [each for each in others if _is_number(schema.field(each).type)]
        wanted = [each for each in schema.names if each in known or each in numbers]
        table = file.read(columns=[each for each in wanted if each not in texts])
        columns: dict[str, Array] = {}
        for key in table.column_names:
            kind = COLUMNS.get(key, np.int64 if key == LABEL else np.float32 if key == "margin" else None)
            values = table[key].to_numpy()
            kind = kind or (np.float64 if values.dtype.kind == "f" else np.int64)
            columns[key] = read_only(np.ascontiguousarray(values, dtype=kind))
        left = [each for each in others if each not in texts and each not in numbers]
        for key in texts:
            codes = file.read(columns=[key])[key].dictionary_encode().unify_dictionaries().combine_chunks()
            found = codes.chunk(0) if isinstance(codes, pa.ChunkedArray) else codes
            if len(found.dictionary) > MOST_NAMES:
                left.append(key)
                continue
            words = np.array([*(str(word) for word in found.dictionary.to_pylist()), ""], dtype=np.str_)
            places = found.indices.fill_null(len(words) - 1).to_numpy(zero_copy_only=False)
            columns[key] = read_only(words[places])
        return _Table(tail, schema.field(tail).type.list_size, schema.field(LOGITS).type.list_size, columns, left)


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
