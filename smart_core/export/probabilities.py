"""Calibrated probabilities to a file, chunk by chunk: no more than one chunk of rows is in memory at a time."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from smart_core.calibrators.base import Calibrator
from smart_core.data.logitset import Part
from smart_core.data.saving import Target, atomic_write
from smart_core.errors import ExportError
from smart_core.evaluation import evaluate
from smart_core.progress import Run

if TYPE_CHECKING:
    import pyarrow as pa

Format = Literal["npz", "csv", "parquet"]
FORMATS: tuple[Format, ...] = ("npz", "csv", "parquet")

Columns = dict[str, NDArray[Any]]
"""Of a chunk of samples: `confidence`, `prediction`, `label` and `correct`, each (n,)."""


def save_probabilities(
    calibrator: Calibrator,
    part: Part,
    target: Target,
    *,
    format: Format | None = None,
    full: bool | None = None,
    run: Run | None = None,
) -> None:
    """Apply a fitted calibrator to a part and write its probabilities to a path or an open binary file.

    The path's suffix is the format unless one is given. A table (csv, parquet) has one row per sample with its
    confidence, prediction, label and whether they agree; with `full`, also `prob_0`, `prob_1`, ... An npz has `probs`
    (N, K) float32 and `labels`; with `full=False`, the table's columns as arrays instead. Of confidences and of reduced
    rows, the columns are those of `confidence_columns`. An existing file is replaced when the new one is complete.
    """
    chosen = _format_of(target, format)
    run = run or Run()
    if part.reduced and full:
        raise ExportError("A reduced set has no probabilities of all classes; save confidences (full=False).")
    matrix = part.kind == "logits" and (chosen == "npz" if full is None else full)
    try:
        with atomic_write(target) as handle:
            if not matrix:
                _write_columns(handle, confidence_columns(calibrator, part, run), chosen)
            elif chosen == "npz":
                _write_npz(handle, calibrator, part, run)
            else:
                _write_table(handle, calibrator, part, chosen, run)
    except OSError as error:
        raise ExportError(f"{target} cannot be written: {error.strerror or error}.") from error


def _format_of(target: Target, given: str | None) -> Format:
    ending = given or Path(getattr(target, "name", None) or str(target)).suffix.lower().lstrip(".")
    if ending not in FORMATS:
        raise ExportError(f"Probabilities are written as {', '.join(FORMATS)}, not as '{ending}'; name one of these.")
    return ending


def chunks(calibrator: Calibrator, part: Part, run: Run) -> Iterator[tuple[Columns, NDArray[np.float32]]]:
    """The columns of consecutive samples, and their probabilities (n, K)."""
    for rows, _, probabilities in calibrator.stream_rows(part.logits, features=part.features):
        run.tick(rows.start / len(part), "writing probabilities")
        confidence, prediction = (column.cpu().numpy() for column in probabilities.max(dim=1))
        label = part.labels[rows]
        columns = {"confidence": confidence, "prediction": prediction, "label": label, "correct": prediction == label}
        yield columns, np.ascontiguousarray(probabilities.cpu().numpy())
    run.tick(1.0, "probabilities written")


def _write_npz(handle: IO[bytes], calibrator: Calibrator, part: Part, run: Run) -> None:
    shape = (len(part), part.classes)
    with zipfile.ZipFile(handle, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("probs.npy", "w", force_zip64=True) as member:
            npy.write_array_header_1_0(member, {"descr": "<f4", "fortran_order": False, "shape": shape})
            for _, probabilities in chunks(calibrator, part, run):
                member.write(probabilities.astype("<f4", copy=False).data)
        with archive.open("labels.npy", "w") as member:
            npy.write_array(member, part.labels, allow_pickle=False)


def _write_table(handle: IO[bytes], calibrator: Calibrator, part: Part, format: Format, run: Run) -> None:
    import pyarrow as pa

    kinds = {"confidence": pa.float32(), "prediction": pa.int64(), "label": pa.int64(), "correct": pa.bool_()}
    schema = pa.schema(kinds | {f"prob_{k}": pa.float32() for k in range(part.classes)})
    with _table_writer(handle, schema, format) as writer:
        for columns, probabilities in chunks(calibrator, part, run):
            arrays = [pa.array(array) for array in (*columns.values(), *probabilities.T)]
            writer.write_batch(pa.record_batch(arrays, schema=schema))


def confidence_columns(calibrator: Calibrator, part: Part, run: Run | None = None) -> Columns:
    """The calibrated confidence of each sample and whether it is correct.

    Of logits and of reduced rows also the prediction and the label; of confidences and of reduced rows also its group
    and metadata.
    """
    if part.kind == "logits":
        kept = [columns for columns, _ in chunks(calibrator, part, run or Run())]
        return {name: np.concatenate([columns[name] for columns in kept]) for name in kept[0]}
    if part.reduced:
        found = evaluate(calibrator, part)
        own = {"confidence": found.confidence, "prediction": found.prediction, "label": part.labels}
        return {**own, "correct": found.correct, **part.columns}
    others = {name: values for name, values in part.columns.items() if name not in ("confidence", "correct")}
    return {"confidence": calibrator.predict_confidence(part.confidence), "correct": part.correct, **others}


def _write_columns(handle: IO[bytes], columns: Columns, format: Format) -> None:
    if format == "npz":
        names = {name: "labels" if name == "label" else name for name in columns}
        np.savez_compressed(handle, **{names[name]: values for name, values in columns.items()})  # type: ignore[arg-type]
        return
    import pyarrow as pa

    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    with _table_writer(handle, table.schema, format) as writer:
        writer.write_table(table)


def _table_writer(handle: IO[bytes], schema: pa.Schema, format: Format) -> Any:
    if format == "parquet":
        from pyarrow.parquet import ParquetWriter

        return ParquetWriter(handle, schema)
    from pyarrow.csv import CSVWriter, WriteOptions

    handle.write(f"{','.join(schema.names)}\n".encode())  # pyarrow would quote the names
    return CSVWriter(handle, schema, write_options=WriteOptions(include_header=False))
