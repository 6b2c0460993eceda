"""A device that exists only in tests, as strict as a real accelerator.

Its tensors hold ordinary CPU tensors inside, so fits run with real numbers, but to PyTorch they live on the device
`pretend`: mixing them with CPU tensors (other than zero-dimensional ones), reading them as NumPy arrays, drawing on
them with a CPU generator, or making float64 values on them (Apple's MPS has none) raises, as it would on real
hardware.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

try:
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend as _make_known
except ImportError:  # older releases know no device that is written in Python
    _make_known = None

NAME = "pretend"


class WrongDevice(RuntimeError):
    """Two devices met in one operation."""


class PretendTensor(Tensor):
    """A CPU tensor that claims to live on `pretend`."""

    inner: Tensor

    @staticmethod
    def __new__(cls: type, inner: Tensor) -> PretendTensor:
        if inner.dtype == torch.float64:
            raise TypeError("float64 on a device without it")
        wrapped = Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=torch.device(NAME, 0),
        )
        wrapped.inner = inner
        return wrapped

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _dispatch(func, args, kwargs or {})


class _Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _dispatch(func, args, kwargs or {})


class _Constructors(TorchFunctionMode):
    """`torch.tensor(..., device=)` builds its storage below the dispatcher: here it is built, then moved."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor) and _on_pretend(kwargs.get("device")):
            device = kwargs.pop("device")
            return func(*args, **kwargs).to(device)
        return func(*args, **kwargs)


def _on_pretend(device: Any) -> bool:
    return device is not None and torch.device(device).type == NAME


def _dispatch(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, Tensor)]
    inside = [tensor for tensor in tensors if isinstance(tensor, PretendTensor)]
    target = kwargs.get("device")
    copying = func in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
    if inside and not copying:
        strangers = [t for t in tensors if not isinstance(t, PretendTensor) and t.dim() > 0]
        if strangers:
            raise WrongDevice(f"{func}: tensors on {NAME} and on {strangers[0].device} in one operation")
    if kwargs.get("generator") is not None and (inside or _on_pretend(target)):
        raise WrongDevice(f"{func}: a CPU generator cannot draw on {NAME}")
    wrap = _on_pretend(target) if target is not None else bool(inside)
    if func is torch.ops.aten.copy_.default:
        wrap = isinstance(args[0], PretendTensor)
    plain_args, plain_kwargs = tree_map_only(PretendTensor, lambda tensor: tensor.inner, (args, kwargs))
    if _on_pretend(target):
        plain_kwargs["device"] = torch.device("cpu")
    result = func(*plain_args, **plain_kwargs)
    if func._schema.name.endswith("_") or func is torch.ops.aten.copy_.default:
        return args[0]  # in place: the caller's own tensor
    if "out" in kwargs:
        return kwargs["out"]
    if not wrap:
        return result
    return tree_map_only(Tensor, PretendTensor, result)


@cache
def register() -> None:
    """Make the device known; must come before the process's first backward pass, which fixes the devices."""
    if _make_known is not None:
        _make_known(NAME)


@contextmanager
def pretend_device() -> Iterator[str]:
    """Inside, `device="pretend"` names the strict device."""
    if _make_known is None:
        pytest.skip(f"PyTorch {torch.__version__} cannot register a device written in Python")
    register()
    with _Mode(), _Constructors():
        yield NAME
