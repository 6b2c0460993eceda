"""Calibrators to and from safetensors files: tensors plus a small JSON header, no pickle anywhere."""

from __future__ import annotations

import json
import os
from os import PathLike
from pathlib import Path
from tempfile import NamedTemporaryFile

from smart_core.calibrators.base import Calibrator
from smart_core.errors import CalibratorFileError, SmartError

FORMAT = "smart-calibrator"
VERSION = 1


def save_calibrator(calibrator: Calibrator, path: str | PathLike[str]) -> None:
    """Write to a temporary file beside the target, then rename: an old file stays whole if this fails."""
    target = Path(path)
    with NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as handle:
        temporary = Path(handle.name)
        try:
            handle.write(calibrator_bytes(calibrator))
            handle.flush()
            os.fsync(handle.fileno())
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    temporary.chmod(0o644)  # a temporary file is its owner's alone, a calibrator is for sharing
    temporary.replace(target)


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
    if int(header.get("version", "0")) > VERSION:
        raise CalibratorFileError(f"{name} was saved by a newer version; update this package to read it.")
    try:
        settings = {**json.loads(header["settings"]), "device": device}
        calibrator = get(header["method"], **settings)
        calibrator.restore(
            tensors,
            int(header["classes"]),
            bool(json.loads(header["features_used"])),
            list(json.loads(header["notices"])),
        )
    except (KeyError, TypeError, ValueError, SmartError) as error:
        raise CalibratorFileError(f"{name} is a damaged calibrator file: {error}.") from error
    return calibrator


def _header(content: bytes) -> dict[str, str]:
    """The string metadata of a safetensors file: 8 bytes of length, then JSON."""
    length = int.from_bytes(content[:8], "little")
    if length > len(content) - 8:
        raise ValueError("header longer than the file")
    return dict(json.loads(content[8 : 8 + length]).get("__metadata__", {}))
