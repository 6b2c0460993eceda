"""Losses a classifier is trained with, as the studies of training-time calibration compare them.

Each takes logits (N, K) and labels (N,) and gives the mean over the batch; p is the softmax, y the one-hot label.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

SMOOTHING = 0.05
KERNEL_WIDTH = 0.4
MMCE_WEIGHT = 2.0


def nll(logits: Tensor, labels: Tensor) -> Tensor:
    """-log p_y."""
    return nn.functional.cross_entropy(logits, labels)


def brier(logits: Tensor, labels: Tensor) -> Tensor:
    """sum_k (p_k - y_k)^2."""
    target = nn.functional.one_hot(labels, logits.shape[1])
    return (logits.softmax(1) - target).square().sum(1).mean()


def label_smoothing(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy against (1 - 0.05) y + 0.05 / K."""
    return nn.functional.cross_entropy(logits, labels, label_smoothing=SMOOTHING)


def focal(logits: Tensor, labels: Tensor) -> Tensor:
    """-(1 - p_y)^3 log p_y (Lin et al. 2017; FL-3)."""
    return _focal(logits, labels, lambda share: torch.full_like(share, 3.0))


def focal_by_sample(logits: Tensor, labels: Tensor) -> Tensor:
    """The same with exponent 5 where p_y < 0.2 and 3 elsewhere (Mukhoti et al. 2020; FLSD-53)."""
    return _focal(logits, labels, lambda share: torch.where(share < 0.2, 5.0, 3.0))


def mmce(logits: Tensor, labels: Tensor) -> Tensor:
    """NLL + 2 sqrt(sum_ij (a_i - c_i)(a_j - c_j) exp(-|c_i - c_j| / 0.4)) / N (Kumar et al. 2018).

    c is the confidence, a whether the prediction is right; the gradient goes through c, in the kernel too.
    """
    confidence, prediction = logits.softmax(1).max(1)
    error = (prediction == labels).to(confidence.dtype) - confidence
    kernel = torch.exp(-(confidence[:, None] - confidence[None, :]).abs() / KERNEL_WIDTH)
    # the kernel is positive definite: below 0 is rounding, and the root's slope at 0 is infinite
    square = (error @ kernel @ error / len(labels) ** 2).clamp_min(1e-12)
    return nll(logits, labels) + MMCE_WEIGHT * square.sqrt()


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "NLL": nll,
    "Brier": brier,
    "MMCE": mmce,
    "LS-0.05": label_smoothing,
    "FLSD-53": focal_by_sample,
    "FL-3": focal,
}
"""By the names used in the tables of that literature."""


def _focal(logits: Tensor, labels: Tensor, exponent: Callable[[Tensor], Tensor]) -> Tensor:
    log_share = logits.log_softmax(1).gather(1, labels[:, None]).squeeze(1)
    share = log_share.exp()
    # the exponent is chosen, not differentiated
    return (-((1 - share).clamp_min(0) ** exponent(share.detach())) * log_share).mean()
