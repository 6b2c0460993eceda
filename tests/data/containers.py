"""HDF5 files, MATLAB 7.3 files, zarr stores and JSON in memory, written by the formats' own libraries."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np
import zarr
from zarr.storage import MemoryStore


def hdf5(arrays: Mapping[str, Any], **options: Any) -> bytes:
    """Datasets by their paths."""
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        for path, array in arrays.items():
            file.create_dataset(path, data=array, **options)
    return stream.getvalue()


def mat73(arrays: Mapping[str, Any]) -> bytes:
    """What MATLAB writes with -v7.3: matrices are transposed, texts are codes, cells are references."""
    stream = io.BytesIO()
    with h5py.File(stream, "w", userblock_size=512) as file:
        for name, value in arrays.items():
            _variable(file, name, value)
    head = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116) + bytes(8) + b"\x00\x02IM"
    return head.ljust(512, b"\0") + stream.getvalue()[512:]


def _variable(file: Any, name: str, value: Any) -> Any:
    array = np.asarray(value)
    if isinstance(value, list):  # a cell array of texts
        cells = [_variable(file, f"#refs#/{name}{number}", text) for number, text in enumerate(value)]
        made = file.create_dataset(name, (1, len(cells)), dtype=h5py.ref_dtype)
        for number, cell in enumerate(cells):
            made[0, number] = cell.ref
        kind = b"cell"
    elif isinstance(value, str):
        made = file.create_dataset(name, data=np.array([[ord(letter)] for letter in value], np.uint16))
        kind = b"char"
    else:
        made = file.create_dataset(name, data=np.atleast_2d(array).T)
        kind = {"float64": b"double", "float32": b"single"}.get(array.dtype.name, array.dtype.name.encode())
    made.attrs["MATLAB_class"] = np.bytes_(kind)
    return made


def zarr_store(arrays: Mapping[str, Any], version: Any = 3, **options: Any) -> dict[str, bytes]:
    """The files of a store, by their paths."""
    content: dict[str, Any] = {}
    root = zarr.create_group(MemoryStore(content), zarr_format=version)
    for path, array in arrays.items():
        array = np.asarray(array)
        root.create_array(path, shape=array.shape, dtype=array.dtype, **options)[...] = array  # zarr 3.0 takes no data
    return {path: buffer.to_bytes() for path, buffer in content.items()}


def zipped_store(files: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for path, content in files.items():
            archive.writestr(zipfile.ZipInfo(path), content)
    return stream.getvalue()


def json_lines(records: list[dict[str, Any]]) -> bytes:
    return "".join(f"{json.dumps(record)}\n" for record in records).encode()


def lm_eval_sample(number: int, target: Any, likelihoods: Any, as_text: bool = True, **more: Any) -> dict[str, Any]:
    """A line that lm-evaluation-harness logs."""
    pairs = [[str(value), "False"] if as_text else [float(value), False] for value in likelihoods]
    return {
        "doc_id": number,
        "doc": {"question": f"Question {number}?", "subject": ("history", "law")[number % 2]},
        "target": target,
        "arguments": [[f"Question {number}? Answer:", f" {'ABCDEFGHIJ'[place]}"] for place in range(len(pairs))],
        "resps": [[pair] for pair in pairs],
        "filtered_resps": pairs,
        "filter": "none",
        "metrics": ["acc"],
        "doc_hash": f"{number:x}",
        "acc": 1.0,
        **more,
    }
