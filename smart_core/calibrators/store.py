"""Calibrators to and from safetensors files: tensors plus a small JSON header, without pickle."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from smart_core.calibrators.base import Calibrator, Shape
from smart_core.calibrators.rows import all_finite
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
    except OSError as error:  # it names the temporary file, which means nothing to the user
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
    """Read a calibrator back; on the same machine it gives the same bits as the one that was saved.

    >>> import numpy as np, smart_core as sc
    >>> z = np.random.default_rng(0).normal(size=(100, 3))
    >>> saved = sc.calibrators.calibrator_bytes(sc.TS().fit(z, z.argmax(axis=1)))
    >>> sc.load_calibrator(saved).label
    'TS'
    """
    resolve_device(device)  # a wrong device is not the file's fault
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
        calibrator = get(header["method"], **{**_of_kind(header, "settings", dict), "device": device})
        calibrator.check_settings()
        calibrator.classes_ = _whole(header, "classes", 2)
        calibrator.features_used_ = _of_kind(header, "features_used", bool)
        calibrator.notices_ = [str(notice) for notice in _of_kind(header, "notices", list)]
        calibrator.trace_ = None
        fault = wrong_state(tensors, calibrator.learned(), calibrator.infinite)
        if fault is not None:
            raise ValueError(f"{calibrator.label}: {fault}")
    except CalibratorFileError:
        raise
    except KeyError as error:
        raise _damaged(name, f"its header lacks {error.args[0]}") from error
    except (TypeError, ValueError, RecursionError, SmartError) as error:
        raise _damaged(name, str(error)) from error
    for tensor_name, tensor in tensors.items():
        setattr(calibrator, tensor_name, tensor.to(resolve_device(device)))
    return calibrator


def _damaged(name: str, why: str) -> CalibratorFileError:
    sentence = " ".join(why.split()).rstrip(".")
    return CalibratorFileError(f"{name} is a damaged calibrator file: {sentence}; fit and save it again.")


def _of_kind(header: dict[str, str], key: str, kind: type[T]) -> T:
    value = json.loads(header[key])
    if not isinstance(value, kind):
        raise ValueError(f"{key} in its header is not a {kind.__name__}")
    return value


def _whole(header: dict[str, str], key: str, least: int) -> int:
    text = header[key]
    if not (text.isdecimal() and len(text) < 10 and int(text) >= least):
        raise ValueError(f"{key} in its header is {text[:40]!r}, not a whole number from {least} up")
    return int(text)


def _header(content: bytes) -> dict[str, str]:
    """The string metadata of a safetensors file: 8 bytes of length, then JSON."""
    length = int.from_bytes(content[:8], "little")
    if length > len(content) - 8:
        raise ValueError("header longer than the file")
    return dict(json.loads(content[8 : 8 + length]).get("__metadata__", {}))


def wrong_state(state: Mapping[str, Tensor], shapes: Mapping[str, Shape], infinite: tuple[str, ...] = ()) -> str | None:
    """What is wrong with learned tensors, or None: names, dtype, shapes, values; `infinite` ones may hold infinity."""
    missing = [name for name in shapes if name not in state]
    if missing:
        return f"it lacks {', '.join(missing)}"
    unknown = [name for name in state if name not in shapes]
    if unknown:
        return f"it holds {', '.join(map(repr, unknown))}, which this method does not have"
    lengths: dict[str, int] = {}
    for name, shape in shapes.items():
        tensor = state[name]
        if tensor.dtype != torch.float32:
            return f"{name} is {str(tensor.dtype).removeprefix('torch.')}, not float32"
        wanted = tuple(_length(*pair, lengths) for pair in zip(shape, tensor.shape, strict=False))
        if len(shape) != tensor.ndim or tuple(tensor.shape) != wanted:
            known = [str(lengths.get(str(length), length)) for length in shape]
            return f"{name} has shape {tuple(tensor.shape)}, not ({', '.join(known)}{',' * (len(known) == 1)})"
        if bool(tensor.isnan().any()) or (name not in infinite and not all_finite(tensor.reshape(-1, 1))):
            return f"{name} holds NaN or infinity"
    return None


def _length(declared: int | str, found: int, lengths: dict[str, int]) -> int:
    """The declared length; a letter that occurs for the first time takes its length from what was found."""
    if isinstance(declared, int):
        return declared
    letter, _, more = declared.partition("+")
    return max(0, lengths.setdefault(letter, found - int(more or 0))) + int(more or 0)
