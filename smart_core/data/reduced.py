"""Reduced rows, as `reduce` writes them: a table whose column `tail_of_K_classes` says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from smart_core.data.checks import notices_of
from smart_core.data.formats.raw import RawArray, RawFile
from smart_core.data.logitset import REDUCED_FORMS, TAIL_COLUMN, Array, LogitSet, Notice, Part, read_only
from smart_core.data.normalize.extras import metadata_of
from smart_core.data.split import split_part
from smart_core.errors import LogitFileError

LOGITS, LABEL, SPLIT = "top_logits", "label", "split"
COLUMNS = {name: kind for name, (kind, _, _) in REDUCED_FORMS.items()}
"""The columns of `Part.reduced` beside the tail, and their types."""
SHOWN = ("margin", "confidence", "correct")
"""Columns for readers of the table, which the others give."""


def reduced_columns(raw: RawFile) -> RawFile | None:
    """The file with its columns as arrays, if they are reduced rows; else None."""
    if not any(TAIL_COLUMN.fullmatch(column.name) for column in raw.columns or ()):
        return None
    arrays = [RawArray.of(raw.name, (column.name,), column.values, split=raw.split) for column in raw.columns or ()]
    return replace(raw, columns=None, arrays=arrays)


def is_reduced(files: Sequence[RawFile]) -> bool:
    """Whether all files hold reduced rows."""
    marked = [any(TAIL_COLUMN.fullmatch(item.key) for item in file.arrays) for file in files]
    if any(marked) and not all(marked):
        raise LogitFileError("holds reduced rows and other files do not", "give one kind", file=files[0].name)
    return all(marked) and bool(files)


def reduced_set(files: Sequence[RawFile], name: str, val_fraction: float, split_seed: int) -> LogitSet:
    """The set, split by the column `split` if there is one, by the files if they say it, or at random."""
    notices: list[Notice] = []
    given = {file.split for file in files}
    if given == {"val", "test"}:
        validation, test = (reduced_part([file for file in files if file.split == side]) for side in ("val", "test"))
    else:
        whole, splits = reduced_part(files), _joined(files, SPLIT)
        if splits is None:
            validation, test = split_part(whole, files[0].name, val_fraction, split_seed, notices)
        else:
            validation, test = (whole.subset(splits == side) for side in ("val", "test"))
    data = LogitSet(name, validation, test)
    return replace(data, notices=tuple(dict.fromkeys([*notices, *notices_of(data)])))


def reduced_part(files: Sequence[RawFile]) -> Part:
    """All rows of the files."""
    columns = {item.key for item in files[0].arrays}
    tail = next(key for key in columns if TAIL_COLUMN.fullmatch(key))
    logits, labels = _joined(files, LOGITS), _joined(files, LABEL)
    reduced = {key: _joined(files, key) for key in COLUMNS}
    if logits is None or labels is None or any(values is None for values in reduced.values()):
        raise LogitFileError("lacks columns of reduced rows", "reduce the shards again", file=files[0].name)
    kept = {key: read_only(np.asarray(values, dtype=COLUMNS[key])) for key, values in reduced.items()}
    kept[tail] = read_only(np.asarray(_joined(files, tail), dtype=np.uint16))
    others = columns - {tail, LOGITS, LABEL, SPLIT, *COLUMNS, *SHOWN}
    metadata = {key: _joined(files, key) for key in sorted(others)}
    return Part(
        read_only(np.ascontiguousarray(logits, dtype=np.float32)),
        read_only(np.asarray(labels, dtype=np.int64)),
        metadata={
            key: read_only(metadata_of(RawArray.of(files[0].name, (key,), values), len(labels)))
            for key, values in metadata.items()
            if values is not None
        },
        reduced=kept,
    )


def _joined(files: Sequence[RawFile], key: str) -> Array | None:
    """A column of all files; None if one lacks it."""
    found = [item.values for file in files for item in file.arrays if item.key == key]
    if len(found) < len(files):
        return None
    return found[0] if len(found) == 1 else np.concatenate(found)
