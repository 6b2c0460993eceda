"""Everything a session holds, in one file without pickle: data sets, fits with their evaluations, studies, the view.

The file is a zip archive:

    manifest.json              versions, the view, the list of what follows, fits and studies as trees of JSON
    sets/0.npz                 a data set as a bundle that `smart_core.load` reads as well
    calibrators/0.safetensors  a fitted calibrator as `Calibrator.save` writes it
    evaluations/0.npz          the per-sample vectors and classwise sums of an evaluation
    arrays.npz                 the arrays of studies and traces

A restored workspace gives the same bits. Reading one is safe with files of any origin: sizes are bounded before
anything is unpacked, members are read by these names only, nothing is written to disk, and no code is run.
"""

from __future__ import annotations

import json
import math
import os
import stat
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from smart_core import __version__
from smart_core.calibrators.base import Calibrator
from smart_core.calibrators.store import calibrator_bytes, load_calibrator
from smart_core.data.formats.limits import MAX_BYTES, Budget, open_zip, unzip
from smart_core.data.formats.numpy_files import array_of_npy
from smart_core.data.logitset import Head, LogitSet, Part, read_only
from smart_core.data.saving import Target, atomic_write
from smart_core.device import resolve_device
from smart_core.errors import CalibrationError, SmartError, WorkspaceError
from smart_core.evaluation import Evaluation
from smart_core.experiments.results import json_value
from smart_core.export.workspace_tree import Array, Parts, Reader, Writer
from smart_core.metrics.classwise_cells import ClasswiseCells
from smart_core.progress import Trace

FORMAT = "smart-workspace"
VERSION = 1
MANIFEST = "manifest.json"
ARRAYS = "arrays.npz"

LONGEST_MANIFEST = 256 << 20
"""Bytes of JSON that are read at most."""

SAMPLE = 1 << 16
"""Bytes of an array that are compressed to see whether compressing the rest is worth the time."""

WORTH = 0.75
"""It is, if they shrink to this share or less."""

LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""The date of every member: what is in a file depends on the workspace, not on the clock."""

CELLS = "cells."
"""What the names of classwise sums begin with in an evaluation's npz."""

KINDS = {"prediction": "iu", "correct": "b"}
"""Kinds of an evaluation's vectors that are not floating-point numbers."""


class FitRecord(NamedTuple):
    """A fit that is remembered: what the `cache` of `compare` holds, so a workspace's fits can serve as one."""

    calibrator: Calibrator
    seconds: float
    evaluation: Evaluation


@dataclass(eq=False)
class Workspace:
    """What a session holds."""

    view: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the view: plain JSON by name."""
    sets: list[LogitSet] = field(default_factory=list)
    fits: Mapping[str, tuple[Calibrator, float, Evaluation]] = field(default_factory=dict)
    """By `fit_key`."""
    studies: Mapping[str, Any] = field(default_factory=dict)
    """By name: a result of `smart_core.experiments`, a row of a comparison, or dicts and lists of these, of arrays
    and of plain values. A comparison's data set must be among `sets`."""


def save_workspace(target: Target, workspace: Workspace) -> None:
    """Write a workspace to a path or an open binary file; a file at the path is replaced when the new one is whole."""
    manifest, parts = _described(workspace)
    try:
        with atomic_write(target) as handle, zipfile.ZipFile(handle, "w") as archive:
            _write(archive, manifest, parts)
    except OSError as error:
        raise WorkspaceError(f"{target} cannot be written: {error.strerror or error}.") from error


def load_workspace(source: str | os.PathLike[str] | bytes | bytearray | memoryview) -> Workspace:
    """Read a workspace from a path or from bytes; whatever is wrong with it raises `WorkspaceError`, one sentence."""
    if isinstance(source, bytes | bytearray | memoryview):
        name, content = "The workspace", bytes(source)
    else:
        name = Path(source).name
        content = _read(Path(source), name)
    try:
        with open_zip(name, content) as archive:
            return _Restored(name, archive, len(content)).workspace()
    except WorkspaceError:
        raise
    except zipfile.BadZipFile as error:
        raise _no_workspace(name) from error
    except Exception as error:  # a tree nobody thought of is still a fault of the file, and said like one
        raise _damaged(name, error) from error


