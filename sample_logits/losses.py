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
DUAL_EXPONENT = 5.0
MDCA_WEIGHT = 1.0


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


def dual_focal(logits: Tensor, labels: Tensor) -> Tensor:
    """-(1 - p_y + p_j)^5 log p_y, p_j the largest p below p_y, 0 where there is none (Tao et al. 2023; DFL)."""
    shares, log_share = logits.softmax(1), _log_share(logits, labels)
    share = shares.gather(1, labels[:, None])
    rival = torch.where(shares < share, shares, 0.0).amax(1)
    return (-((1 - share.squeeze(1) + rival).clamp_min(0) ** DUAL_EXPONENT) * log_share).mean()


def mdca(logits: Tensor, labels: Tensor) -> Tensor:
    """NLL + sum_k |mean_i p_ik - mean_i y_ik| / K, the means over the batch (Hebbalaguppe et al. 2022)."""
    target = nn.functional.one_hot(labels, logits.shape[1]).to(logits.dtype)
    gap = (logits.softmax(1).mean(0) - target.mean(0)).abs().mean()
    return nll(logits, labels) + MDCA_WEIGHT * gap


def uncertainty_weighted(logits: Tensor, labels: Tensor) -> Tensor:
    """-w log p_y with w = (sum_k (p_k - y_k)^2)^2, which scales the gradient and has none (Lin et al. 2025; UWG)."""
    target = nn.functional.one_hot(labels, logits.shape[1])
    weight = (logits.softmax(1) - target).square().sum(1).square().detach()
    return (-weight * _log_share(logits, labels)).mean()


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "NLL": nll,
    "Brier": brier,
    "MMCE": mmce,
    "LS-0.05": label_smoothing,
    "FLSD-53": focal_by_sample,
    "FL-3": focal,
    "DFL": dual_focal,
    "MDCA": mdca,
    "UWG": uncertainty_weighted,
}
"""By the names used in the tables of that literature."""


def _log_share(logits: Tensor, labels: Tensor) -> Tensor:
    """log p_y of each sample."""
    return logits.log_softmax(1).gather(1, labels[:, None]).squeeze(1)


def _focal(logits: Tensor, labels: Tensor, exponent: Callable[[Tensor], Tensor]) -> Tensor:
    log_share = _log_share(logits, labels)
    share = log_share.exp()
    # the exponent is chosen, not differentiated
    return (-((1 - share).clamp_min(0) ** exponent(share.detach())) * log_share).mean()
