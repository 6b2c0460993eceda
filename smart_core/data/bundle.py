"""Saving a set as a bundle, npz or safetensors; loading it gives the same content."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from smart_core.atomic import replacing
from smart_core.data.logitset import Array, LogitSet


def save_bundle(data: LogitSet, path: str | os.PathLike[str]) -> Path:
    """Write a bundle; a file at the path is replaced when the new one is whole."""
    path = Path(path)
    if path.suffix.lower() not in (".npz", ".safetensors"):
        raise ValueError(f"a bundle is saved as .npz or .safetensors, not {path.suffix or 'without an extension'}")
    with replacing(path) as stream:
        if path.suffix.lower() == ".npz":
            np.savez_compressed(stream, **dict(data.arrays()))  # type: ignore[arg-type]
        else:
            stream.write(_safetensors(data))
    return path


def _safetensors(data: LogitSet) -> bytes:
    """safetensors holds numbers only: names go to the metadata, groups become codes into their names."""
    from safetensors.numpy import save

    tensors: dict[str, Array] = {}
    metadata: dict[str, str] = {}
    for key, array in data.arrays():
        if array.dtype.kind != "U":
            tensors[key] = np.ascontiguousarray(array)
        elif key == "class_names":
            metadata[key] = json.dumps(array.tolist())
        else:
            names, codes = np.unique(array, return_inverse=True)
            tensors[key] = codes.astype(np.int32)
            metadata[f"{key}_names"] = json.dumps(names.tolist())
    return save(tensors, metadata)