# -- writing ------------------------------------------------------------------------------------------------


def _described(workspace: Workspace) -> tuple[dict[str, Any], Parts]:
    """The manifest and the parts it refers to; what cannot be kept is said here, before anything is written."""
    writer = Writer(workspace.sets)
    parts = writer.parts
    fits = {
        str(key): {
            "calibrator": writer.calibrator(calibrator),
            "evaluation": writer.evaluation(evaluation),
            "seconds": float(seconds),
            "method": calibrator.id,
            "settings": json_value(calibrator.settings_dict()),
        }
        for key, (calibrator, seconds, evaluation) in workspace.fits.items()
    }
    studies = {str(name): writer.tree(study, f"The study '{name}'") for name, study in workspace.studies.items()}
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "smart_core": __version__,
        "view": {str(key): _plain_view(key, value) for key, value in workspace.view.items()},
        "sets": [
            {
                "name": data.name,
                "content_hash": data.content_hash,
                "notices": writer.tree(list(data.notices), f"The data set '{data.name}'"),
            }
            for data in parts.sets
        ],
        "fits": fits,
        "studies": studies,
        "calibrators": [
            {"device": calibrator.device, "trace": _trace_tree(writer, calibrator)} for calibrator in parts.calibrators
        ],
        "evaluations": [{"cells": _cell_numbers(evaluation)} for evaluation in parts.evaluations],
    }
    return manifest | {"arrays": len(parts.arrays)}, parts


def _write(archive: zipfile.ZipFile, manifest: dict[str, Any], parts: Parts) -> None:
    with _member(archive, MANIFEST, zipfile.ZIP_DEFLATED) as member:
        member.write(json.dumps(manifest, allow_nan=False, indent=1).encode())
    for number, data in enumerate(parts.sets):
        _write_npz(archive, f"sets/{number}.npz", dict(data.arrays()))
    for number, calibrator in enumerate(parts.calibrators):
        with _member(archive, f"calibrators/{number}.safetensors", zipfile.ZIP_DEFLATED) as member:
            member.write(calibrator_bytes(calibrator))
    for number, evaluation in enumerate(parts.evaluations):
        _write_npz(archive, f"evaluations/{number}.npz", _evaluation_arrays(evaluation))
    _write_npz(archive, ARRAYS, {str(number): array for number, array in enumerate(parts.arrays)})


def _plain_view(key: str, value: Any) -> Any:
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise WorkspaceError(f"The view's setting '{key}' is not plain JSON; keep it as text or numbers.") from error


def _trace_tree(writer: Writer, calibrator: Calibrator) -> Any:
    trace = getattr(calibrator, "trace_", None)
    return writer.tree(trace, f"The trace of {calibrator.label}")


def _cell_numbers(evaluation: Evaluation) -> dict[str, int] | None:
    """The whole numbers of the classwise sums: classes, bins, samples, seed."""
    if evaluation.cells is None:
        return None
    return {name: int(value) for name, value in vars(evaluation.cells).items() if not isinstance(value, np.ndarray)}


def _evaluation_arrays(evaluation: Evaluation) -> dict[str, Array]:
    vectors = {item.name: getattr(evaluation, item.name) for item in fields(evaluation) if item.name != "cells"}
    vectors = {name: vector for name, vector in vectors.items() if vector is not None}
    cells = {} if evaluation.cells is None else vars(evaluation.cells)
    return vectors | {f"{CELLS}{name}": value for name, value in cells.items() if isinstance(value, np.ndarray)}


def _member(archive: zipfile.ZipFile, name: str, compression: int) -> IO[bytes]:
    info = zipfile.ZipInfo(name, LONG_AGO)
    info.compress_type = compression
    info.external_attr = 0o644 << 16
    return archive.open(info, "w", force_zip64=True)


