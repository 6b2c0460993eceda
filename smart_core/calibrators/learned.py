"""What a calibrator's file may hold: the learned tensors by name, each with its shape."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from smart_core.calibrators.rows import all_finite

Shape = tuple[int | str, ...]
"""Lengths; a letter is a length from 0 up that the data decided, the same wherever it stands, and `n+1` is one more."""


def wrong_state(state: Mapping[str, Tensor], shapes: Mapping[str, Shape], infinite: tuple[str, ...] = ()) -> str | None:
    """What is wrong with learned tensors, or None: names, kind, shapes, numbers; `infinite` names may hold infinity."""
    missing = [name for name in shapes if name not in state]
    if missing:
        return f"it lacks {', '.join(missing)}"
    unknown = [name for name in state if name not in shapes]
    if unknown:
        return f"it holds {', '.join(map(repr, unknown))}, which this method does not have"
    lengths: dict[str, int] = {}
    for name, shape in shapes.items():
        tensor = state[name]
        if tensor.dtype != torch.float32:
            return f"{name} is {str(tensor.dtype).removeprefix('torch.')}, not float32"
        if not _fits(tuple(tensor.shape), shape, lengths):
            return f"{name} has shape {tuple(tensor.shape)}, not {_written(shape, lengths)}"
        if bool(tensor.isnan().any()) or (name not in infinite and not all_finite(tensor.reshape(-1, 1))):
            return f"{name} holds NaN or infinity"
    return None


def _fits(found: tuple[int, ...], shape: Shape, lengths: dict[str, int]) -> bool:
    """Whether a shape is the declared one; letters met for the first time take their length from it."""
    return len(found) == len(shape) and all(
        length == _length(wanted, length, lengths) for length, wanted in zip(found, shape, strict=True)
    )


def _length(wanted: int | str, found: int, lengths: dict[str, int]) -> int:
    if isinstance(wanted, int):
        return wanted
    letter, _, more = wanted.partition("+")
    return max(0, lengths.setdefault(letter, found - int(more or 0))) + int(more or 0)


def _written(shape: Shape, lengths: Mapping[str, int]) -> str:
    known = [str(lengths.get(str(length), length)) for length in shape]
    return f"({known[0]},)" if len(known) == 1 else f"({', '.join(known)})"
