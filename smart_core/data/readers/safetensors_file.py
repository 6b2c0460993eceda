"""safetensors: a JSON header with offsets, then the bytes; every offset is checked."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from smart_core.data.found import BFLOAT16, MAX_ARRAYS, Contents, Found, found_array, refuse, shown
from smart_core.data.limits import Budget, bytes_shown
from smart_core.data.logitset import Notice
from smart_core.data.source import Source
from smart_core.data.text import repeated, text_array

MAX_HEADER = 16 << 20
"""JSON grows some twentyfold when it is read; the names and shapes of arrays take a few kilobytes."""
CALIBRATOR = "smart-calibrator"
"""The format that a saved calibrator names in its metadata."""
_DTYPES = {
    **{"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "BOOL": "?"},
    **{
        "I64": "<i8",
        "I32": "<i4",
        "I16": "<i2",
        "I8": "i1",
        "U64": "<u8",
        "U32": "<u4",
        "U16": "<u2",
        "U8": "u1",
    },
}


def read_safetensors(source: Source) -> Contents:
    """Every tensor, known by its name; text (class names, groups) travels in the metadata, see bundle.py."""
    data = source.data
    length = int.from_bytes(data[:8], "little")
    if length > len(data) - 8:
        what = f"its header claims {bytes_shown(length)} but the file holds {bytes_shown(len(data))}"
        raise refuse(source.name, what, "it is truncated or damaged; copy or save it again")
    if length > MAX_HEADER:
        what = f"its header takes {bytes_shown(length)}, more than arrays need"
        raise refuse(source.name, what, "save only the arrays that are needed")
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    if metadata.get("format") == CALIBRATOR:
        raise refuse(source.name, "is a saved calibrator, not logits", "open it with load_calibrator")
    if len(header) > MAX_ARRAYS:
        what = f"holds {len(header):,} arrays, more than a bundle has"
        raise refuse(source.name, what, "save only the arrays that are needed")
    found = [_tensor(source.name, data, 8 + length, name, entry) for name, entry in header.items()]
    return _with_text(found, metadata, Budget(source.name, len(data)))


def _tensor(file: str, data: bytes, start: int, name: str, entry: dict[str, Any]) -> Found:
    code, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    if code not in _DTYPES:
        kind = shown(str(code), 20)
        return Found(file, (name,), None, kind, problem=f"has the number type {kind}", shape=shape)
    dtype = np.dtype(_DTYPES[code])
    count = math.prod(shape)
    if not 0 <= begin <= end <= len(data) - start or min(shape, default=0) < 0 or count * dtype.itemsize != end - begin:
        cure = "it is truncated or damaged; copy or save it again"
        what = f"array '{shown(name)}' of shape {shown(str(shape))} does not fit the bytes in the file"
        raise refuse(file, what, cure)
    if count == 0:
        return found_array(file, (name,), np.empty(shape, dtype=dtype))
    array = np.frombuffer(data, dtype=dtype, count=count, offset=start + begin).reshape(shape)
    return found_array(file, (name,), array, dtype=BFLOAT16 if code == "BF16" else None)


def _with_text(found: list[Found], metadata: dict[str, str], budget: Budget) -> Contents:
    """Class names, and group codes turned back into names, where the metadata holds them as JSON lists."""
    notices: list[Notice] = []
    texts = {
        key: text_array([str(word) for word in json.loads(text)], f"'{key}'", budget, notices)
        for key, text in metadata.items()
        if text[:1] == "["
    }
    result = []
    for item in found:
        names = texts.get(f"{item.key}_names")
        if names is not None and item.array is not None and item.array.dtype.kind in "iu":
            result.append(found_array(budget.file, item.path, repeated(names, item.array, item.label, budget)))
        else:
            result.append(item)
    if "class_names" in texts:
        result.append(found_array(budget.file, ("class_names",), texts["class_names"]))
    return Contents(result, notices)
