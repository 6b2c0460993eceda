"""Batches as loaders give them, and outputs as models return them: inputs, labels and logits of one batch."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from smart_core.errors import CollectError
from smart_core.formatting import first_few, shape_text

LABEL_KEYS = ("labels", "label", "targets", "target", "y")
LOGIT_KEYS = ("logits", "out", "output", "outputs", "scores")


def inputs_and_labels(batch: Any) -> tuple[Any, Tensor]:
    """Return the inputs (a tensor, a mapping, or a sequence of tensors) and the labels (n,) of a batch.

    A batch is a pair (inputs, labels, ...), or a mapping with the labels under `labels`, `label`, `target`, ...
    """
    if isinstance(batch, Mapping):
        key = next((key for key in LABEL_KEYS if key in batch), None)
        if key is None:
            keys = first_few(map(str, batch), 6)
            raise CollectError(f"A batch has no labels among {keys}", f"give them as one of {', '.join(LABEL_KEYS)}")
        return {name: value for name, value in batch.items() if name != key}, _labels(batch[key])
    if isinstance(batch, Sequence) and len(batch) >= 2:
        return batch[0], _labels(batch[1])
    kind = type(batch).__name__
    raise CollectError(f"A batch is a {kind}", "give pairs (inputs, labels), or mappings with the labels in them")


def _labels(values: Any) -> Tensor:
    """Return whole numbers (n,); one-hot and soft labels become the largest entry's index."""
    labels = torch.as_tensor(values).detach().cpu()
    if labels.ndim == 2 and labels.shape[1] > 1:
        return labels.argmax(dim=1)
    labels = labels.reshape(-1)
    if labels.is_floating_point() and not bool((labels == labels.round()).all()):
        raise CollectError("The labels of a batch are not whole numbers", "give the class index of each sample")
    return labels.long()


def run_model(model: nn.Module, inputs: Any, device: torch.device) -> Any:
    """Return what the model gives for the inputs of a batch."""
    if isinstance(inputs, Tensor):
        return model(inputs.to(device))
    if isinstance(inputs, Mapping):
        tensors = {name: value.to(device) for name, value in inputs.items() if isinstance(value, Tensor)}
        known = _accepted(model, tensors)
        if known:
            return model(**known)
        if len(tensors) == 1:
            return model(*tensors.values())
        names = first_few(tensors, 6)
        raise CollectError(
            f"{type(model).__name__}.forward takes none of the inputs {names}", "rename them to match it"
        )
    if isinstance(inputs, Sequence) and all(isinstance(each, Tensor) for each in inputs):
        return model(*(each.to(device) for each in inputs))
    raise CollectError(f"The inputs of a batch are a {type(inputs).__name__}", "give a tensor, or a mapping of tensors")


def _accepted(model: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the inputs whose names `forward` takes: a data set often carries more, such as the row number."""
    parameters = inspect.signature(model.forward).parameters.values()
    if any(each.kind is each.VAR_KEYWORD for each in parameters) and not any(
        each.name in tensors for each in parameters
    ):
        return dict(tensors)
    names = {each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
    return {name: value for name, value in tensors.items() if name in names}


def logits_of(output: Any) -> Tensor:
    """Return the logits (n, K) in what a model returns: a tensor, an object or mapping with `logits`, or a tuple."""
    found = getattr(output, "logits", output)
    if isinstance(found, Mapping):
        found = next((found[key] for key in LOGIT_KEYS if key in found), None)
    if isinstance(found, tuple | list):
        found = next((each for each in found if isinstance(each, Tensor) and each.ndim == 2), None)
    if not isinstance(found, Tensor):
        raise CollectError(f"The model returns a {type(output).__name__}", "return logits, or an object with .logits")
    if found.ndim == 1 or (found.ndim == 2 and found.shape[1] == 1):  # the logit of class 1 of 2
        score = found.reshape(-1, 1).float()
        return torch.cat([torch.zeros_like(score), score], dim=1)
    if found.ndim != 2:
        shape = shape_text(tuple(found.shape))
        raise CollectError(f"The model returns logits of shape {shape}", "return one row of logits per sample")
    return found.float()
