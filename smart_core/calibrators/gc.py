"""Group calibration (Yang et al., 2023): temperatures of learned groups, averaged over random partitions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from smart_core.calibrators.base import Calibrator, FitData, LineStyle, Shape
from smart_core.calibrators.rules import TEMPERATURES, WEIGHTS
from smart_core.calibrators.settings import setting
from smart_core.calibrators.temperature import lift_top
from smart_core.calibrators.ts import T_HIGH, T_LOW
from smart_core.device import precise
from smart_core.fitting.profile import Profile, build_profile, gaps
from smart_core.fitting.training import Schedule, train
from smart_core.progress import Run
from smart_core.types import Logits, Probabilities

LARGEST = 1e4
"""Larger features are clipped to this, so that every product stays finite."""

START_SPREAD = 0.1
"""Standard deviation of the groups' starting log temperatures about the common optimum."""

AT_THE_END = 1e-3
"""Relative distance to an end of the temperature range within which T counts as limited by it."""

INTERVALS = 64
"""Steps of 0.094 in log beta: an interpolated NLL is then accurate to about 1e-5."""

LOWEST = math.log(1.0 / T_HIGH)
STEP = (math.log(1.0 / T_LOW) - LOWEST) / INTERVALS


@dataclass(kw_only=True, eq=False)
class GC(Calibrator):
    """The mean over P partitions of `softmax(z / T_{p, group_p(x)})`, `group_p(x) = argmax_g (W_p x)_g`.

    Each partition's linear map starts at random and is trained, with one temperature per group, on the NLL of the soft
    mixture `sum_g softmax(W_p x)_g softmax(z / T_g)` plus `reg mean(W_p^2)`. Then the groups are made hard, and each
    gets the temperature of its own least NLL; an empty group gets 1. The features are read as they are, as in the
    authors' code; only their absolute values above 10,000 are clipped. Departure: the paper has features; without them
    this reads the logits.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits").validation
    >>> gc = sc.GC(partitions=2).fit(data.logits, data.labels, features=data.features)
    >>> tuple(gc.temperatures_.shape)
    (2, 2)
    """

    id = "gc"
    label = "GC"
    summary = "Temperatures of learned feature groups, averaged over random partitions."
    position = 9
    whole_rows = "without features it reads the logits"
    family = "With the network's features"
    style = LineStyle("#B84592", "dash", "star-triangle-up")
    rules = (("weight_", WEIGHTS), ("temperatures_", TEMPERATURES))
    uses = ("features",)
    stochastic = True

    partitions: int = setting(20, "Random partitions that are averaged.", low=1, high=1000)
    groups: int = setting(2, "Groups per partition.", low=1, high=100)
    reg: float = setting(0.1, "Weight of mean(W^2).", low=0.0, high=1e4)
    steps: int = setting(100, "Training steps per partition.", low=1, high=100_000)
    lr: float = setting(0.05, "Adam's learning rate.", low=1e-6, high=10.0, logarithmic=True)

    def _fit(self, data: FitData, run: Run) -> None:
        x = self._features_or_logits(data).clamp(-LARGEST, LARGEST)
        profile = build_profile(data.logits, data.labels, run.part(0.0, 0.05))
        curves = NllCurves.of(profile, run.part(0.05, 0.15))
        self.weight_ = self._train_maps(x, curves, run.part(0.15, 1.0))
        members = _members(group_of(x, self.weight_), self.groups)
        self.temperatures_ = curves.best_temperatures(members).reshape(self.partitions, self.groups)
        self._add_notices(members)
        if self.parameters > len(data):
            self.notices_.append(f"{self.parameters:,} parameters from {len(data):,} samples; expect overfitting.")

    def _train_maps(self, x: Tensor, curves: NllCurves, run: Run) -> Tensor:
        """The trained weights of all partitions, (P, G, D); each is trained independently of the others."""
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
            torch.cat([weight, start]).to(x.device), loss, len(x), Schedule(self.lr, self.steps), generator, run
        )
        return theta[:-rows].reshape(shape).contiguous()

    def learned(self) -> dict[str, Shape]:
        width = "d" if self.features_used_ else self.classes_
        return {"weight_": (self.partitions, self.groups, width), "temperatures_": (self.partitions, self.groups)}

    def _probabilities(self, logits: Logits, features: Tensor | None) -> Probabilities:
        values = logits if features is None else features
        group = group_of(precise(values.clamp(-LARGEST, LARGEST)), precise(self.weight_))
        temperature = self.temperatures_.gather(1, group)
        d = gaps(logits)
        total = torch.zeros_like(d)
        for t in temperature.unbind():
            total = total + torch.softmax(d / t.unsqueeze(1), dim=1)
        return lift_top(Probabilities(total / self.partitions), logits)

    def numpy_code(self) -> str:
        return f"""
            group = group_of(np.clip({"x" if self.features_used_ else "z"}, -{LARGEST}, {LARGEST}), WEIGHT)
            return mean_over_partitions(z, np.take_along_axis(TEMPERATURES, group, axis=1))
        """

    def _add_notices(self, members: Tensor) -> None:
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


