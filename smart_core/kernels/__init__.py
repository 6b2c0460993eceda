"""Compiled inner loops for the CPU, each with a twin in plain PyTorch.

The loops are written in numba and work on float32 arrays. Where numba is not installed, on a GPU and for other types,
the callers take their PyTorch way, which computes the same thing. Every loop is serial and lets go of the interpreter's
lock: work is shared between threads in fixed pieces (`threads.py`), so that the bits of a result do not depend on how
many there are. Compiled code is kept on disk by numba and read back by the next process.

This module is light; numba is imported by the modules beside it, which callers import when `usable` says so.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec

import torch
from torch import Tensor

enabled = True
"""Whether compiled loops may be used at all; False sends every computation through PyTorch."""


@cache
def installed() -> bool:
    """Whether numba is there and works here; where it has no place to keep what it compiles, it does not."""
    if find_spec("numba") is None:
        return False
    try:
        import_module("smart_core.kernels.partition")
    except (ImportError, RuntimeError):
        return False
    return True


def usable(*tensors: Tensor) -> bool:
    """Whether the compiled loops can work on these: floats in float32, all on the CPU, numba there."""
    return (
        enabled
        and installed()
        and all(
            tensor.device.type == "cpu" and (tensor.dtype == torch.float32 or not tensor.is_floating_point())
            for tensor in tensors
        )
    )
