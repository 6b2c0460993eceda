"""Compiled inner loops for the CPU, each with an equivalent PyTorch or NumPy fallback.

The loops are written in numba and work on float32 arrays. Without numba, on a GPU and for other types, the callers
compute the same with PyTorch or NumPy. Every loop is serial and releases the interpreter's lock: threads share the work
in fixed pieces (`threads.py`), so the bits of a result do not depend on their number. numba keeps compiled code on disk
for the next process.

This module is light. The modules with loops import numba; callers import them if `usable` says so.
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
    """Whether numba is installed and works; it does not if it has no folder for what it compiles."""
    if find_spec("numba") is None:
        return False
    try:
        import_module("smart_core.kernels.partition")
    except (ImportError, RuntimeError):
        return False
    return True


def usable(*tensors: Tensor) -> bool:
    """Whether the compiled loops can work on these tensors: float32 or whole numbers, all on the CPU."""
    return (
        enabled
        and installed()
        and all(
            tensor.device.type == "cpu" and (tensor.dtype == torch.float32 or not tensor.is_floating_point())
            for tensor in tensors
        )
    )
