"""Everything a session holds, in one file without pickle: data sets, fits with their evaluations, studies, the view.

A restored workspace gives the same bits. Reading one is safe with files of any origin: the sandbox parses it
(`workspace_file.py`, which describes the format), every value is checked (`workspace_schema.py`), and no code is run.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from smart_core import __version__
from smart_core.calibrators.base import Calibrator
from smart_core.calibrators.store import build_calibrator, calibrator_bytes
from smart_core.data import tree
from smart_core.data.logitset import Array, Head, LogitSet, Notice, Part
from smart_core.data.saved import LONGEST_NAME, Saved, read_saved
from smart_core.data.saving import Target, atomic_write, open_member, write_npz
from smart_core.device import resolve_device
from smart_core.errors import CalibrationError, SmartError, WorkspaceError
from smart_core.evaluation import Evaluation, build_evaluation, cell_numbers, evaluation_arrays
from smart_core.experiments.results import Result, json_value
from smart_core.export.workspace_file import ARRAYS, FORMAT, MANIFEST, VERSION, damaged
from smart_core.export.workspace_schema import FIT, SCHEMA, belongs, check, check_fields
from smart_core.metrics.classwise import ClasswiseCells
from smart_core.progress import Trace

KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in SCHEMA if kind not in (LogitSet, Evaluation, ClasswiseCells)
}
"""The dataclasses that the tree of a study may hold, by name."""


class FitRecord(NamedTuple):
    """An entry of the `cache` of `compare`, so that a workspace's fits can be used as one."""

    calibrator: Calibrator
    seconds: float
    evaluation: Evaluation


@dataclass(eq=False)
class Workspace:
    """The content of a session."""

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
        content = json.dumps(manifest, allow_nan=False, indent=1, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise WorkspaceError("A name or text in the workspace cannot be encoded; rename it.") from error
    try:
        with atomic_write(target) as handle, zipfile.ZipFile(handle, "w") as archive:
            _write(archive, content, parts)
    except OSError as error:
        raise WorkspaceError(f"{target} cannot be written: {error.strerror or error}.") from error


def load_workspace(source: Saved) -> Workspace:
    """Read a workspace from a path or from bytes; whatever is wrong with it raises `WorkspaceError`, one sentence.

    The file is parsed in a process of its own, with hard limits on memory and time, and every value is checked against
    `workspace_schema`.
    """
    name, read = read_saved("workspace", source, "The workspace", WorkspaceError)
    try:
        return _Restored(read).workspace()
    except Exception as error:  # a tree that no rule foresees is the file's fault as well
        told = isinstance(error, SmartError) or type(error) is ValueError
        fault = damaged(str(error) if told else "a part of it is missing or of a wrong kind")
        raise WorkspaceError(f"{name} {fault.problem}", *fault.fixes) from error


# -- writing ------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Parts:
    """The objects that references in a tree point to, in the order of their numbers."""

    sets: list[LogitSet] = field(default_factory=list)
    calibrators: list[Calibrator] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    arrays: list[Array] = field(default_factory=list)


class Writer:
    """From values to trees; each part that they refer to is stored once, so that one object is one object again."""

    def __init__(self, sets: list[LogitSet]) -> None:
        self.parts = Parts(sets=list(sets))
        self._places: dict[tuple[Any, ...], int] = {}

    def tree(self, value: Any, where: str) -> Any:
        """Return the tree of a value; an error names `where` if a workspace cannot keep it."""
        try:
            return tree.encode(value, self._reference, KINDS)
        except TypeError as error:
            raise WorkspaceError(f"{where} {error}") from error

    def calibrator(self, value: Calibrator) -> int:
        """Return the number of a calibrator."""
        return self._number(self.parts.calibrators, value, id(value))

    def evaluation(self, value: Evaluation) -> int:
        """Return the number of an evaluation; two that share all their arrays are one."""
        return self._number(self.parts.evaluations, value, *(id(getattr(value, item.name)) for item in fields(value)))

    def _reference(self, value: Any) -> dict[str, int] | None:
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufU":
            return {"$array": self._number(self.parts.arrays, value, id(value))}
        if isinstance(value, Calibrator):
            return {"$calibrator": self.calibrator(value)}
        if isinstance(value, Evaluation):
            return {"$evaluation": self.evaluation(value)}
        return {"$set": self._set(value)} if isinstance(value, LogitSet) else None

    def _number(self, parts: list[Any], value: Any, *identity: int) -> int:
        key = (id(parts), *identity)
        if key not in self._places:
            self._places[key] = len(parts)
            parts.append(value)
        return self._places[key]

    def _set(self, value: LogitSet) -> int:
        """Return the number of the set itself, or of one with the same name and content."""
        sets = list(enumerate(self.parts.sets))
        same = [number for number, known in sets if known is value]
        same += [n for n, known in sets if (known.name, known.content_hash) == (value.name, value.content_hash)]
        if same:
            return same[0]
        raise TypeError(f"is about the data set '{value.name}', which is not in the workspace; add it.")


def _described(workspace: Workspace) -> tuple[dict[str, Any], Parts]:
    """The manifest and the parts it refers to; raises before a file is written if a value cannot be saved."""
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
            {"device": each.device, "trace": writer.tree(getattr(each, "trace_", None), f"The trace of {each.label}")}
            for each in parts.calibrators
        ],
        "evaluations": [{"cells": cell_numbers(evaluation)} for evaluation in parts.evaluations],
    }
    return manifest | {"arrays": len(parts.arrays)}, parts


