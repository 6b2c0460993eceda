"""Where tensors live, and how arrays come and go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smart_core.errors import CalibrationError

CHUNK_ELEMENTS = 1 << 20
"""Elements of a row chunk: 4 MB in float32, small enough to stay in a processor's cache."""

WORTH_SHARING = 1 << 20
"""Elements an operation must touch before a second thread pays."""

FLOAT64_DEVICES = ("cpu", "cuda")
"""Devices known to have float64."""


def resolve_device(name: str) -> torch.device:
    """`auto` takes CUDA, then MPS, then the CPU; anything else is PyTorch's own name of a device."""
    if name != "auto":
        try:
            device = torch.device(name)
        except RuntimeError as error:
            raise CalibrationError(f"There is no device called '{name}'; use auto, cuda, mps or cpu.") from error
        available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
        if not available.get(device.type, True):
            raise CalibrationError(f"This machine has no {device.type} device that PyTorch can use; use auto or cpu.")
        return device
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


@contextmanager
def threads_for(elements: int) -> Iterator[None]:
    """One thread inside for small arrays, where waking others costs more than the work they would share."""
    before = torch.get_num_threads()
    if elements >= WORTH_SHARING or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def to_tensor(array: Any, device: torch.device, dtype: torch.dtype = torch.float32) -> Tensor:
    """A detached tensor of the given kind; NumPy memory is shared where it can be."""
    if isinstance(array, Tensor):
        return array.detach().to(device=device, dtype=dtype)
    values = np.ascontiguousarray(array)
    if not values.flags.writeable:  # a read-only view is fine here: nothing writes to its inputs
        values = values.view()
        values.flags.writeable = False
        tensor = _from_read_only(values)
    else:
        tensor = torch.from_numpy(values)
    return tensor.to(device=device, dtype=dtype)


def _from_read_only(values: np.ndarray) -> Tensor:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(values)


def widen(values: Tensor) -> Tensor:
    """The values in float64, on their device where it has that type (Apple's MPS has not), else on the CPU."""
    return values.double() if values.device.type in FLOAT64_DEVICES else values.cpu().double()


def like_input(result: Tensor, example: Any) -> Any:
    """The result in the kind of the example: torch on its device, or a NumPy array."""
    if isinstance(example, Tensor):
        return result.to(example.device)
    return result.cpu().numpy()


def whole_numbers(array: Any) -> bool:
    """Whether an array holds whole numbers only, whatever its type."""
    if isinstance(array, Tensor):
        return not array.is_floating_point() or bool((array == array.round()).all())
    values = np.asarray(array)
    return values.dtype.kind in "iub" or (values.dtype.kind == "f" and bool((values == np.round(values)).all()))


def rows_per_chunk(columns: int) -> int:
    return max(1, CHUNK_ELEMENTS // max(1, columns))
