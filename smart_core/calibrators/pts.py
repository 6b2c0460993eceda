"""Parameterised temperature scaling (Tomani et al., 2022): a network from the sorted logits to a temperature."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from smart_core.calibrators import mlp
from smart_core.calibrators.base import FitData, LineStyle, Shape
from smart_core.calibrators.rows import map_rows
from smart_core.calibrators.rules import DEVIATIONS, WEIGHTS, between
from smart_core.calibrators.settings import setting
from smart_core.calibrators.smart import train_map
from smart_core.calibrators.temperature import TemperatureCalibrator
from smart_core.calibrators.ts import best_beta
from smart_core.device import precise
from smart_core.fitting.indicators import Standardizer
from smart_core.fitting.objectives import OBJECTIVES, Objective
from smart_core.fitting.profile import Profile
from smart_core.fitting.reduced import TOP
from smart_core.fitting.training import Schedule
from smart_core.progress import Run
from smart_core.types import Logits

CLIP = 100.0
"""Logits are clipped to plus and minus this before the network reads them."""
T_LEAST, T_GREATEST = 1e-12, 1e12
"""Temperatures are kept between these."""
HIDDEN, LAYERS = 5, 2
"""Width and number of the hidden layers."""
ORIGINAL = {"lr": 5e-5, "batch_size": 1000, "steps": 100_000}
"""The original's training: 100,000 Adam steps."""
FAST = {"lr": 1e-2, "epochs": 250}
"""Full batches on standardised inputs from a flat start, with a learning rate that falls to zero."""


PULL = 0.05
"""Weight of the squared distance of log T from that of TS, in units of the squared error summed over classes."""


@dataclass(kw_only=True, eq=False)
class PTS(TemperatureCalibrator):
    """`q = softmax(z / T)`, `T = |mlp(ten largest logits, sorted)|`, two hidden layers of 5, trained on the MSE.

    `mode="original"` trains as published, 100,000 small steps on the raw logits. Departure: the default starts at the
    temperature of TS and takes 250 steps over all samples with standardised inputs. These steps reach a lower training
    error than the original's and would overfit, so they also minimise `0.05 mean(log(T / T_TS)^2) / K`; the test NLL is
    then at most 1% above that of the original on the real logits tried.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits").validation
    >>> sc.PTS().fit(data.logits, data.labels).parameters  # (10 + 1) 5 + (5 + 1) 5 + (5 + 1)
    91
    """

    id = "pts"
    label = "PTS"
    summary = "A small network reads the ten largest logits and gives the sample's temperature."
    position = 6
    family = "One temperature per sample or class"
    style = LineStyle("#0A7FA8", "dot", "pentagon")
    reducible = True
    rules = (("theta_", WEIGHTS), ("mean_", between(-CLIP, CLIP)), ("std_", DEVIATIONS))
    stochastic = True

    mode: str = setting(
        "fast",
        "fast: full batches, standardised inputs; original: 100,000 small steps as published.",
        choices=("fast", "original"),
    )
    top: int = setting(10, "How many of the largest logits are read.", low=2, high=1000)
    objective: str = setting("mse", "What training minimises.", choices=tuple(OBJECTIVES))
    sigma: float = setting(0.05, "Bandwidth of the soft bins (SoftECE objectives).", low=1e-3, high=2.0)
    delta: float = setting(1e-3, "Charbonnier smoothing.", low=1e-8, high=10.0, logarithmic=True)
    bins: int = setting(15, "Number of soft bins.", low=1, high=1000)

    def _fit(self, data: FitData, run: Run) -> None:
        if data.reduced is not None and self.top > TOP:
            raise self._error(f"top={self.top} needs logits; reduced rows have the {TOP} largest")
        values = map_rows(self._inputs, data.logits, run, "reading the logits")
        fast = self.mode == "fast"
        scale = Standardizer.of(values) if fast else Standardizer.identity(values)
        self.mean_, self.std_ = scale.mean, scale.std
        x = scale(values)
        profile = data.profile(run.part(0.0, 0.05))
        sizes = self._sizes()
        loss = OBJECTIVES[self.objective].bind(sigma=self.sigma, delta=self.delta, bins=self.bins)
        generator = torch.Generator().manual_seed(self.seed)

        theta = mlp.random_parameters(sizes, generator)
        if fast:
            theta[-1] = common = 1.0 / best_beta(data, run.part(0.05, 0.05))
            loss = pulled(loss, common)
        self.theta_ = train_map(
            lambda theta, x: absolute_temperature(theta, sizes, x),
            theta.to(data.logits.device),
            x,
            profile,
            loss,
            self._schedule(len(data)),
            generator,
            run.part(0.05, 1.0),
        )

    def _schedule(self, samples: int) -> Schedule:
        if self.mode == "fast":
            return Schedule(FAST["lr"], int(FAST["epochs"]), min_improvement=0.0, cosine=True)
        batch = int(ORIGINAL["batch_size"])
        epochs = math.ceil(ORIGINAL["steps"] / math.ceil(samples / batch))
        return Schedule(ORIGINAL["lr"], epochs, batch_size=batch, min_improvement=0.0)

    def _inputs(self, logits: Logits) -> Tensor:
        """The largest logits in descending order, clipped to +-100."""
        return logits.topk(min(self.top, logits.shape[1]), dim=1).values.clamp(-CLIP, CLIP)

    def _sizes(self) -> tuple[int, ...]:
        inputs = min(self.top, self.classes_) if hasattr(self, "classes_") else self.top
        return mlp.layer_sizes(inputs, HIDDEN, LAYERS)

    def learned(self) -> dict[str, Shape]:
        inputs = self._sizes()[0]
        return {"theta_": (mlp.parameter_count(self._sizes()),), "mean_": (inputs,), "std_": (inputs,)}

    def _temperatures(self, logits: Logits) -> Tensor:
        x = (self._inputs(logits) - self.mean_) / self.std_
        return absolute_temperature(precise(self.theta_), self._sizes(), precise(x)).to(logits.dtype)

    def numpy_code(self) -> str:
        sizes = self._sizes()
        return f"""
            x = (np.clip(largest(z, {sizes[0]}), -{CLIP}, {CLIP}) - MEAN) / STD
            return np.clip(np.abs(network(x, layers(THETA, {sizes}))), {T_LEAST}, {T_GREATEST}).astype(np.float32)
        """

    @property
    def parameters(self) -> int:
        return mlp.parameter_count(self._sizes())


def pulled(loss: Objective, common: float) -> Objective:
    """The objective with a pull of each temperature towards the common one; few samples hold an outlying one."""

    def objective(profile: Profile, beta: Tensor) -> Tensor:
        off = torch.log((beta * common).clamp(1e-3, 1e3))
        return loss(profile, beta) + PULL / profile.classes * (off * off).mean(dim=-1)

    return objective


def absolute_temperature(theta: Tensor, sizes: tuple[int, ...], x: Tensor) -> Tensor:
    """`T = |mlp(x)|`, kept in [1e-12, 1e12]."""
    return mlp.forward(theta, sizes, x).abs().clamp(T_LEAST, T_GREATEST)
