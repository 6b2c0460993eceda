"""Group calibration (Yang et al., 2023): temperatures of learned groups, averaged over random partitions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from smart_core.calibrators.base import Calibrator, FitData
from smart_core.calibrators.features import features_or_logits
from smart_core.calibrators.learned import Shape
from smart_core.calibrators.nll_curves import NllCurves
from smart_core.calibrators.settings import setting
from smart_core.calibrators.temperature import lift_top
from smart_core.calibrators.ts import T_HIGH, T_LOW
from smart_core.device import precise
from smart_core.indicators import Standardizer
from smart_core.profile import build_profile, gaps
from smart_core.progress import Run
from smart_core.training import Schedule, train
from smart_core.types import Logits, Probabilities

START_SPREAD = 0.1
"""Standard deviation of the groups' starting log temperatures about the common optimum."""

AT_THE_END = 1e-3
"""Relative distance to an end of the temperature range within which T counts as held there."""


@dataclass(kw_only=True, eq=False)
class GC(Calibrator):
    """The mean over P partitions of `softmax(z / T_{p, group_p(x)})`, `group_p(x) = argmax_g (W_p x)_g`.

    Each partition's linear map starts at random and is trained, with a temperature a group, on the NLL of the
    soft mixture `sum_g softmax(W_p x)_g softmax(z / T_g)` plus `reg mean(W_p^2)`; x are standardised
    features. Then the groups are made hard and each gets the temperature of its own least NLL.
    """

    id = "gc"
    label = "GC"
    summary = "Temperatures of learned feature groups, averaged over random partitions."
    position = 9
    uses = ("features",)
    stochastic = True

    partitions: int = setting(20, "Random partitions that are averaged.", low=1, high=1000)
    groups: int = setting(2, "Groups of a partition.", low=1, high=100)
    reg: float = setting(0.1, "Weight of mean(W^2).", low=0.0, high=1e4)
    steps: int = setting(100, "Training steps of a partition.", low=1, high=100_000)
    lr: float = setting(0.05, "Adam's learning rate.", low=1e-6, high=10.0, logarithmic=True)

    def _fit(self, data: FitData, run: Run) -> None:
        values, self.features_used_ = features_or_logits(data, self.label, self.notices_)
        scale = Standardizer.of(values, run)
        self.mean_, self.std_ = scale.mean, scale.std
        x = scale(values)
        profile = build_profile(data.logits, data.labels, run.part(0.0, 0.05))
        curves = NllCurves.of(profile, run.part(0.05, 0.15))
        self.weight_ = self._train_maps(x, curves, run.part(0.15, 1.0))
        members = _members(group_of(x, self.weight_), self.groups)
        self.temperatures_ = curves.best_temperatures(members).reshape(self.partitions, self.groups)
        self._say_what_is_odd(members)
        if self.parameters > len(data):
            self.notices_.append(f"{self.parameters:,} parameters from {len(data):,} samples; expect overfitting.")

    def _train_maps(self, x: Tensor, curves: NllCurves, run: Run) -> Tensor:
        """The trained weights of all partitions, (P, G, D); partitions do not see each other."""
        rows = self.partitions * self.groups
        shape = (self.partitions, self.groups, x.shape[1])
        generator = torch.Generator().manual_seed(self.seed)
        weight = torch.randn(rows * x.shape[1], generator=generator) / x.shape[1] ** 0.5
        common = curves.best_temperatures(torch.ones(1, len(x), device=x.device)).cpu()
        start = START_SPREAD * torch.randn(rows, generator=generator) - torch.log(common)

        def loss(theta: Tensor, index: Tensor | None) -> Tensor:
            w = theta[:-rows].reshape(shape)
            return mixture_nll(w, theta[-rows:], x, curves).sum() + self.reg * (w * w).mean(dim=(1, 2)).sum()

        theta = train(
            torch.cat([weight, start]).to(x.device),
            loss,
            len(x),
            Schedule(self.lr, self.steps),
            generator,
            run,
        )
        return theta[:-rows].reshape(shape).contiguous()

    def learned(self) -> dict[str, Shape]:
        width = "d" if self.features_used_ else self.classes_
        return {
            "weight_": (self.partitions, self.groups, width),
            "temperatures_": (self.partitions, self.groups),
            "mean_": (width,),
            "std_": (width,),
        }

    def _feature_width(self) -> int:
        return self.mean_.numel()

    def _probabilities(self, logits: Logits, features: Tensor | None) -> Probabilities:
        values = logits if features is None else features
        group = group_of(precise((values - self.mean_) / self.std_), precise(self.weight_))
        temperature = self.temperatures_.gather(1, group)
        d = gaps(logits)
        total = torch.zeros_like(d)
        for t in temperature:
            total += torch.softmax(d / t.unsqueeze(1), dim=1)
        return lift_top(Probabilities(total / self.partitions), logits)

    def _say_what_is_odd(self, members: Tensor) -> None:
        empty = int((members.sum(dim=1) == 0).sum())
        if empty:
            self.notices_.append(f"{empty} of {len(members)} groups have no validation sample; their T is 1.")
        t = self.temperatures_
        ends = int(((t < T_LOW * (1.0 + AT_THE_END)) | (t > T_HIGH * (1.0 - AT_THE_END))).sum())
        if ends:
            self.notices_.append(
                f"The best temperature of {ends} of {len(members)} groups lies outside {T_LOW} to {T_HIGH}; "
                "it was held at the end."
            )

    @property
    def parameters(self) -> int:
        return self.weight_.numel() + self.temperatures_.numel()


def group_of(x: Tensor, weight: Tensor) -> Tensor:
    """(P, N) index of each sample's group in each partition, `argmax_g (W_p x)_g`."""
    return torch.matmul(weight, x.T).argmax(dim=1)


def mixture_nll(weight: Tensor, log_beta: Tensor, x: Tensor, curves: NllCurves) -> Tensor:
    """(P,) means of `-log sum_g softmax(W x)_g q_g(y)`, with `q_g(y)` the label's probability at T_g."""
    partitions, groups, width = weight.shape
    scores = (weight.reshape(-1, width) @ x.T).reshape(partitions, groups, -1)
    nll = curves.at(log_beta).reshape(partitions, groups, -1)
    return -torch.logsumexp(torch.log_softmax(scores, dim=1) - nll, dim=1).mean(dim=1)


def _members(group: Tensor, groups: int) -> Tensor:
    """(P G, N) ones where the sample belongs to the group."""
    choices = torch.arange(groups, device=group.device).reshape(1, -1, 1)
    return (group.unsqueeze(1) == choices).to(torch.float32).flatten(0, 1)
