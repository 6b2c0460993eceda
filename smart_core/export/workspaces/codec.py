"""Values as trees of JSON, and their arrays, calibrators and evaluations as files named after their content.

The trees are those of a workspace file (`smart_core.export.workspace`), except that a reference names a file where a
workspace file has a number:

    {"$array": "<sha256>.npy"}
    {"$calibrator": {"file": "<sha256>.safetensors", "device": "cpu", "trace": tree}}
    {"$evaluation": {"file": "<sha256>.safetensors", "cells": {...} or null}}
    {"$set": {"arrays": {"val_logits": "<sha256>.npy", ...}, "name": ..., "content_hash": ..., "notices": tree,
              "ragged": [of validation, of test]}}

Arrays of a data set are opened as memory maps, so they are read from the disk when they are used. An array of at most
`INLINE` bytes is part of the tree, `{"$npy": base64}`.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.lib import format as npy

from smart_core.calibrators.base import Calibrator
from smart_core.calibrators.store import calibrator_bytes
from smart_core.data import saved, tree
from smart_core.data.logitset import Array, LogitSet
from smart_core.data.saving import atomic_write
from smart_core.errors import WorkspaceError
from smart_core.evaluation import Evaluation, build_evaluation, cell_numbers, evaluation_arrays
from smart_core.export.workspace import KINDS, build_object, build_set, restore_calibrator

INLINE = 8192
"""Bytes up to which an array is part of the tree."""

Content = tuple[bytes | memoryview, ...]
"""The pieces of a file in their order; arrays are not copied."""


class NotKept(WorkspaceError):
    """A value is of a kind that workspaces do not keep."""


@dataclass(eq=False)
class Encoded:
    """The tree of a value, and the content of every file that it refers to."""

    tree: Any = None
    files: dict[str, Content] = field(default_factory=dict)

    def size(self, name: str) -> int:
        """Return the bytes of a file."""
        return sum(len(piece) for piece in self.files[name])


class Codec:
    """The values of one workspace to and from trees and the files of its folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     codec = Codec(Path(folder))
    ...     encoded = codec.encode({"noise": np.zeros(5000), "seeds": (1, 2)})
    ...     codec.write(encoded, encoded.files)
    ...     back = codec.decode(encoded.tree)
    >>> back["noise"].shape, back["seeds"], list(encoded.files)[0][-4:]
    ((5000,), (1, 2), '.npy')
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: WeakValueDictionary[str, Any] = WeakValueDictionary()

    # -- writing --------------------------------------------------------------------------------------------

    def encode(self, value: Any) -> Encoded:
        """Return the tree of a value and its files; `NotKept` if it holds what a workspace cannot keep."""
        encoded = Encoded()
        try:
            encoded.tree = self._tree(value, encoded)
        except TypeError as error:
            raise NotKept(f"A result {error}") from error
        return encoded

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return the files that are not in the folder."""
        return [name for name in names if not (self.folder / name).exists()]

    def write(self, encoded: Encoded, names: Iterable[str]) -> None:
        """Write these files. Each gets its name when it is whole and on the disk; then the folder is synced too."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name in names:
            with atomic_write(self.folder / name) as handle:
                for piece in encoded.files[name]:
                    handle.write(piece)
        sync(self.folder)

    def _tree(self, value: Any, encoded: Encoded) -> Any:
        return tree.encode(value, lambda part: self._reference(part, encoded), KINDS)

    def _reference(self, value: Any, encoded: Encoded) -> dict[str, Any] | None:
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufU":
            if value.nbytes <= INLINE:
                return {"$npy": base64.b64encode(b"".join(_npy(value))).decode()}
            return {"$array": _add(encoded, _npy(value), ".npy")}
        if isinstance(value, Calibrator):
            file = _add(encoded, (calibrator_bytes(value),), ".safetensors")
            trace = self._tree(getattr(value, "trace_", None), encoded)
            return {"$calibrator": {"file": file, "device": value.device, "trace": trace}}
        if isinstance(value, Evaluation):
            from safetensors.numpy import save

            vectors = {name: np.ascontiguousarray(array) for name, array in evaluation_arrays(value).items()}
            return {
                "$evaluation": {"file": _add(encoded, (save(vectors),), ".safetensors"), "cells": cell_numbers(value)}
            }
        if isinstance(value, LogitSet):
            notices = self._tree(list(value.notices), encoded)
            arrays = {name: _add(encoded, _npy(array), ".npy") for name, array in value.arrays()}
            ragged = [part.ragged for part in (value.validation, value.test)]
            about = {"name": value.name, "content_hash": value.content_hash, "notices": notices, "ragged": ragged}
            return {"$set": {"arrays": arrays, **about}}
        return None

    # -- reading --------------------------------------------------------------------------------------------

    def decode(self, of: Any) -> Any:
        """Return the value of a tree; `WorkspaceError` if a file is missing or damaged."""
        resolve = {
            "$npy": lambda text: np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False),
            "$array": lambda name: np.array(self._array(name)),
            "$calibrator": lambda entry: self._shared(entry, self._calibrator),
            "$evaluation": lambda entry: self._shared(entry, self._evaluation),
            "$set": lambda entry: self._shared(entry, self._set),
        }
        try:
            return tree.decode(of, resolve, build_object)
        except FileNotFoundError as error:
            raise WorkspaceError(
                "A file of the workspace is missing", "load the data or compute the result again"
            ) from error
        except Exception as error:  # whatever a parser raises is the file's fault
            raise WorkspaceError(
                "A file of the workspace is damaged", "load the data or compute the result again"
            ) from error

    def _shared(self, entry: Any, build: Any) -> Any:
        """Return the object of a reference; the same object as long as anyone uses it."""
        key = json.dumps(entry, sort_keys=True)
        found = self._open.get(key)
        if found is None:
            found = self._open.setdefault(key, build(entry))
        return found

    def _array(self, name: str) -> Array:
        mapped: Array = np.load(self.folder / name, mmap_mode="r", allow_pickle=False)
        return np.asarray(mapped)

    def _set(self, entry: dict[str, Any]) -> LogitSet:
        arrays = {name: self._array(file) for name, file in entry["arrays"].items()}
        data = build_set(arrays, entry["name"], self.decode(entry["notices"]))
        # what it takes every number to know, of arrays that are still on the disk
        vars(data)["content_hash"] = entry["content_hash"]
        for part, ragged in zip((data.validation, data.test), entry.get("ragged", ()), strict=False):
            vars(part)["ragged"] = ragged
        return data

    def _calibrator(self, entry: dict[str, Any]) -> Calibrator:
        parts = saved.calibrator((self.folder / entry["file"]).read_bytes())
        return restore_calibrator(parts, entry["device"], self.decode(entry["trace"]))

    def _evaluation(self, entry: dict[str, Any]) -> Evaluation:
        from safetensors.numpy import load

        return build_evaluation(load((self.folder / entry["file"]).read_bytes()), entry["cells"])


def _npy(array: Array) -> Content:
    """Return the content of an npy file: its header, and the bytes of the array."""
    header = io.BytesIO()
    array = np.ascontiguousarray(array)
    npy.write_array_header_1_0(header, npy.header_data_from_array_1_0(array))
    return header.getvalue(), array.reshape(-1).view(np.uint8).data if array.size else b""


def _add(encoded: Encoded, content: Content, suffix: str) -> str:
    digest = hashlib.sha256()
    for piece in content:
        digest.update(piece)
    name = f"{digest.hexdigest()}{suffix}"
    encoded.files[name] = content
    return name


def sync(folder: Path) -> None:
    """Wait until the names in a folder are on the disk; Windows has no such call and does not need it."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
