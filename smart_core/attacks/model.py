"""A user's own model, by name: its factory is imported and called, its weights are read as tensors only.

Importing a module runs its code. Weights run none: safetensors, or a state dict through PyTorch's restricted reader.
That reader has known holes before PyTorch 2.10 (CVE-2025-32434, CVE-2026-24747): with an older PyTorch take weights
from others as safetensors only.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from smart_core.attacks.constant_search import AttackError
from smart_core.formatting import printable

NESTED_UNDER = ("state_dict", "model_state_dict", "model")
"""Names under which training scripts keep the state dict inside a checkpoint."""

PARALLEL = "module."
"""What `DataParallel` writes before every name."""


def build_model(name: str) -> nn.Module:
    """The module that `package.module:factory` makes; packages are looked for in the working folder too."""
    module_name, separator, factory_name = name.partition(":")
    if not (module_name and separator and factory_name):
        raise AttackError(f"--model {printable(name)} is not of the form package.module:factory.")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        factory = getattr(importlib.import_module(module_name), factory_name, None)
    except (Exception, SystemExit) as error:  # a script that parses its arguments when imported exits
        raise AttackError(f"{printable(module_name)} cannot be imported ({_said(error)}).") from error
    if not callable(factory):
        raise AttackError(f"{printable(module_name)} has no function or class called {printable(factory_name)}.")
    try:
        model = factory()
    except (Exception, SystemExit) as error:
        raise AttackError(f"{printable(name)} failed when called without arguments ({_said(error)}).") from error
    if not isinstance(model, nn.Module):
        raise AttackError(f"{printable(name)} gives a {type(model).__name__}; it must give a torch.nn.Module.")
    return model


def load_weights(model: nn.Module, path: str | os.PathLike[str]) -> None:
    """Fill the model with a safetensors file or a saved state dict; every tensor must have its place."""
    file = Path(path)
    state = _read_state(file)
    if state and all(key.startswith(PARALLEL) for key in state):
        state = {key.removeprefix(PARALLEL): tensor for key, tensor in state.items()}
    own = model.state_dict()
    for what, keys in (
        ("lacks", [key for key in own if key not in state]),
        ("has, where the model has nothing,", [key for key in state if key not in own]),
        ("has in another shape", [key for key in own if key in state and own[key].shape != state[key].shape]),
    ):
        if keys:
            more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
            raise AttackError(f"{file.name} {what} {printable(keys[0])}{more}; the weights are not of this model.")
    model.load_state_dict(state)


def _read_state(file: Path) -> dict[str, Tensor]:
    if not file.is_file():
        raise AttackError(f"{printable(str(file), 200)}: there is no such file.")
    found: Any
    try:
        if file.suffix.lower() == ".safetensors":
            from safetensors.torch import load_file

            found = load_file(file)
        else:
            found = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        raise AttackError(
            f"{file.name} is neither safetensors nor a state dict of tensors only; "
            "save one with torch.save(model.state_dict(), ...)."
        ) from error
    for key in NESTED_UNDER:
        if isinstance(found, Mapping) and isinstance(found.get(key), Mapping):
            found = found[key]
    if not isinstance(found, Mapping) or not all(isinstance(tensor, Tensor) for tensor in found.values()):
        raise AttackError(f"{file.name} holds no state dict; save one with torch.save(model.state_dict(), ...).")
    return {str(key): tensor for key, tensor in found.items()}


def _said(error: BaseException) -> str:
    """An error of foreign code, short and on one line."""
    return printable(f"{type(error).__name__}: {error}", 160).rstrip(".")
