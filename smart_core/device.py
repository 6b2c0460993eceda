"""Devices, threads, and conversion between arrays and tensors."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smart_core.errors import CalibrationError

CHUNK_ELEMENTS = 1 << 20
"""Elements of a row chunk: 4 MB in float32, small enough to stay in a processor's cache."""

M_MMAP_THRESHOLD = -3
"""Of glibc's `mallopt`: bytes from which an array has memory of its own, which goes back when it is freed."""

WORTH_SHARING = 1 << 20
"""Elements from which a second thread makes an operation faster."""

TORCH_READS = frozenset(np.dtype(kind) for kind in "?bBhilqefd")
"""Types of arrays, in the machine's own byte order, that PyTorch shares without a copy."""

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
    """Compute with one thread on small arrays, where waking others costs more than they save.

    On large ones, with PyTorch's usual number of threads. The last bits of some sums depend on the number of threads,
    so it is set explicitly: it depends neither on what this thread used before nor on what else runs.
    """
    if elements < WORTH_SHARING:
        with one_thread():
            yield
        return
    number = 1 if _HERE.single else _usual_threads()
    if torch.get_num_threads() != number:
        torch.set_num_threads(number)
    yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread, whatever the size: on busy cores threads spend their time waiting for each other."""
    if _HERE.single:
        yield
        return
    number = _usual_threads(enter=1)
    _HERE.single = True
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(number)
        _HERE.single = False
        _usual_threads(enter=-1)


class _Here(threading.local):
    """State of this thread: whether it is inside `one_thread`."""

    single = False


class _Process:
    """State of the process: how many threads are inside `one_thread`, and PyTorch's number of threads otherwise."""

    lock = threading.Lock()
    inside = 0
    usual = 1


_HERE = _Here()


def _usual_threads(enter: int = 0) -> int:
    """PyTorch's number of threads when no thread is inside `one_thread`; `enter` counts those that come and go.

    PyTorch keeps a number for each thread, and gives a new thread the number that was set last. A thread that starts
    while another one is inside `one_thread` would therefore be left with 1. So the number is that of a thread which is
    started for the question while no other is inside.
    """
    with _Process.lock:
        if _Process.inside == 0:
            found: list[int] = []
            asked = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
            asked.start()
            asked.join()
            _Process.usual = found[0]
        _Process.inside += enter
        return _Process.usual


def as_array(values: Any, what: str) -> Any:
    """A tensor and lazy rows unchanged, anything else as a NumPy array of numbers; `what` names it in errors."""
    if isinstance(values, Tensor):
        if values.is_complex():
            raise CalibrationError(f"The {what} must be real numbers, not {values.dtype}.")
        return values
    if hasattr(values, "blocks"):  # rows of shards are read by slices
        return values
    if np.ma.is_masked(values):  # NumPy would return the values under the mask
        raise CalibrationError(f"The {what} have masked entries; fill them, or drop their rows.")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise CalibrationError(f"The {what} are not an array: their rows differ in length.") from error
    if array.dtype.kind not in "fiub":
        raise CalibrationError(f"The {what} must be numbers, not {array.dtype}.")
    return array


def to_tensor(array: Any, device: torch.device, dtype: torch.dtype = torch.float32) -> Tensor:
    """A detached tensor of the given type; NumPy memory is shared if possible.

    Read-only arrays, of which PyTorch warns, and byte orders and long doubles that it does not know are copied.
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
    """The values in float64, on their device if it has that type (Apple's MPS does not), else on the CPU."""
    return values.double() if values.device.type in FLOAT64_DEVICES else values.cpu().double()


def precise(values: Tensor) -> Tensor:
    """The values in float64 if their device has it (Apple's MPS does not), and always on their device.

    For sums whose rounding in float32 would show in the probabilities: summed in another order, as in an exported form,
    they would differ by more than 1e-6.
    """
    return values.double() if values.device.type in FLOAT64_DEVICES else values


def like_input(result: Tensor, example: Any) -> Any:
    """The result like the example: a tensor on its device, or a NumPy array."""
    if isinstance(example, Tensor):
        return result.to(example.device)
    return result.cpu().numpy()


def whole_numbers(array: Any) -> bool:
    """Whether an array holds only whole numbers, of any type, and none is masked."""
    if isinstance(array, Tensor):
        return not array.is_complex() and (not array.is_floating_point() or bool((array == array.round()).all()))
    if np.ma.is_masked(array):
        return False
    try:
        values = np.asarray(array)
    except ValueError:  # rows of different lengths
        return False
    return values.dtype.kind in "iub" or (values.dtype.kind == "f" and bool((values == np.round(values)).all()))


@cache
def return_chunks() -> None:
    """Have glibc give the arrays of a chunk back to the system as soon as they are freed, for the rest of the process.

    By default it keeps them, in pieces that the next chunk of another size does not fit into: gigabytes, where rows
    have 100,000 classes.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if set_option is not None:
        set_option(M_MMAP_THRESHOLD, CHUNK_ELEMENTS)


def rows_per_chunk(columns: int) -> int:
    """How many rows of this width make a chunk of `CHUNK_ELEMENTS`."""
    return max(1, CHUNK_ELEMENTS // max(1, columns))
