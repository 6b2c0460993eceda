"""Where tensors live, and how arrays come and go."""

from __future__ import annotations

import threading
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

TORCH_READS = frozenset(np.dtype(kind) for kind in "?bBhilqefd")
"""Kinds of arrays, in the machine's own byte order, that PyTorch takes over without a copy."""

FLOAT64_DEVICES = ("cpu", "cuda")
"""Devices known to have float64."""


def resolve_device(name: str) -> torch.device:
    """`auto` takes CUDA, then MPS, then the CPU; anything else is PyTorch's own name of a device."""
    if name != "auto":
        try:
            device = torch.device(name)
        except (RuntimeError, TypeError) as error:
            raise CalibrationError(f"There is no device called '{name}'; use auto, cuda, mps or cpu.") from error
        if not _answers(device):
            raise CalibrationError(f"This machine has no {device.type} device that PyTorch can use; use auto or cpu.")
        return device
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def _answers(device: torch.device) -> bool:
    """Whether tensors with values can be made there: PyTorch knows the names of devices that it was not built for."""
    if device.type == "cpu":
        return True
    if device.type == "meta":  # its tensors have shapes only
        return False
    try:
        torch.empty(1, device=device)
    except Exception:  # each backend has a way of its own to say that it is missing
        return False
    return True


@contextmanager
def threads_for(elements: int) -> Iterator[None]:
    """One thread inside for small arrays, where waking others costs more than the work they would share.

    For large ones, as many as the process has. Some sums depend in their last bits on how many threads share them, so
    the number is set, whatever this thread came with, and does not depend on what else runs.
    """
    if elements < WORTH_SHARING:
        with one_thread():
            yield
        return
    number = 1 if _HERE.alone else _usual()
    if torch.get_num_threads() != number:
        torch.set_num_threads(number)
    yield


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread inside, whatever the size: threads that wait for each other stand still where the cores are busy."""
    if _HERE.alone:
        yield
        return
    number = _usual(enter=1)
    _HERE.alone = True
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(number)
        _HERE.alone = False
        _usual(enter=-1)


class _Here(threading.local):
    """What is true of one thread."""

    alone = False
    """Whether it is inside `one_thread`."""


class _Everywhere:
    """What is true of the process."""

    lock = threading.Lock()
    alone = 0
    """Threads inside `one_thread`."""
    number = 1
    """PyTorch's threads outside of it, as they were when the first of these went in."""


_HERE = _Here()


def _usual(enter: int = 0) -> int:
    """As many threads as PyTorch has where nobody is inside `one_thread`; `enter` counts who goes in and out.

    PyTorch keeps the number for each thread, and hands the one that was set last to threads that use it for the first
    time: a thread that begins while another one is alone would be left with 1. Where nobody is alone, a thread that
    has just begun is therefore the one to ask.
    """
    with _Everywhere.lock:
        if _Everywhere.alone == 0:
            _Everywhere.number = _number_of_a_new_thread()
        _Everywhere.alone += enter
        return _Everywhere.number


def _number_of_a_new_thread() -> int:
    found: list[int] = []
    asked = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    asked.start()
    asked.join()
    return found[0]


def as_array(values: Any, what: str) -> Any:
    """A tensor as it is, anything else as a NumPy array of numbers; `what` names it where it is neither."""
    if isinstance(values, Tensor):
        if values.is_complex():
            raise CalibrationError(f"The {what} must be real numbers, not {values.dtype}.")
        return values
    if np.ma.is_masked(values):  # NumPy would hand over what is under the mask
        raise CalibrationError(f"The {what} have masked entries; fill them, or drop their rows.")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise CalibrationError(f"The {what} are no array: their rows differ in length.") from error
    if array.dtype.kind not in "fiub":
        raise CalibrationError(f"The {what} must be numbers, not {array.dtype}.")
    return array


def to_tensor(array: Any, device: torch.device, dtype: torch.dtype = torch.float32) -> Tensor:
    """A detached tensor of the given kind; NumPy memory is shared where it can be.

    PyTorch warns of memory that may not be written to, and does not know foreign byte orders or long doubles: such
    arrays are copied.
    """
    if isinstance(array, Tensor):
        return array.detach().to(device=device, dtype=dtype)
    values = np.ascontiguousarray(array)
    if values.dtype not in TORCH_READS:
        values = values.astype(np.int64 if values.dtype.kind in "iub" else np.float64)
    if not values.flags.writeable:
        values = values.copy()
    return torch.from_numpy(values).to(device=device, dtype=dtype)


def widen(values: Tensor) -> Tensor:
    """The values in float64, on their device where it has that type (Apple's MPS has not), else on the CPU."""
    return values.double() if values.device.type in FLOAT64_DEVICES else values.cpu().double()


def precise(values: Tensor) -> Tensor:
    """The values in float64 where their device has it (Apple's MPS has not), and always on their device.

    For sums at prediction whose rounding in float32 would show in the probabilities: added up in another order, as an
    exported form does, they would differ by more than 1e-6.
    """
    return values.double() if values.device.type in FLOAT64_DEVICES else values


def like_input(result: Tensor, example: Any) -> Any:
    """The result in the kind of the example: torch on its device, or a NumPy array."""
    if isinstance(example, Tensor):
        return result.to(example.device)
    return result.cpu().numpy()


def whole_numbers(array: Any) -> bool:
    """Whether an array holds whole numbers only, whatever its type, and none that is masked."""
    if isinstance(array, Tensor):
        return not array.is_complex() and (not array.is_floating_point() or bool((array == array.round()).all()))
    if np.ma.is_masked(array):
        return False
    try:
        values = np.asarray(array)
    except ValueError:  # rows of different lengths
        return False
    return values.dtype.kind in "iub" or (values.dtype.kind == "f" and bool((values == np.round(values)).all()))


def rows_per_chunk(columns: int) -> int:
    return max(1, CHUNK_ELEMENTS // max(1, columns))
