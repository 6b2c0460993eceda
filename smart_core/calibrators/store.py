"""Calibrators to and from safetensors files: tensors plus a small JSON header, no pickle anywhere."""

from __future__ import annotations

import json
import os
from os import PathLike
from pathlib import Path
from typing import TypeVar

from smart_core.calibrators.base import Calibrator
from smart_core.data.saving import atomic_write
from smart_core.device import resolve_device
from smart_core.errors import CalibratorFileError, SmartError

FORMAT = "smart-calibrator"
VERSION = 1

T = TypeVar("T")


def save_calibrator(calibrator: Calibrator, path: str | PathLike[str]) -> None:
    """Write the calibrator's file; an old one stays whole if this fails."""
    content = calibrator_bytes(calibrator)
    try:
        with atomic_write(path) as handle:
            handle.write(content)
    except OSError as error:  # it names the temporary file, which says nothing to the user
        raise CalibratorFileError(f"{os.fspath(path)} cannot be written: {error.strerror or error}.") from error


def calibrator_bytes(calibrator: Calibrator) -> bytes:
    """The file's content, for downloads."""
    from safetensors.torch import save

    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in calibrator.state().items()}
    header = {
        "format": FORMAT,
        "version": str(VERSION),
        "method": calibrator.id,
        "settings": json.dumps(calibrator.settings_dict()),
        "classes": str(calibrator.classes_),
        "features_used": json.dumps(calibrator.features_used_),
        "notices": json.dumps(calibrator.notices_),
    }
    return save(tensors, metadata=header)


def load_calibrator(source: str | PathLike[str] | bytes, device: str = "auto") -> Calibrator:
    """Read a calibrator back; it gives the same bits as the one that was saved, on the same machine."""
    resolve_device(device)  # a wrong device is no fault of the file
    name = "the given bytes" if isinstance(source, bytes) else str(source)
    try:
        content = source if isinstance(source, bytes) else Path(source).read_bytes()
    except OSError as error:
        raise CalibratorFileError(f"{name} cannot be read: {error.strerror or error}.") from error
    return _decode(content, name, device)


def _decode(content: bytes, name: str, device: str) -> Calibrator:
    from safetensors.torch import load

    from smart_core.calibrators.registry import get

    try:
        header = _header(content)
        tensors = load(content)
    except Exception as error:
        raise CalibratorFileError(f"{name} is not a calibrator file; save one with calibrator.save(path).") from error
    if header.get("format") != FORMAT:
        raise CalibratorFileError(f"{name} is a safetensors file, but it holds no calibrator.")
    try:
        if _whole(header, "version", 1) > VERSION:
            raise CalibratorFileError(f"{name} was saved by a newer version; update this package to read it.")
        settings = {**_of_kind(header, "settings", dict), "device": device}
        calibrator = get(header["method"], **settings)
        calibrator.restore(
            tensors,
            _whole(header, "classes", 2),
            _of_kind(header, "features_used", bool),
            [str(notice) for notice in _of_kind(header, "notices", list)],
        )
    except CalibratorFileError:
        raise
    except KeyError as error:
        raise _damaged(name, f"its header lacks {error.args[0]}") from error
    except (TypeError, ValueError, RecursionError, SmartError) as error:
        raise _damaged(name, str(error)) from error
    return calibrator


def _damaged(name: str, why: str) -> CalibratorFileError:
    sentence = " ".join(why.split()).rstrip(".")
    return CalibratorFileError(f"{name} is a damaged calibrator file: {sentence}; fit and save it again.")


def _of_kind(header: dict[str, str], key: str, kind: type[T]) -> T:
    value = json.loads(header[key])
    if not isinstance(value, kind):
        raise ValueError(f"{key} in its header is no {kind.__name__}")
    return value


def _whole(header: dict[str, str], key: str, least: int) -> int:
    text = header[key]
    if not (text.isdecimal() and len(text) < 10 and int(text) >= least):
        raise ValueError(f"{key} in its header is {text[:40]!r}, no whole number from {least} up")
    return int(text)


def _header(content: bytes) -> dict[str, str]:
    """The string metadata of a safetensors file: 8 bytes of length, then JSON."""
    length = int.from_bytes(content[:8], "little")
    if length > len(content) - 8:
        raise ValueError("header longer than the file")
    return dict(json.loads(content[8 : 8 + length]).get("__metadata__", {}))