def _write(archive: zipfile.ZipFile, manifest: bytes, parts: Parts) -> None:
    def write_arrays(name: str, arrays: Mapping[str, Array]) -> None:
        with open_member(archive, name) as member:
            write_npz(member, arrays, compressed=True)

    with open_member(archive, MANIFEST, zipfile.ZIP_DEFLATED) as member:
        member.write(manifest)
    for number, data in enumerate(parts.sets):
        write_arrays(f"sets/{number}.npz", dict(data.arrays()))
    for number, calibrator in enumerate(parts.calibrators):
        with open_member(archive, f"calibrators/{number}.safetensors", zipfile.ZIP_DEFLATED) as member:
            member.write(calibrator_bytes(calibrator))
    for number, evaluation in enumerate(parts.evaluations):
        write_arrays(f"evaluations/{number}.npz", evaluation_arrays(evaluation))
    write_arrays(ARRAYS, {str(number): array for number, array in enumerate(parts.arrays)})


def _plain_view(key: str, value: Any) -> Any:
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise WorkspaceError(f"The view's setting '{key}' is not plain JSON; keep it as text or numbers.") from error


# -- reading ------------------------------------------------------------------------------------------------


class _Restored:
    """The plain values of a file as objects again."""

    def __init__(self, read: dict[str, Any]) -> None:
        self.read, self.manifest = read, read["manifest"]
        self.parts = parts = Parts(arrays=[np.array(array) for array in read["arrays"]])
        self.resolve: dict[str, Callable[[Any], Any]] = {
            "$array": partial(_at, parts.arrays),
            "$calibrator": partial(_at, parts.calibrators),
            "$evaluation": partial(_at, parts.evaluations),
            "$set": partial(_at, parts.sets),
            "$numbers": np.ndarray.tolist,
        }

    def workspace(self) -> Workspace:
        """Everything, in the order in which later parts refer to earlier ones."""
        manifest, parts = self.manifest, self.parts
        for kind, build in (("sets", self._set), ("calibrators", self._calibrator), ("evaluations", self._evaluation)):
            getattr(parts, kind).extend(map(build, self.read[kind], manifest[kind]))
        fits = {key: self._fit(entry) for key, entry in manifest["fits"].items()}
        studies = {name: self.value(of) for name, of in manifest["studies"].items()}
        return Workspace({**manifest["view"]}, parts.sets, fits, studies)

    def value(self, of: Any) -> Any:
        """Return the value of a tree."""
        return tree.decode(of, self.resolve, build_object)

    def _set(self, arrays: dict[str, Array], entry: dict[str, Any]) -> LogitSet:
        data = build_set(arrays, str(entry["name"]), self.value(entry["notices"]))
        if data.content_hash != entry["content_hash"]:
            raise ValueError(f"the data set '{data.name}' is not the one that was saved")
        return check(data)

    def _calibrator(self, parts: dict[str, Any], entry: dict[str, Any]) -> Calibrator:
        trace = self.value(entry["trace"])
        if trace is not None and not isinstance(trace, Trace):
            raise ValueError("a calibrator's trace is something else")
        return restore_calibrator(parts, str(entry["device"]), trace)

    def _evaluation(self, arrays: dict[str, Array], entry: dict[str, Any]) -> Evaluation:
        evaluation = check(build_evaluation(arrays, entry["cells"]))
        return evaluation if evaluation.cells is None else replace(evaluation, cells=check(evaluation.cells))

    def _fit(self, entry: dict[str, Any]) -> FitRecord:
        check_fields(entry, FIT, "fit")
        calibrator = _at(self.parts.calibrators, entry["calibrator"])
        evaluation = _at(self.parts.evaluations, entry["evaluation"])
        if not belongs(calibrator, evaluation, entry["method"]):
            raise ValueError("a fit is not the one that was saved")
        return FitRecord(calibrator, float(entry["seconds"]), evaluation)


def build_set(arrays: Mapping[str, Array], name: str, notices: Iterable[Notice]) -> LogitSet:
    """Return the data set of the arrays that `LogitSet.arrays` yields."""
    own = dict(arrays)
    names = own.pop("class_names", None)
    head = Head(own.pop("head_weight"), own.pop("head_bias")) if "head_weight" in own else None
    sides: dict[str, dict[str, Array]] = {"val": {}, "test": {}}
    for key, array in own.items():
        side, _, role = key.partition("_")
        sides[side][role] = array
    return LogitSet(
        name[:LONGEST_NAME],
        Part.of_arrays(sides["val"]),
        Part.of_arrays(sides["test"]),
        head,
        None if names is None else tuple(names.tolist()),
        tuple(notices),
    )


def restore_calibrator(parts: Mapping[str, Any], device: str, trace: Trace | None) -> Calibrator:
    """Return the calibrator of its file's values, on its device where this machine has it, else whichever it has."""
    try:
        resolve_device(device)
    except CalibrationError:
        device = "auto"
    calibrator = build_calibrator(parts, device)
    calibrator.trace_ = trace
    return calibrator


def _at(parts: list[Any], number: Any) -> Any:
    if type(number) is not int or not 0 <= number < len(parts):
        raise ValueError("it refers to a part that is not there")
    return parts[number]


def build_object(kind: Any, given: dict[str, Any]) -> Any:
    """Return the object of a tree, if its class is one of `KINDS` and its fields keep the schema."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError("it holds an object of an unknown kind")
    made = check(KINDS[kind](**given))
    if isinstance(made, Result):
        json_value(made.to_dict())  # raises an error for a result that cannot be written
    return made
