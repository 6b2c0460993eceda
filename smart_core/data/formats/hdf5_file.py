"""HDF5, and MATLAB 7.3, which is HDF5 inside, read by h5py: the datasets by their paths.

The tree is walked at once; a dataset is read when it is asked for, because a file may hold thousands of experiments.
Nothing outside of the file is read: external links, external storage and virtual datasets are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from typing import Any

import h5py
import numpy as np

from smart_core.data.formats.limits import Budget, text_array
from smart_core.data.formats.ragged import padded
from smart_core.data.formats.raw import ArrayPath, RawArray, RawFile, Source
from smart_core.data.logitset import Array
from smart_core.errors import LogitFileError

MATLAB = b"MATLAB 7.3"
MAX_DATASETS = 50_000
MAX_DEPTH = 12
_OUTSIDE = "refers to another file"
_COPY = "copy the numbers into this file"


def read_hdf5(source: Source) -> RawFile:
    """List every dataset; the arrays of MATLAB are transposed."""
    content = source.content  # h5py reads a mapped file piece by piece
    file = h5py.File(BytesIO(content) if isinstance(content, bytes) else content, "r")
    raw = RawFile(source.name)
    matlab = source.head.startswith(MATLAB)
    budget = Budget(source.name, len(source.content))
    found: dict[ArrayPath, Callable[[], RawArray]] = {}
    for path, dataset in _datasets(file, (), {h5py.h5o.get_info(file.id).addr}, matlab):
        if len(found) == MAX_DATASETS:
            problem = f"holds more than {MAX_DATASETS:,} datasets"
            raise LogitFileError(problem, "save only the arrays that are needed", file=source.name)
        found[path] = partial(_raw_array, raw, budget, path, dataset, matlab)
    raw.unread = found
    return raw


def _datasets(group: Any, path: ArrayPath, seen: set[int], matlab: bool) -> Iterator[tuple[ArrayPath, Any]]:
    """Every dataset below a group once, whatever links lead to it; None for one in another file."""
    for name in group:
        if (matlab and name.startswith("#")) or len(path) > MAX_DEPTH:  # what MATLAB's cells refer to
            continue
        link = group.get(name, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            yield (*path, name), None
        if not isinstance(link, h5py.HardLink):
            continue
        item = group[name]
        address = h5py.h5o.get_info(item.id).addr
        if address in seen:
            continue
        seen.add(address)
        if isinstance(item, h5py.Dataset):
            yield (*path, name), item
        elif isinstance(item, h5py.Group):
            yield from _datasets(item, (*path, name), seen, matlab)


def _raw_array(raw: RawFile, budget: Budget, path: ArrayPath, dataset: Any, matlab: bool) -> RawArray:
    """Read a dataset of numbers or text, or of rows of unequal length."""
    outside = RawArray(raw.name, path, None, "other", problem=_OUTSIDE, fix=_COPY)
    if dataset is None or dataset.is_virtual or dataset.external:
        return outside
    shape, dtype = dataset.shape, dataset.dtype
    if shape is None:
        return RawArray(raw.name, path, None, "empty", problem="is empty")
    label = outside.label
    budget.charge(label, dataset.size * max(dtype.itemsize, 1))
    if matlab and "MATLAB_class" in dataset.attrs:
        return _matlab(raw, path, dataset, label)
    if h5py.check_string_dtype(dtype) is not None:
        words = np.asarray(dataset.asstr(errors="replace")[()])
        return RawArray.of(raw.name, path, _words(words, raw, label))
    if (kind := h5py.check_vlen_dtype(dtype)) is not None and np.dtype(kind).kind in "biuf" and len(shape) == 1:
        return RawArray.of(raw.name, path, padded(budget, label, list(dataset[()])))
    if dtype.kind not in "biuf":
        return RawArray.unusable(raw.name, path, dtype, shape)
    return RawArray.of(raw.name, path, np.asarray(dataset[()]))


def _words(words: Array, raw: RawFile, label: str) -> Array:
    return text_array([str(word) for word in words.reshape(-1)], raw.name, label, raw.notices).reshape(words.shape)


def _matlab(raw: RawFile, path: ArrayPath, dataset: Any, label: str) -> RawArray:
    """A variable of MATLAB: a matrix, which is stored column by column; text, or cells of text."""
    kind = bytes(dataset.attrs["MATLAB_class"]).decode("ascii", "replace")
    problem = "holds cells, structures or sparse numbers instead of a plain matrix"
    unusable = RawArray(raw.name, path, None, kind, problem=problem)
    if "MATLAB_empty" in dataset.attrs:
        return RawArray.of(raw.name, path, np.empty((0, 0)))
    if kind == "cell" and h5py.check_ref_dtype(dataset.dtype) is not None:
        cells = [dataset.file[reference] for reference in dataset[()].T.reshape(-1)]
        if not cells or any(bytes(cell.attrs.get("MATLAB_class", b"")) != b"char" for cell in cells):
            return unusable
        words = [word for cell in cells for word in _characters(cell)]
        return RawArray.of(raw.name, path, text_array(words, raw.name, label, raw.notices))
    if kind == "char":
        return RawArray.of(raw.name, path, text_array(_characters(dataset), raw.name, label, raw.notices))
    if dataset.dtype.kind not in "biuf":
        return unusable
    values = np.asarray(dataset[()]).T
    return RawArray.of(raw.name, path, values.astype("?") if kind == "logical" else values)


def _characters(dataset: Any) -> list[str]:
    """The rows of a matrix of characters, which MATLAB pads with blanks."""
    return ["".join(map(chr, row)).rstrip() for row in np.atleast_2d(np.asarray(dataset[()]).T).tolist()]
