"""safetensors: a JSON header with offsets, then the bytes; every offset is checked."""

from __future__ import annotations

import json
import math
import operator
from typing import Any

import numpy as np

from smart_core.data.formats.limits import DAMAGED, text_array
from smart_core.data.formats.raw import BFLOAT16, MAX_ARRAYS, RawArray, RawFile, Source
from smart_core.data.logitset import Array
from smart_core.errors import LogitFileError
from smart_core.formatting import bytes_text, printable

MAX_HEADER = 16 << 20
"""JSON grows some twentyfold when it is read; the names and shapes of arrays take a few kilobytes."""
CALIBRATOR = "smart-calibrator"
"""The format that a saved calibrator names in its metadata."""
_DTYPES = {
    **{"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "BOOL": "?"},
    **{f"{sign}{8 * size}": f"<{sign.lower()}{size}" for sign in "IU" for size in (1, 2, 4, 8)},
}


def read_safetensors(source: Source) -> RawFile:
    """Every tensor, under its name; text (class names, groups) is in the metadata, see bundle.py."""
    return _with_text(*tensors_of(source))


def tensors_of(source: Source) -> tuple[RawFile, dict[str, str]]:
    """Return every tensor under its name, and the metadata."""
    data = source.data
    length = int.from_bytes(data[:8], "little")
    if length > len(data) - 8:
        problem = f"its header claims {bytes_text(length)} but the file holds {bytes_text(len(data))}"
        raise LogitFileError(problem, DAMAGED, file=source.name)
    if length > MAX_HEADER:
        problem = f"its header takes {bytes_text(length)}, more than arrays need"
        raise LogitFileError(problem, "save only the arrays that are needed", file=source.name)
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    if metadata.get("format") == CALIBRATOR:
        raise LogitFileError(
            "is a saved calibrator, not logits", "give a logit file, or open it with load_calibrator", file=source.name
        )
    if len(header) > MAX_ARRAYS:
        problem = f"holds {len(header):,} arrays, more than a bundle has"
        raise LogitFileError(problem, "save only the arrays that are needed", file=source.name)
    arrays = [_tensor(source.name, data, 8 + length, name, entry) for name, entry in header.items()]
    return RawFile(source.name, arrays), metadata


def _tensor(file: str, data: bytes, start: int, name: str, entry: dict[str, Any]) -> RawArray:
    code, shape, (begin, end) = entry["dtype"], tuple(map(operator.index, entry["shape"])), entry["data_offsets"]
    if code not in _DTYPES:
        kind = printable(str(code), 20)
        return RawArray(file, (name,), None, kind, shape, problem=f"has the number type {kind}")
    dtype = np.dtype(_DTYPES[code])
    count = math.prod(shape)
    if not 0 <= begin <= end <= len(data) - start or min(shape, default=0) < 0 or count * dtype.itemsize != end - begin:
        problem = f"of shape {printable(str(shape))} does not fit the bytes in the file"
        raise RawArray(file, (name,), None, "").error(problem, DAMAGED)
    if count == 0:
        return RawArray.of(file, (name,), np.empty(shape, dtype=dtype))
    array = np.frombuffer(data, dtype=dtype, count=count, offset=start + begin).reshape(shape)
    return RawArray.of(file, (name,), array, BFLOAT16 if code == "BF16" else None)


def _with_text(raw: RawFile, metadata: dict[str, str]) -> RawFile:
    """Add class names, and turn group codes back into names, if the metadata holds the names as JSON lists."""
    texts = {
        key: text_array([str(word) for word in json.loads(text)], raw.name, f"'{printable(key)}'", raw.notices)
        for key, text in metadata.items()
        if text[:1] == "["
    }
    raw.arrays = [_named(item, texts.get(f"{item.key}_names")) for item in raw.arrays]
    if "class_names" in texts:
        raw.arrays.append(RawArray.of(raw.name, ("class_names",), texts["class_names"]))
    return raw


def _named(item: RawArray, names: Array | None) -> RawArray:
    """Return the names of the codes."""
    if names is None or item.array is None or item.kind not in ("i", "u"):
        return item
    if item.array.size and not 0 <= item.array.min() <= item.array.max() < len(names):
        raise item.error(f"holds codes outside 0 to {len(names) - 1}, the names in the file", DAMAGED)
    return RawArray.of(item.file, item.path, names[item.array])
