"""The objectives of temperature methods: the paper's six, as functions of a profile and of beta.

Notation: confidence `p_i`, correctness `a_i`, soft bins with centres `c_b = (b + 1/2) / B`,

    w_ib = softmax_b(-(p_i - c_b)^2 / (2 sigma^2)),    S_b = sum_i w_ib,    R_b = sum_i w_ib (p_i - a_i).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from smart_core.fitting.profile import Profile

Objective = Callable[[Profile, Tensor], Tensor]
"""(profile, beta) -> the mean loss, a scalar; one value per fit if beta is stacked as (fits, N)."""

LABEL_SMOOTHING = 0.05


def nll(profile: Profile, beta: Tensor) -> Tensor:
    """Mean of `-log q_y`."""
    return profile.nll(beta).mean(dim=-1)


def label_smoothing(profile: Profile, beta: Tensor) -> Tensor:
    """Mean cross-entropy against labels smoothed by 0.05."""
    return profile.smoothed_nll(beta, LABEL_SMOOTHING).mean(dim=-1)


def brier(profile: Profile, beta: Tensor) -> Tensor:
    """Mean over samples of `sum_k (q_k - [k = y])^2`."""
    return profile.brier(beta).mean(dim=-1)


def mse(profile: Profile, beta: Tensor) -> Tensor:
    """The Brier score averaged over the K classes instead of summed."""
    return brier(profile, beta) / profile.classes


def soft_ece(profile: Profile, beta: Tensor, *, sigma: float, bins: int) -> Tensor:
    """`(1/N) sum_b |R_b|` (Karandikar et al., 2021)."""
    p = profile.confidence(beta)
    weights = soft_bin_weights(p, sigma, bins)
    residual = ((p - profile.correct).unsqueeze(-1) * weights).sum(dim=-2)
    return residual.abs().sum(dim=-1) / p.shape[-1]


def charbonnier_soft_ece(profile: Profile, beta: Tensor, *, sigma: float, delta: float, bins: int) -> Tensor:
    """`(1/N) sum_b [sqrt(R_b^2 + delta^2 S_b^2) - delta S_b]`, the paper's bin-mean objective."""
    p = profile.confidence(beta)
    weights = soft_bin_weights(p, sigma, bins)
    mass = weights.sum(dim=-2)
    gap = ((p - profile.correct).unsqueeze(-1) * weights).sum(dim=-2)
    root = (gap**2 + (delta * mass) ** 2).clamp(min=torch.finfo(p.dtype).tiny).sqrt()  # no slope at 0 is infinite
    return (root - delta * mass).sum(dim=-1) / p.shape[-1]


def soft_bin_weights(p: Tensor, sigma: float, bins: int) -> Tensor:
    """`w_ib`, shape (..., N, B); rows sum to one."""
    return torch.softmax(-((p.unsqueeze(-1) - bin_centres(bins, p)) ** 2) / (2.0 * sigma**2), dim=-1)


def bin_centres(bins: int, like: Tensor) -> Tensor:
    """`c_b = (b + 1/2) / B`."""
    return (torch.arange(bins, device=like.device, dtype=like.dtype) + 0.5) / bins


@dataclass(frozen=True)
class ObjectiveSpec:
    """An objective's function, its name in tables, and which of sigma, delta and bins it uses."""

    function: Callable[..., Tensor]
    label: str
    uses: tuple[str, ...] = ()
    per_class: bool = False
    """Whether the value is a mean over the K classes, so that it is of order 1/K."""

    def scale(self, classes: int) -> float:
        """The size of a relevant change, relative to an objective of order one."""
        return 1.0 / classes if self.per_class else 1.0

    def bind(self, **settings: float) -> Objective:
        """The objective with its own settings filled in; those it does not use are left out."""
        return partial(self.function, **{name: settings[name] for name in self.uses})


OBJECTIVES: dict[str, ObjectiveSpec] = {
    "nll": ObjectiveSpec(nll, "NLL"),
    "ls": ObjectiveSpec(label_smoothing, "LS"),
    "mse": ObjectiveSpec(mse, "MSE", per_class=True),
    "brier": ObjectiveSpec(brier, "Brier"),
    "softece": ObjectiveSpec(soft_ece, "SoftECE", ("sigma", "bins")),
    "charbonnier": ObjectiveSpec(charbonnier_soft_ece, "Charbonnier-SoftECE", ("sigma", "delta", "bins")),
}
