"""Calibrators to and from safetensors files: tensors plus a small JSON header, without pickle."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from os import PathLike
from typing import Any

import torch
from torch import Tensor

from smart_core.calibrators.base import Calibrator, Shape
from smart_core.calibrators.rows import all_finite
from smart_core.data.saved import CALIBRATOR, CALIBRATOR_VERSION, Saved, read_saved
from smart_core.data.saving import atomic_write
from smart_core.device import resolve_device
from smart_core.errors import CalibratorFileError, SmartError


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
        "format": CALIBRATOR,
        "version": str(CALIBRATOR_VERSION),
        "method": calibrator.id,
        "settings": json.dumps(calibrator.settings_dict()),
        "classes": str(calibrator.classes_),
        "features_used": json.dumps(calibrator.features_used_),
        "notices": json.dumps(calibrator.notices_),
        "decided": json.dumps(calibrator.decided()),
    }
    return _sorted_header(save(tensors, metadata=header))


def _sorted_header(content: bytes) -> bytes:
    """Return a safetensors file with the entries of its header in order: the library's order changes between calls."""
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8:start]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[start:]


def load_calibrator(source: Saved, device: str = "auto") -> Calibrator:
    """Read a calibrator back; on the same machine it gives the same bits as the one that was saved.

    The file is parsed in a process of its own, with hard limits on memory and time.

    >>> import numpy as np, smart_core as sc
    >>> z = np.random.default_rng(0).normal(size=(100, 3))
    >>> saved = sc.calibrators.calibrator_bytes(sc.TS().fit(z, z.argmax(axis=1)))
    >>> sc.load_calibrator(saved).label
    'TS'
    """
    resolve_device(device)  # a wrong device is not the file's fault
    name, parts = read_saved("calibrator", source, "the given bytes", CalibratorFileError)
    try:
        return build_calibrator(parts, device)
    except (TypeError, ValueError, SmartError) as error:
        why = " ".join(str(error).split()).rstrip(".")
        raise CalibratorFileError(f"{name} is a damaged calibrator file: {why}", "fit and save it again") from error


def build_calibrator(parts: Mapping[str, Any], device: str) -> Calibrator:
    """Return the calibrator of the plain values that `saved.calibrator` reads; its settings and tensors are checked."""
    from smart_core.calibrators.registry import get, method_named

    tensors = {name: torch.tensor(array) for name, array in parts["tensors"].items()}
    settings, tensors = method_named(parts["method"]).upgraded(dict(parts["settings"]), tensors)
    calibrator = get(parts["method"], **{**settings, "device": device})
    calibrator.check_settings()
    if parts["classes"] < (0 if calibrator.top_label else 2) or parts["classes"] == 1:
        raise ValueError(f"{calibrator.label}: it was not fitted on {parts['classes']} classes")
    calibrator.restore(parts["classes"], parts["features_used"], parts["notices"], parts["decided"])
    fault = wrong_state(tensors, calibrator.learned(), calibrator.infinite)
    if fault is not None:
        raise ValueError(f"{calibrator.label}: {fault}")
    calibrator.with_state(tensors).check_learned()
    return calibrator.with_state({name: tensor.to(resolve_device(device)) for name, tensor in tensors.items()})


def wrong_state(state: Mapping[str, Tensor], shapes: Mapping[str, Shape], infinite: tuple[str, ...] = ()) -> str | None:
    """The first fault of learned tensors, or None: names, dtype, shapes, values; `infinite` ones may hold infinity."""
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
    """The declared length; a symbol that occurs for the first time takes its length from what was found."""
    if isinstance(declared, int):
        return declared
    symbol, _, more = declared.partition("+")
    return max(0, lengths.setdefault(symbol, found - int(more or 0))) + int(more or 0)