def _write_npz(archive: zipfile.ZipFile, name: str, arrays: Mapping[str, Array]) -> None:
    """An npz as a member, streamed: the arrays are compressed inside it, where that helps."""
    with _member(archive, name, zipfile.ZIP_STORED) as outer, zipfile.ZipFile(outer, "w") as inner:
        for key, array in arrays.items():
            compression = zipfile.ZIP_DEFLATED if _shrinks(array) else zipfile.ZIP_STORED
            with _member(inner, f"{key}.npy", compression) as member:
                npy.write_array(member, array, allow_pickle=False)


def _shrinks(array: Array) -> bool:
    sample = array.reshape(-1)[: max(1, SAMPLE // max(array.itemsize, 1))].tobytes()
    return len(zlib.compress(sample, 1)) <= WORTH * len(sample)


# -- reading ------------------------------------------------------------------------------------------------


def _read(path: Path, name: str) -> bytes:
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):
            raise WorkspaceError(f"{name} is not a file; name a saved workspace.")
        if info.st_size > MAX_BYTES:
            raise WorkspaceError(f"{name} is larger than any workspace; name a saved workspace.")
        return path.read_bytes()
    except OSError as error:
        raise WorkspaceError(f"{name} cannot be read: {error.strerror or error}.") from error


class _Restored:
    """The members of one archive as objects again."""

    def __init__(self, name: str, archive: zipfile.ZipFile, size: int) -> None:
        self.name, self.archive = name, archive
        self.budget = Budget(name, size)
        self.manifest = self._manifest()
        arrays = self._npz(ARRAYS)
        self.parts = Parts(arrays=[np.array(arrays[str(number)]) for number in range(int(self.manifest["arrays"]))])
        self.reader = Reader(self.parts)

    def workspace(self) -> Workspace:
        """Everything, in the order in which later parts refer to earlier ones."""
        manifest, parts = self.manifest, self.parts
        parts.sets += [self._set(number, entry) for number, entry in enumerate(manifest["sets"])]
        parts.calibrators += [self._calibrator(number, entry) for number, entry in enumerate(manifest["calibrators"])]
        parts.evaluations += [self._evaluation(number, entry) for number, entry in enumerate(manifest["evaluations"])]
        fits = {key: self._fit(entry) for key, entry in manifest["fits"].items()}
        studies = {name: self.reader.value(tree) for name, tree in manifest["studies"].items()}
        return Workspace(dict(manifest["view"]), parts.sets, fits, studies)

    def _manifest(self) -> dict[str, Any]:
        if MANIFEST not in self.archive.namelist():
            raise _no_workspace(self.name)
        if self.archive.getinfo(MANIFEST).file_size > LONGEST_MANIFEST:
            raise ValueError("its manifest is too long")
        manifest = json.loads(bytes(unzip(self.archive, MANIFEST)))
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise _no_workspace(self.name)
        if int(manifest["version"]) > VERSION:
            raise WorkspaceError(f"{self.name} was saved by a newer version; update this package to read it.")
        return manifest

    def _npz(self, member: str) -> dict[str, Array]:
        """The arrays of an npz member, as read-only views of its bytes."""
        if self.archive.getinfo(member).compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"{member} is packed twice")
        with open_zip(self.name, self.archive.read(member)) as inner:
            self.budget.charge(member, sum(entry.file_size for entry in inner.infolist()))
            names = [entry.filename for entry in inner.infolist()]
            return {
                name.removesuffix(".npy"): array_of_npy(self.name, unzip(inner, name), (member, name)).values
                for name in names
            }

    def _set(self, number: int, entry: dict[str, Any]) -> LogitSet:
        arrays = self._npz(f"sets/{number}.npz")
        names = arrays.pop("class_names", None)
        head = Head(arrays.pop("head_weight"), arrays.pop("head_bias")) if "head_weight" in arrays else None
        sides = {
            side: Part(**{key.removeprefix(f"{side}_"): read_only(array) for key, array in _of(side, arrays).items()})
            for side in ("val", "test")
        }
        data = LogitSet(
            str(entry["name"]),
            sides["val"],
            sides["test"],
            head,
            None if names is None else tuple(str(name) for name in names),
            tuple(self.reader.value(entry["notices"])),
        )
        if data.content_hash != entry["content_hash"]:
            raise ValueError(f"the data set '{data.name}' is not the one that was saved")
        for array in (*_numbers(data.validation), *_numbers(data.test), *(() if head is None else vars(head).values())):
            if not np.isfinite(array).all():
                raise ValueError(f"the data set '{data.name}' holds NaN or infinity")
        return data

    def _calibrator(self, number: int, entry: dict[str, Any]) -> Calibrator:
        content = bytes(unzip(self.archive, f"calibrators/{number}.safetensors"))
        calibrator = load_calibrator(content, device=_usable(str(entry["device"])))
        trace = self.reader.value(entry["trace"])
        if trace is not None and not isinstance(trace, Trace):
            raise ValueError("a calibrator's trace is something else")
        calibrator.trace_ = trace
        return calibrator

    def _evaluation(self, number: int, entry: dict[str, Any]) -> Evaluation:
        arrays = {name: np.array(array) for name, array in self._npz(f"evaluations/{number}.npz").items()}
        sums = {name.removeprefix(CELLS): arrays.pop(name) for name in list(arrays) if name.startswith(CELLS)}
        lengths = {array.shape for array in arrays.values()}
        if len(lengths) != 1 or len(next(iter(lengths))) != 1:
            raise ValueError("the vectors of an evaluation differ in length")
        for name, array in arrays.items():
            if array.dtype.kind not in KINDS.get(name, "f"):
                raise ValueError(f"an evaluation's {name} is of a wrong kind")
        return Evaluation(**arrays, cells=None if entry["cells"] is None else _cells(entry["cells"], sums))

    def _fit(self, entry: dict[str, Any]) -> FitRecord:
        record = FitRecord(
            self.reader.value({"$calibrator": entry["calibrator"]}),
            float(entry["seconds"]),
            self.reader.value({"$evaluation": entry["evaluation"]}),
        )
        if record.calibrator.id != entry["method"] or not math.isfinite(record.seconds):
            raise ValueError("a fit is not the one that was saved")
        return record


