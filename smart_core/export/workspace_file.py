"""A workspace's file as plain values and arrays: what the sandbox reads. `workspace.py` builds objects from them.

The file is a zip archive:

    manifest.json              versions, the view, the list of what follows, fits and studies as trees of JSON
    sets/0.npz                 a data set as a bundle that `smart_core.load` reads as well
    calibrators/0.safetensors  a fitted calibrator as `Calibrator.save` writes it
    evaluations/0.npz          the per-sample vectors and classwise sums of an evaluation
    arrays.npz                 the arrays of studies and traces
"""

from __future__ import annotations

import json
import zipfile
from io import BytesIO
from typing import Any

import numpy as np
from numpy.lib import format as npy

from smart_core.data import saved
from smart_core.data.logitset import Array
from smart_core.errors import LogitFileError

FORMAT = "smart-workspace"
VERSION = 1
MANIFEST = "manifest.json"
ARRAYS = "arrays.npz"
ANOTHER_COPY = "use another copy of it"

LONGEST_MANIFEST = 32 << 20
"""Bytes of JSON that are read at most."""
MOST_PARTS = 10_000
"""Data sets, calibrators, evaluations or arrays."""
LONGEST_WORD = 1000
"""Characters of an entry of an array of text."""


def workspace(content: bytes) -> dict[str, Any]:
    """The manifest, and every part that it lists."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            manifest = _manifest(archive)
            arrays = _npz(archive, ARRAYS)
            return {
                "manifest": manifest,
                "arrays": [arrays[str(number)] for number in range(_count(manifest["arrays"]))],
                "sets": [_npz(archive, f"sets/{number}.npz") for number in _numbers(manifest, "sets")],
                "calibrators": [_calibrator(archive, number) for number in _numbers(manifest, "calibrators")],
                "evaluations": [
                    _npz(archive, f"evaluations/{number}.npz") for number in _numbers(manifest, "evaluations")
                ],
            }
    except MemoryError:
        raise
    except zipfile.BadZipFile as error:
        raise not_a_workspace() from error
    except LogitFileError:
        raise
    except Exception as error:  # whatever a parser raises is the file's fault
        told = type(error) is ValueError
        raise damaged(str(error) if told else "a part of it is missing or of a wrong kind") from error


def not_a_workspace() -> LogitFileError:
    """The error for another file, and for the beginning of a workspace: the list of members is at the end of a zip."""
    return LogitFileError("is not a workspace, or not a whole one", ANOTHER_COPY)


def damaged(why: str) -> LogitFileError:
    """The error for a workspace that was changed."""
    return LogitFileError(f"is a damaged workspace: {' '.join(why.split()).rstrip('.')[:300]}", ANOTHER_COPY)


def _manifest(archive: zipfile.ZipFile) -> dict[str, Any]:
    if MANIFEST not in archive.namelist():
        raise not_a_workspace()
    with archive.open(MANIFEST) as stream:
        content = stream.read(LONGEST_MANIFEST + 1)
    if len(content) > LONGEST_MANIFEST:
        raise ValueError("its manifest is too long")
    manifest = json.loads(content)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise not_a_workspace()
    if _count(manifest["version"]) > VERSION:
        raise LogitFileError("was saved by a newer version", "update this package to read it")
    return {key: saved.plain(tree, arrays=key != "view") for key, tree in manifest.items()}


def _numbers(manifest: dict[str, Any], key: str) -> range:
    listed = manifest[key]
    return range(_count(len(listed) if isinstance(listed, list) else None))


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MOST_PARTS:
        raise ValueError("it does not say how many parts it has")
    return value


def _calibrator(archive: zipfile.ZipFile, number: int) -> dict[str, Any]:
    try:
        return saved.calibrator(archive.read(f"calibrators/{number}.safetensors"))
    except LogitFileError as error:
        raise ValueError(f"its calibrator {number} {error.problem}") from error


def _npz(archive: zipfile.ZipFile, member: str) -> dict[str, Array]:
    """The arrays of an npz member, which is not compressed itself."""
    if archive.getinfo(member).compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{member} is packed twice")
    with archive.open(member) as outer, zipfile.ZipFile(outer) as inner:
        found = {}
        for name in inner.namelist()[:MOST_PARTS]:
            with inner.open(name) as stream:
                found[saved.text(name.removesuffix(".npy"))] = _array(stream)
        return found


def _array(stream: Any) -> Array:
    """An array of numbers or text in the machine's own byte order; text that can be encoded."""
    array = npy.read_array(stream, allow_pickle=False)
    if array.dtype.kind not in "biufU" or not array.dtype.isnative or not 0 < array.dtype.itemsize <= 4 * LONGEST_WORD:
        raise ValueError("an array is of a wrong kind")
    if array.dtype.kind == "U":
        codes = np.ascontiguousarray(array).view(np.uint32)
        if ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))).any():
            raise ValueError("a text in it cannot be encoded")
    return array
