"""Reduce shards to a compact set: what methods of one temperature or of the top-1 confidence read of each row.

A row of K logits becomes its ten largest ones, a few gaps, and the curve of `fitting.reduced` in 16 bits per node: 186
bytes at K = 1000 and 258 at K = 128,000, whatever the precision of the shards. TS, ETS, PTS, SMART and the maps of the
top-1 confidence fit from the result and are evaluated on it, within `CONFIDENCE_BOUND` and `NLL_BOUND` per row.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import torch
from pyarrow.parquet import ParquetFile, ParquetWriter, read_schema, write_table
from torch import Tensor

from smart_core import __version__, kernels
from smart_core.calibrators.toplabel import complement
from smart_core.data.lazy.opening import Paths, open_parts
from smart_core.data.lazy.rows import LazyPart
from smart_core.data.logitset import Array, Notice
from smart_core.data.reduced import LABEL, LOGITS, SPLIT
from smart_core.data.saving import atomic_write
from smart_core.device import one_thread, return_chunks, rows_per_chunk
from smart_core.errors import ExportError, LogitFileError
from smart_core.experiments.executors import in_order
from smart_core.fitting.profile import GAP_FLOOR
from smart_core.fitting.reduced import TOP, encoded, tail_nodes
from smart_core.progress import CancelToken, Progress, Run
from smart_core.types import Logits

GROUP_ROWS = 1 << 16
"""Rows of a row group of the table."""


@dataclass(frozen=True)
class Reduced:
    """What `reduce` wrote."""

    path: Path
    rows: int
    classes: int
    bytes: int
    notices: tuple[Notice, ...] = ()


def reduce(
    source: Paths | None = None,
    out: str | os.PathLike[str] = "reduced.parquet",
    *,
    labels: Paths | Array | None = None,
    val: Paths | None = None,
    test: Paths | None = None,
    values: Literal["logits", "probabilities"] | None = None,
    labels_start_at: Literal[0, 1] | None = None,
    share: tuple[int, int] = (1, 1),
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
) -> Reduced:
    """Read every row of the shards once and write the reduced set, a parquet file that `load` opens.

    The arguments are those of `smart_core.open`. `share` (i, n) reduces part i of n of the rows, so that n
    machines make n files, which `load` joins in the order of their numbers. Finished pieces are kept in a folder beside
    `out` until all are there: after a fault, the same call goes on from them.

    >>> import tempfile
    >>> import smart_core as sc
    >>> part = sc.simulate(2000, classes=50)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/logits.npy", part.logits)
    ...     made = reduce(f"{folder}/logits.npy", f"{folder}/set.parquet", labels=part.labels)
    ...     data = sc.load(made.path)
    >>> data, round(float(sc.TS().fit_part(data.validation).temperature_), 1)
    (LogitSet('set', 50 classes, reduced, 1,000 + 1,000 samples), 1.9)
    """
    notices: list[Notice] = []
    path = Path(out)
    if path.suffix.lower() != ".parquet":
        raise ExportError(f"{path}: the name of a reduced set must end in .parquet.")
    parts = open_parts(source, labels, val, test, values, labels_start_at, notices)
    pieces = [(side, piece) for side, part in parts.items() for piece in _pieces(part, share)]
    rows, classes = sum(len(piece) for _, piece in pieces), next(iter(parts.values())).classes
    if not rows:
        raise ExportError(f"there are fewer rows than the {share[1]} parts; use fewer parts.")
    run = Run(progress, cancel)
    kept = path.with_name(f"{path.name}.pieces")
    files = [kept / f"{_name(side, piece)}.parquet" for side, piece in pieces]
    missing = [number for number, file in enumerate(files) if not file.exists()]
    if len(missing) < len(files):
        text = f"{len(files) - len(missing):,} of {len(files):,} pieces were reduced before and are taken as they are."
        notices.append(Notice("resumed", text))
    shards = sum(len(piece.rows.shards) for _, piece in pieces)
    words = f"reducing {rows:,} rows of {shards:,} shards"
    try:
        kept.mkdir(exist_ok=True)
        with closing(in_order(_reduced, [pieces[number] for number in missing], run, words, len(missing))) as tables:
            for number, table in zip(missing, tables, strict=True):
                with atomic_write(files[number]) as handle:
                    write_table(table, handle, compression="zstd", row_group_size=GROUP_ROWS)
        _join(files, path)
        shutil.rmtree(kept)
    except OSError as error:
        rest = "Finished pieces are kept next to it; rerun the same command to continue."
        raise ExportError(f"{path} cannot be written: {error.strerror or error}. {rest}") from error
    finally:
        with suppress(OSError):
            kept.rmdir()  # which only an empty folder allows
    run.tick(1.0, "reduced")
    return Reduced(path, rows, classes, path.stat().st_size, tuple(notices))


def _name(side: str | None, piece: LazyPart) -> str:
    """What identifies the result of a piece: its split, the state of its files, and which rows of them it has."""
    digest = hashlib.sha256(f"{__version__} {side}".encode())
    for name, array in piece.content():
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()[:24]


def _join(files: Sequence[Path], path: Path) -> None:
    """Write the row groups of the pieces into one file."""
    with atomic_write(path) as handle, ParquetWriter(handle, read_schema(files[0]), compression="zstd") as writer:
        for file in files:
            with ParquetFile(file) as piece:
                for group in range(piece.num_row_groups):
                    writer.write_table(piece.read_row_group(group), row_group_size=GROUP_ROWS)


def _pieces(part: LazyPart, share: tuple[int, int]) -> list[LazyPart]:
    """The ranges of one machine's stretch of the rows."""
    number, of = share
    start, stop = len(part) * (number - 1) // of, len(part) * number // of
    return [part.span(rows.start, rows.stop) for rows in part.ranges(start, stop)]