def _of(side: str, arrays: dict[str, Array]) -> dict[str, Array]:
    return {key: array for key, array in arrays.items() if key.startswith(f"{side}_")}


def _numbers(part: Part) -> list[Array]:
    """The arrays of a part that hold no NaN; distances do, where a sample was not attacked."""
    return [part.logits] if part.features is None else [part.logits, part.features]


def _usable(device: str) -> str:
    """The device of the saved fit where this machine has it, else whichever it has."""
    try:
        resolve_device(device)
    except CalibrationError:
        return "auto"
    return device


def _cells(numbers: dict[str, Any], sums: dict[str, Array]) -> ClasswiseCells:
    """The classwise sums, of the shapes and types that their size demands."""
    classes, bins = sums["count"].shape
    cells = ClasswiseCells(classes, bins)
    if vars(cells).keys() != numbers.keys() | sums.keys() or (numbers["classes"], numbers["bins"]) != (classes, bins):
        raise ValueError("the classwise sums of an evaluation are incomplete")
    for name, value in list(vars(cells).items()):
        if isinstance(value, np.ndarray):
            if (sums[name].shape, sums[name].dtype) != (value.shape, value.dtype):
                raise ValueError("the classwise sums of an evaluation are of a wrong shape")
            setattr(cells, name, sums[name])
        else:
            setattr(cells, name, int(numbers[name]))
    return cells


def _no_workspace(name: str) -> WorkspaceError:
    """Of any other file, and of the beginning of a workspace: what is missing at its end is the list of its parts."""
    return WorkspaceError(f"{name} is not a workspace, or not a whole one; use another copy of it.")


def _damaged(name: str, error: Exception) -> WorkspaceError:
    told = isinstance(error, SmartError | ValueError) and not isinstance(error, json.JSONDecodeError | UnicodeError)
    why = " ".join(str(error).split()).rstrip(".")[:200] if told else "a part of it is missing or of a wrong kind"
    return WorkspaceError(f"{name} is a damaged workspace: {why}; use another copy of it.")
