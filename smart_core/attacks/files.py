"""What an attack reads and writes: a file of images, a file of distances, and distances put into a bundle."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from smart_core.atomic import replacing
from smart_core.data.document import Document
from smart_core.data.logitset import Array, LogitSet, Part, read_only
from smart_core.errors import LogitFileError
from smart_core.formatting import first_few, plural, shape_text

WHITE = 255
"""The value of a white pixel in images of bytes."""


@dataclass(frozen=True, eq=False)
class ImageFile:
    """Images to attack."""

    images: NDArray[np.float32]
    """(N, C, H, W) in [0, 1]."""
    rows: NDArray[np.int64] | None
    """(N,) the row of a bundle's part that each image belongs to; None where they are all its rows in order."""
    notices: tuple[str, ...]


def load_images(path: str | os.PathLike[str]) -> ImageFile:
    """The array `images`, bytes divided by 255, and the array `rows` where there is one."""
    (raw,) = Document.open(path).files
    arrays = {item.key: item for item in raw.arrays}

    def error(problem: str, fix: str) -> LogitFileError:
        return LogitFileError(problem, fix, file=raw.name)

    if "images" not in arrays:
        raise error(f"has no array 'images' (it holds {first_few(arrays) or 'nothing'})", "save them under that name")
    values, notices = arrays["images"].values, []
    if values.ndim != 4 or values.size == 0:
        raise error(f"the images are {shape_text(values.shape)}", "save them as images x channels x height x width")
    if values.dtype == np.uint8:
        values = values.astype(np.float32) / WHITE
        notices.append(f"{raw.name}: images of bytes were divided by {WHITE}.")
    if values.dtype.kind != "f":
        raise error(f"the images are of type {values.dtype}", "save floats in [0, 1], or uint8")
    least, most = float(values.min()), float(values.max())
    if not (least >= 0.0 and most <= 1.0):  # also where one of them is NaN
        problem = f"the images go from {least:g} to {most:g}"
        raise error(problem, "save them in [0, 1] and standardise inside the model")
    rows = arrays["rows"].values.reshape(-1) if "rows" in arrays else None
    if rows is not None and (rows.dtype.kind not in "iu" or len(rows) != len(values)):
        raise error("'rows' does not hold one integer per image", "save one row number per image")
    return ImageFile(values.astype(np.float32), None if rows is None else rows.astype(np.int64), tuple(notices))


def save_distances(path: str | os.PathLike[str], l2: NDArray[np.float64], rows: NDArray[np.int64] | None) -> None:
    """An npz with `cw_l2` (N,), NaN where the attack failed, and the `rows` that came with the images."""
    with replacing(path) as handle:
        if rows is None:
            np.savez_compressed(handle, cw_l2=l2)
        else:
            np.savez_compressed(handle, cw_l2=l2, rows=rows)


def part_of(data: LogitSet, part: str, count: int, rows: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """The rows of the part ("val" or "test") that the images belong to, checked before a long attack."""
    if any(notice.code == "split" for notice in data.notices):
        fix = "save it with val_logits, val_labels, test_logits and test_labels"
        raise LogitFileError("the bundle has no split, so its rows have no fixed place", fix, file=data.name)
    size = len(_side(data, part))
    if rows is None:
        if count != size:
            problem = f"the {part} part has {plural(size, 'row')} and there are {plural(count, 'image')}"
            fix = "save the images' row numbers beside them as 'rows'"
            raise LogitFileError(problem, fix, file=data.name)
        return np.arange(size)
    if rows.min() < 0 or rows.max() >= size or len(np.unique(rows)) < len(rows):
        raise LogitFileError(f"{data.name}: 'rows' must be different numbers from 0 to {size - 1}.")
    return rows


def merged(
    data: LogitSet, part: str, rows: NDArray[np.int64], l2: NDArray[np.float64], predictions: Array
) -> tuple[LogitSet, str | None]:
    """The set with the distances in `cw_l2` of one part, other rows as before (NaN where there was nothing); and a
    sentence where the attacked model's predictions are not those of the set's logits.
    """
    side = _side(data, part)
    distances = np.full(len(side), np.nan) if side.cw_l2 is None else side.cw_l2.copy()
    distances[rows] = l2
    changed = replace(side, cw_l2=read_only(distances))
    other = int((side.logits[rows].argmax(axis=1) != predictions).sum())
    warning = None
    if other:
        warning = (
            f"The model's predictions differ from the bundle's for {other:,} of {plural(len(rows), 'image')}: "
            "are these its images, in the same order, and the same model?"
        )
    result = data.with_parts(validation=changed) if part == "val" else data.with_parts(test=changed)
    return result, warning


def _side(data: LogitSet, part: str) -> Part:
    return data.validation if part == "val" else data.test