def _reduced(piece: tuple[str | None, LazyPart]) -> pa.Table:
    """What a worker does with a range of rows."""
    side, part = piece
    return_chunks()
    with one_thread():
        chunks = []
        for rows, logits in part.rows.blocks(rows_per_chunk(part.classes)):
            lacking = np.isneginf(logits).any(axis=1)
            if lacking.any():
                shard, row = part.rows.place(rows.start + int(lacking.argmax()))
                problem = f"row {row:,} (counted from 0) lacks classes (-inf), which a reduced set cannot say"
                raise LogitFileError(problem, "leave such rows out", "load the files whole", file=shard.name)
            chunks.append(reduced_rows(torch.from_numpy(logits), torch.from_numpy(part.labels[rows])))
    columns = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
    own = {} if part.group is None else {"group": part.group}
    splits = {} if side is None else {SPLIT: np.full(len(part), side)}
    return table_of({**columns, **own, **part.metadata, **splits})


def table_of(columns: Mapping[str, Array]) -> pa.Table:
    """Columns, of which some are matrices, as a table."""
    return pa.table({name: _column(values) for name, values in columns.items()})


def _column(values: Array) -> pa.Array:
    if values.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
    return pa.array(values)


def reduced_rows(logits: Tensor, labels: Tensor) -> dict[str, Array]:
    """The columns of rows of finite logits (n, K)."""
    classes = logits.shape[1]
    width = min(TOP, classes)
    values, places = logits.topk(min(TOP + 1, classes), dim=1)
    first = values[:, :1]
    next_one = values[:, TOP:] if classes > TOP else first + GAP_FLOOR
    tail = (logits - next_one).scatter_(1, places[:, :width], GAP_FLOOR).clamp_(min=GAP_FLOOR)
    u, prediction = complement(Logits(logits))
    gaps = logits - first
    columns: dict[str, Tensor] = {
        LABEL: labels,
        "prediction": prediction,
        "correct": prediction == labels,
        "confidence": 1.0 - u,
        "margin": values[:, 0] - values[:, 1],
        LOGITS: values[:, :width],
        "label_gap": gaps.gather(1, labels.unsqueeze(1)).squeeze(1),
        "mean_gap": gaps.mean(dim=1),
        "tail_gap": (next_one - first).squeeze(1).clamp(min=GAP_FLOOR),
        "complement": u,
        "others_squared": _others_squared(gaps, prediction),
    }
    found = {name: column.numpy() for name, column in columns.items()}
    found[f"tail_of_{classes}_classes"] = encoded(_tail(tail), classes)
    return found


def _others_squared(gaps: Tensor, prediction: Tensor) -> Tensor:
    """The squared shares of the classes other than the prediction; equal shares where all are too small for float32."""
    powers = torch.exp(gaps.double()).scatter_(1, prediction.unsqueeze(1), 0.0)
    left = powers.sum(dim=1)
    squares = torch.linalg.vecdot(powers, powers) / (left * left).clamp(min=torch.finfo(torch.float64).tiny)
    even = torch.full_like(left, 1.0 / (gaps.shape[1] - 1))
    return torch.where(left >= torch.finfo(torch.float32).tiny, squares, even).clamp(max=1.0).to(torch.float32)


def _tail(gaps: Tensor) -> Array:
    """u at every node, (n, nodes)."""
    per_octave, betas = tail_nodes(gaps.shape[1])
    if kernels.usable(gaps):
        from smart_core.kernels.partition import tabulate

        table = np.empty((len(gaps), len(betas), 2), dtype=np.float32)
        tabulate(gaps.contiguous().numpy(), betas.numpy(), per_octave, table)
        return table[:, :, 0]
    return torch.stack([torch.logsumexp(gaps * float(beta), dim=1) for beta in betas], dim=1).numpy()
