"""MATLAB files of versions 4 to 7, read by SciPy: numeric and logical matrices, text, and cells of text.

On some damaged files SciPy's parser crashes, which ends the process that reads them and no other.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
import scipy.io

from smart_core.data.formats.limits import text_array
from smart_core.data.formats.raw import RawArray, RawFile, Source

_OTHER = "holds cells, structures or sparse numbers instead of a plain matrix"


def read_mat(source: Source) -> RawFile:
    """Read every variable, under its name; MATLAB may store numbers in a smaller type than that of their class."""
    raw = RawFile(source.name)
    classes = {name: kind for name, _, kind in scipy.io.whosmat(BytesIO(source.data))}
    for name, value in scipy.io.loadmat(BytesIO(source.data)).items():
        if name in classes:
            raw.arrays.append(_raw_array(raw, name, value, classes[name]))
    return raw


def _raw_array(raw: RawFile, name: str, value: Any, kind: str) -> RawArray:
    """Return a variable; in a matrix of characters, text is padded with blanks."""
    unusable = RawArray(raw.name, (name,), None, "other", problem=_OTHER)
    if not isinstance(value, np.ndarray) or value.dtype.kind == "V":
        return unusable
    if value.dtype.kind in "biuf":
        value = value.astype("?" if kind == "logical" else kind, copy=False)
    elif value.dtype.kind in "UO":
        cells = value.reshape(-1).tolist()
        words = [cell.item() if isinstance(cell, np.ndarray) and cell.size == 1 else cell for cell in cells]
        if not words or not all(isinstance(word, str) for word in words):
            return unusable
        value = text_array([word.rstrip() for word in words], raw.name, unusable.label, raw.notices)
    return RawArray.of(raw.name, (name,), value)
