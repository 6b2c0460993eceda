"""The last linear layer of a model and its input, the penultimate features, read by hooks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from smart_core.data.logitset import Head
from smart_core.errors import CollectError
from smart_core.formatting import first_few


@dataclass
class Observer:
    """The inputs and outputs of linear layers, or of one named module, while the model runs."""

    model: nn.Module
    wanted: str
    """`auto`, or the name of a module."""
    layer: str | None = None
    """The module whose input the features are, once it is known."""
    seen: list[tuple[str, Tensor, Tensor]] = field(default_factory=list)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record while the block runs the model."""
        modules = dict(self.model.named_modules())
        if self.wanted != "auto" and self.wanted not in modules:
            names = first_few((name for name, each in modules.items() if isinstance(each, nn.Linear)), 6)
            raise CollectError(f"The model has no module '{self.wanted}'", f"its linear layers are {names}")
        only = self.layer or (None if self.wanted == "auto" else self.wanted)
        watched = [only] if only else [name for name, each in modules.items() if isinstance(each, nn.Linear)]
        hooks = [modules[name].register_forward_hook(partial(self._record, name)) for name in watched]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _record(self, name: str, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if inputs and isinstance(inputs[0], Tensor) and isinstance(output, Tensor):
            self.seen.append((name, inputs[0].detach(), output.detach()))

    def features(self, logits: Tensor) -> Tensor | None:
        """Return the input (n, D) of the layer that gave the logits (n, K), float32; None if no layer did.

        A language model may apply its layer to every token and keep one row per sample: the input at that token counts.
        """
        found = None
        for name, given, output in self.seen:
            if self.wanted != "auto":
                found = name, given.flatten(1)
            elif given.ndim == 2 and _same(output, logits):
                found = name, given
            elif given.ndim == 3 and output.shape[::2] == logits.shape:
                chosen = (output.float() == logits.unsqueeze(1)).all(dim=2)
                if bool(chosen.any(dim=1).all()):
                    rows = torch.arange(len(given), device=given.device)
                    found = name, given[rows, chosen.int().argmax(dim=1)]
        self.seen.clear()
        if found is None:
            return None
        self.layer = found[0]
        return found[1].float()


def _same(output: Tensor, logits: Tensor) -> bool:
    if output.ndim == 2 and output.shape[1] == 1 and logits.shape[1] == 2:  # the logit of class 1 of 2
        return torch.equal(output.float()[:, 0], logits[:, 1])
    return output.shape == logits.shape and torch.equal(output.float(), logits)


def head_of(layer: nn.Module, classes: int) -> Head | None:
    """Return weight (K, D) and bias (K,) of a linear layer with one output per class (or one for two classes)."""
    if not isinstance(layer, nn.Linear):
        return None
    weight = layer.weight.detach().float().cpu()
    bias = weight.new_zeros(len(weight)) if layer.bias is None else layer.bias.detach().float().cpu()
    if (len(weight), classes) == (1, 2):
        weight, bias = (torch.cat([torch.zeros_like(each), each]) for each in (weight, bias))
    return Head(weight.numpy(), bias.numpy()) if len(weight) == classes else None
