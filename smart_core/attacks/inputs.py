"""Input and output of the attack command: the user's model and weights, images, and distances.

The command collect takes its model and loaders from here too.

Importing the module of a model runs its code. Weights run none: like every file, they are parsed in the sandbox, and
PyTorch's own reader is not used.
"""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from smart_core.data.document import Document
from smart_core.data.logitset import Array, LogitSet, Part, read_only
from smart_core.data.saved import read_saved
from smart_core.data.saving import atomic_write
from smart_core.errors import AttackError, LogitFileError
from smart_core.formatting import first_few, plural, printable, shape_text
from smart_core.types import Vector

PARALLEL = "module."
"""The prefix that `DataParallel` gives every name."""

WHITE = 255
"""The value of a white pixel in a uint8 image."""


def build_model(name: str) -> nn.Module:
    """Return the module that `package.module:factory` makes; packages may also be in the working folder."""
    model = made_by(name, "--model")
    if not isinstance(model, nn.Module):
        raise AttackError(f"{printable(name)} gives a {type(model).__name__}; it must give a torch.nn.Module.")
    return model


def made_by(name: str, option: str) -> Any:
    """Return what `package.module:factory` makes when it is called without arguments."""
    module_name, separator, factory_name = name.partition(":")
    if not (module_name and separator and factory_name):
        raise AttackError(f"{option} {printable(name)} is not of the form package.module:factory.")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        factory = getattr(importlib.import_module(module_name), factory_name, None)
    except (Exception, SystemExit) as error:  # a script that parses its arguments on import exits
        raise AttackError(f"{printable(module_name)} cannot be imported ({_one_line(error)}).") from error
    if not callable(factory):
        raise AttackError(f"{printable(module_name)} has no function or class called {printable(factory_name)}.")
    try:
        return factory()
    except (Exception, SystemExit) as error:
        raise AttackError(f"{printable(name)} failed when called without arguments ({_one_line(error)}).") from error


def load_weights(model: nn.Module, path: str | os.PathLike[str]) -> None:
    """Load a safetensors file or a saved state dict into the model; every tensor must match."""
    file = Path(path)
    state = _read_state(file)
    if state and all(key.startswith(PARALLEL) for key in state):
        state = {key.removeprefix(PARALLEL): tensor for key, tensor in state.items()}
    own = model.state_dict()
    for what, keys in (
        ("has no tensor", [key for key in own if key not in state]),
        ("has a tensor that the model lacks,", [key for key in state if key not in own]),
        ("has another shape for", [key for key in own if key in state and own[key].shape != state[key].shape]),
    ):
        if keys:
            more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
            raise AttackError(f"{file.name} {what} {printable(keys[0])}{more}; the weights are of another model.")
    model.load_state_dict(state)


def _read_state(file: Path) -> dict[str, Tensor]:
    if not file.is_file():
        raise AttackError(f"{printable(str(file), 200)}: there is no such file.")
    _, found = read_saved("weights", file, "the weights", AttackError)
    state = {name: torch.tensor(array) for name, array in found["tensors"].items()}
    for name in found["bfloat16"]:
        state[name] = state[name].view(torch.bfloat16)
    return state


def _one_line(error: BaseException) -> str:
    """Return the message of an error of the user's code, short and on one line."""
    return printable(f"{type(error).__name__}: {error}", 160).rstrip(".")


@dataclass(frozen=True, eq=False)
class ImageFile:
    """Images to attack."""

    images: NDArray[np.float32]
    """(N, C, H, W) in [0, 1]."""
    rows: NDArray[np.int64] | None
    """(N,) the row of a bundle's part that each image belongs to; None if they are all its rows in order."""
    notices: tuple[str, ...]


def load_images(path: str | os.PathLike[str]) -> ImageFile:
    """Read the array `images`, with uint8 values divided by 255, and the array `rows` if there is one."""
    name, arrays = Path(path).name, Document.open(path).arrays()

    def error(problem: str, fix: str) -> LogitFileError:
        return LogitFileError(problem, fix, file=name)

    if "images" not in arrays:
        raise error(f"has no array 'images' (it holds {first_few(arrays) or 'nothing'})", "save them under that name")
    values, notices = arrays["images"], []
    if values.ndim != 4 or values.size == 0:
        raise error(f"the images are {shape_text(values.shape)}", "save them as images x channels x height x width")
    if values.dtype == np.uint8:
        values = values.astype(np.float32) / WHITE
        notices.append(f"{name}: uint8 images were divided by {WHITE}.")
    if values.dtype.kind != "f":
        raise error(f"the images are of type {values.dtype}", "save floats in [0, 1], or uint8")
    least, most = float(values.min()), float(values.max())
    if not (least >= 0.0 and most <= 1.0):  # false for NaN too
        problem = f"the images go from {least:g} to {most:g}"
        raise error(problem, "save them in [0, 1] and standardise inside the model")
    rows = arrays["rows"].reshape(-1) if "rows" in arrays else None
    if rows is not None and (rows.dtype.kind not in "iu" or len(rows) != len(values)):
        raise error("'rows' does not hold one integer per image", "save one row number per image")
    return ImageFile(values.astype(np.float32), None if rows is None else rows.astype(np.int64), tuple(notices))


def save_distances(path: str | os.PathLike[str], l2: Vector, rows: NDArray[np.int64] | None) -> None:
    """Write an npz with `cw_l2` (N,), NaN where the attack failed, and the `rows` of the images."""
    arrays: dict[str, Any] = {"cw_l2": l2} if rows is None else {"cw_l2": l2, "rows": rows}
    with atomic_write(path) as handle:
        np.savez_compressed(handle, **arrays)


def part_of(data: LogitSet, part: str, count: int, rows: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Return the rows of the part ("val" or "test") that the images belong to; raise before a long attack."""
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
    data: LogitSet, part: str, rows: NDArray[np.int64], l2: Vector, predictions: Array
) -> tuple[LogitSet, str | None]:
    """Return the set with the distances in `cw_l2` of one part, and a warning or None.

    Other rows keep their distance, or NaN. The warning says that the attacked model's predictions differ from those of
    the set's logits.
    """
    side = _side(data, part)
    distances = np.full(len(side), np.nan) if side.cw_l2 is None else side.cw_l2.copy()
    distances[rows] = l2
    changed = replace(side, cw_l2=read_only(distances))
    other = int((side.logits[rows].argmax(axis=1) != predictions).sum())
    warning = (
        f"The model's predictions differ from the bundle's for {other:,} of {plural(len(rows), 'image')}: "
        "are these its images, in the same order, and the same model?"
    )
    result = data.with_parts(validation=changed) if part == "val" else data.with_parts(test=changed)
    return result, warning if other else None


def _side(data: LogitSet, part: str) -> Part:
    return data.validation if part == "val" else data.test
