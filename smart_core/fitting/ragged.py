"""Rows that lack classes: a class that a row does not have is -inf in the logits, and has probability 0.

Infinity times zero is not a number, and compiled loops may assume that there is none. So before anything is computed,
-inf is replaced by `ABSENT`, the lowest finite number: it vanishes in every softmax and in every sum over classes that
is weighted by probabilities. What counts or averages classes asks `present`.
"""

from __future__ import annotations

import torch
from torch import Tensor

ABSENT = torch.finfo(torch.float32).min
"""Takes the place of -inf. Programs that mask classes write it too."""


def present(logits: Tensor) -> Tensor:
    """(N, K) whether the row has the class."""
    return logits > ABSENT


def filled(logits: Tensor) -> Tensor:
    """The logits with `ABSENT` for -inf."""
    return logits.clamp(min=ABSENT)


def class_counts(logits: Tensor) -> Tensor:
    """(N, 1) how many classes each row has."""
    return present(logits).sum(dim=1, keepdim=True).to(logits.dtype)


def mean_over_classes(values: Tensor, logits: Tensor) -> Tensor:
    """(N,) means of values (N, K) over the classes that each row of the logits has."""
    kept = torch.where(present(logits), values, torch.zeros_like(values))
    return kept.sum(dim=1) / class_counts(logits).squeeze(1).to(values.dtype)
