"""Saving a set in the project's own form, npz or safetensors; loading it gives the same content."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import numpy as np

from smart_core.data.logitset import Array, LogitSet


def bundle_arrays(data: LogitSet) -> dict[str, Array]:
    """Bundle key -> array: val_logits, val_labels, test_logits, ..., head_weight, head_bias, class_names."""
    arrays = {
        f"{split}_{name}": array
        for split, part in (("val", data.validation), ("test", data.test))
        for name, array in part.arrays()
    }
    if data.head is not None:
        arrays |= {"head_weight": data.head.weight, "head_bias": data.head.bias}
    if data.class_names is not None:
        arrays["class_names"] = np.array(data.class_names, dtype=np.str_)
    return arrays


def save_bundle(data: LogitSet, path: str | os.PathLike[str]) -> Path:
    """Writes beside the final place, then renames, so that a reader never sees half a file."""
    path = Path(path)
    if path.suffix.lower() not in (".npz", ".safetensors"):
        raise ValueError(f"a bundle is saved as .npz or .safetensors, not {path.suffix or 'without an extension'}")
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            if path.suffix.lower() == ".npz":
                np.savez_compressed(stream, **bundle_arrays(data))  # type: ignore[arg-type]
            else:
                stream.write(_safetensors(bundle_arrays(data)))
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path


def _safetensors(arrays: dict[str, Array]) -> bytes:
    """safetensors holds numbers only: names go to the metadata, groups become codes into their names."""
    from safetensors.numpy import save

    tensors: dict[str, Array] = {}
    metadata: dict[str, str] = {}
    for key, array in arrays.items():
        if array.dtype.kind != "U":
            tensors[key] = np.ascontiguousarray(array)
        elif key == "class_names":
            metadata[key] = json.dumps(array.tolist())
        else:
            names, codes = np.unique(array, return_inverse=True)
            tensors[key] = codes.astype(np.int32)
            metadata[f"{key}_names"] = json.dumps(names.tolist())
    return save(tensors, metadata)
