"""SMART: a temperature of each sample's own, learned as a function of its logit margin."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

from smart_core.calibrators import mlp
from smart_core.calibrators.base import FitData, TemperatureCalibrator
from smart_core.calibrators.learned import Shape
from smart_core.calibrators.rows import map_rows
from smart_core.calibrators.settings import setting
from smart_core.calibrators.ts import minimise_nll
from smart_core.indicators import INDICATORS, Standardizer
from smart_core.metrics import ece
from smart_core.objectives import OBJECTIVES
from smart_core.profile import Profile, build_profile
from smart_core.run import Run
from smart_core.training import MIN_IMPROVEMENT, Schedule, train
from smart_core.types import Logits

EPSILON = 0.1
"""The least temperature: `T = softplus(.) + 0.1`."""

FLAT = 0.01
"""Output weights of the temperature start are this fraction of the random ones: a nearly flat map."""


@dataclass(kw_only=True, eq=False)
class SMART(TemperatureCalibrator):
    """`T(m) = softplus(W2 relu(W1 x + b1) + b2) + 0.1`, `x` the standardised margin, trained on Charbonnier-SoftECE."""

    id = "smart"
    label = "SMART"
    summary = "A 49-parameter map from the logit margin to the sample's own temperature."
    position = 16
    stochastic = True

    sigma: float = setting(0.05, "Bandwidth of the soft bins.", low=1e-3, high=2.0, logarithmic=True)
    delta: float = setting(1e-3, "Charbonnier smoothing.", low=1e-8, high=10.0, logarithmic=True)
    bins: int = setting(15, "Number of soft bins.", low=1, high=1000)
    lr: float = setting(5e-3, "Adam's learning rate.", low=1e-6, high=1.0, logarithmic=True)
    epochs: int = setting(2000, "Passes over the validation set, at most.", low=1, high=1_000_000)
    patience: int | None = setting(
        200, "Epochs without progress before stopping; none runs all.", low=1, optional=True, kind=int
    )
    batch_size: int | None = setting(None, "Samples a step; none takes them all.", low=1, optional=True, kind=int)
    hidden: int = setting(16, "Width of the hidden layers.", low=1, high=1024)
    layers: int = setting(1, "Hidden layers.", low=1, high=8)
    init: str = setting(
        "temperature",
        "Start: flat at the temperature-scaling optimum, or random weights.",
        choices=("temperature", "random"),
    )
    indicator: str = setting("margin", "What the map reads.", choices=tuple(INDICATORS))
    objective: str = setting("charbonnier", "What training minimises.", choices=tuple(OBJECTIVES))
    standardize: bool = setting(True, "Standardise the indicator on validation.", choices=(True, False))

    def _fit(self, data: FitData, run: Run) -> None:
        values = map_rows(INDICATORS[self.indicator], data.logits, run, "reading the indicator")
        scale = Standardizer.of(values, run) if self.standardize else Standardizer.identity(values)
        self.mean_, self.std_ = scale.mean, scale.std
        x = scale(values)
        profile = build_profile(data.logits, data.labels, run.part(0.0, 0.1))
        generator = torch.Generator().manual_seed(self.seed)
        sizes = mlp.layer_sizes(x.shape[1], self.hidden, self.layers)
        spec = OBJECTIVES[self.objective]
        loss = spec.bind(sigma=self.sigma, delta=self.delta, bins=self.bins)
        progress = MIN_IMPROVEMENT * spec.scale(data.classes)

        def objective(theta: Tensor, index: Tensor | None) -> Tensor:
            if index is None:
                return loss(profile, 1.0 / temperature_map(theta, sizes, x))
            return loss(profile.take(index), 1.0 / temperature_map(theta, sizes, x[index]))

        self.theta_ = train(
            self._start(data, sizes, generator, run.part(0.1, 0.1)),
            objective,
            len(data),
            Schedule(self.lr, self.epochs, self.patience, self.batch_size, progress),
            generator,
            run.part(0.1, 1.0),
            observe=validation_observer(profile, lambda theta: 1.0 / temperature_map(theta, sizes, x)),
        )

    def _start(self, data: FitData, sizes: tuple[int, ...], generator: torch.Generator, run: Run) -> Tensor:
        """Random hidden layers; with the temperature start, an output that is flat at T_TS."""
        theta = mlp.random_parameters(sizes, generator)
        if self.init == "temperature":
            temperature = max(1.0 / minimise_nll(data.logits, data.labels, run), EPSILON + 1e-3)
            theta[-sizes[-2] - 1 : -1] *= FLAT
            theta[-1] = inverse_softplus(temperature - EPSILON)
        return theta.to(data.logits.device)

    def learned(self) -> dict[str, Shape]:
        row = Logits(torch.empty(1, self.classes_, device="meta"))
        width = INDICATORS[self.indicator](row).shape[1]
        return {"theta_": (self._count(width),), "mean_": (width,), "std_": (width,)}

    def _temperatures(self, logits: Logits) -> Tensor:
        x = (INDICATORS[self.indicator](logits) - self.mean_) / self.std_
        return temperature_map(self.theta_, self._sizes(), x)

    def _sizes(self) -> tuple[int, ...]:
        return mlp.layer_sizes(self.mean_.shape[0], self.hidden, self.layers)

    @property
    def parameters(self) -> int:
        return self._count(self.mean_.shape[0] if hasattr(self, "mean_") else 1)

    def _count(self, inputs: int) -> int:
        return mlp.parameter_count(mlp.layer_sizes(inputs, self.hidden, self.layers))


def temperature_map(theta: Tensor, sizes: tuple[int, ...], x: Tensor) -> Tensor:
    """`T(x) = softplus(mlp(x)) + 0.1`."""
    return softplus(mlp.forward(theta, sizes, x)) + EPSILON


def inverse_softplus(value: float) -> float:
    """The v with `softplus(v) = value`: `value + log(1 - exp(-value))`."""
    return value + math.log(-math.expm1(-value))


def validation_observer(profile: Profile, beta_of: Callable[[Tensor], Tensor]) -> Callable[[Tensor], dict[str, float]]:
    """What a trace records beside the objective: validation ECE (15 bins) and NLL of the current map."""

    def observe(theta: Tensor) -> dict[str, float]:
        with torch.no_grad():
            beta = beta_of(theta)
            confidence = profile.confidence(beta)
            return {
                "ece": ece(confidence, profile.correct),
                "nll": float(profile.nll(beta).mean()),
            }

    return observe