@dataclass(frozen=True)
class NllCurves:
    """Every sample's NLL as a function of one shared temperature: values and slopes, (nodes, N).

    With `u = log beta`, `beta = 1/T`, the functions `NLL_i(u)` and `dNLL_i/du` are kept at evenly spaced nodes and read
    by cubic Hermite interpolation, at the same cost for any number of classes. The NLL of a group of samples is a sum
    of such functions, so the best temperature of every group comes from one matrix product.
    """

    value: Tensor
    slope: Tensor

    @classmethod
    def of(cls, profile: Profile, run: Run) -> NllCurves:
        """Tabulate a profile between the temperatures that TS considers."""
        values, slopes = [], []
        for node in range(INTERVALS + 1):
            run.tick(node / INTERVALS, "tabulating the NLL")
            u = torch.full_like(profile.correct, LOWEST + node * STEP).requires_grad_()
            with torch.enable_grad():
                nll = profile.nll(torch.exp(u))
                (slope,) = torch.autograd.grad(nll.sum(), u)
            values.append(nll.detach())
            slopes.append(slope)
        return cls(torch.stack(values), torch.stack(slopes))

    def at(self, u: Tensor) -> Tensor:
        """`NLL_i(u_f)`, (F, N), for shared log inverse temperatures (F,); differentiable in `u`."""
        position = ((u - LOWEST) / STEP).clamp(0.0, float(INTERVALS))
        node = position.detach().floor().clamp(max=INTERVALS - 1).long()
        t = (position - node).unsqueeze(1)
        low, high = self.value[node], self.value[node + 1]
        low_slope, high_slope = self.slope[node] * STEP, self.slope[node + 1] * STEP
        square, cube = t * t, t * t * t
        bend = 3.0 * square - 2.0 * cube
        return low + bend * (high - low) + (cube - 2.0 * square + t) * low_slope + (cube - square) * high_slope

    def best_temperatures(self, members: Tensor) -> Tensor:
        """The T of least NLL for each row of a (F, N) 0/1 membership matrix; 1 for a group without members.

        Group slopes grow with u. Their sign change lies between two nodes, where the cubic through the four
        nearest nodes is bisected. Without a sign change T stays at an end of the range.
        """
        slopes = (members.to(self.slope.dtype) @ self.slope.T).cpu().to(torch.float64)
        crossing = (slopes <= 0.0).sum(dim=1).clamp(1, INTERVALS) - 1
        first = (crossing - 1).clamp(0, INTERVALS - 3)
        near = slopes.gather(1, first.unsqueeze(1) + torch.arange(4, device="cpu"))
        low = (crossing - first).to(torch.float64)
        high = low + 1.0
        for _ in range(40):
            middle = 0.5 * (low + high)
            below = _cubic_through(near, middle) <= 0.0
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        temperature = torch.exp(-(LOWEST + (first + 0.5 * (low + high)) * STEP))
        empty = (members.sum(dim=1) == 0).cpu()
        temperature[empty] = 1.0
        return temperature.to(torch.float32).to(members.device)


def _cubic_through(values: Tensor, x: Tensor) -> Tensor:
    """Lagrange's cubic through (0, v_0), (1, v_1), (2, v_2), (3, v_3), at x; row by row."""
    a, b, c = x - 1.0, x - 2.0, x - 3.0
    v0, v1, v2, v3 = values.unbind(dim=1)
    return (-v0 * a * b * c + 3.0 * v1 * x * b * c - 3.0 * v2 * x * a * c + v3 * x * a * b) / 6.0
