"""SMART (Guo et al., 2026): a temperature for each sample, learned as a function of its logit margin."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor
from torch.nn.functional import softplus

from smart_core import kernels
from smart_core.calibrators import mlp
from smart_core.calibrators.base import FitData, LineStyle, Shape
from smart_core.calibrators.rows import map_rows
from smart_core.calibrators.rules import DEVIATIONS, Rule
from smart_core.calibrators.settings import setting
from smart_core.calibrators.temperature import TemperatureCalibrator
from smart_core.calibrators.ts import best_beta
from smart_core.errors import CalibrationError
from smart_core.fitting.indicators import INDICATORS, LARGEST, Standardizer
from smart_core.fitting.objectives import OBJECTIVES, Objective
from smart_core.fitting.profile import BETA_LOW, DirectProfile, Profile, TableProfile
from smart_core.fitting.training import MIN_IMPROVEMENT, Gradient, Schedule, train
from smart_core.metrics.binned import ece
from smart_core.progress import Run
from smart_core.types import Logits

if TYPE_CHECKING:
    from smart_core.kernels.smart_objective import Samples

EPSILON = 0.1
"""The least temperature: `T = softplus(.) + 0.1`."""

FLAT = 0.01
"""The temperature start scales the random output weights by this: a nearly flat map."""

LARGEST_CHECKED, LARGEST_ACTIVATION = 1e4, 1e37
"""The map in a file must give activations below the second for every indicator up to the first, so that float32 is
finite."""

LARGEST_COMPILED = 1e6
"""PyTorch computes the map of larger inputs, which only unstandardised ones reach: the compiled exponentials do not
cover temperatures near the end of float32."""

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "standardize": False, "init": "random", "batch_size": 1024, "patience": None, "layers": 1, "tail": 1.0,
    },
    "release": {
        "standardize": True, "init": "random", "batch_size": None, "patience": 200, "layers": 2, "tail": 1.0,
    },
}  # fmt: skip
"""The paper's text, and the authors' code."""

TOP_LOGIT_INDICATORS = ("margin", "max_logit")
"""Indicators that the largest logits give."""

LIMIT = Rule(lambda values: bool((values >= 0.0).all()), "be at least 0")


@dataclass(frozen=True, eq=False)
class Reading:
    """What SMART's training reads from a validation set."""

    scale: Standardizer
    limit: Tensor
    """(1,) the margin above which the temperature is constant; infinite for none."""
    x: Tensor
    """(N, width) the standardised indicator."""
    profile: Profile
    temperature: float | None
    """Temperature of a flat start; None starts at random."""

    @cached_property
    def samples(self) -> Samples | None:
        """The same in the layout of the compiled loops; None where they cannot be used."""
        if self.x.shape[1] != 1 or not kernels.usable(self.x, self.profile.correct):
            return None
        if float(self.x.abs().max()) > LARGEST_COMPILED:
            return None
        return compiled_samples(self.x.squeeze(1), self.profile)


@dataclass(kw_only=True, eq=False)
class SMART(TemperatureCalibrator):
    """`q = softmax(z / T(m))`, `T(m) = softplus(W2 relu(W1 x + b1) + b2) + 0.1`, x the standardised margin m.

    The margin m is the largest minus the second largest logit; the 49 parameters minimise the Charbonnier-SoftECE of
    `fitting.objectives` by Adam. Departures from the paper: batches are full and patience ends the training, the
    epoch of least loss is restored, the margin is standardised, the map starts flat at the temperature of TS, and it is
    constant above the 97th percentile of the validation margins, where samples are few (with `tail=1` it is not).
    `SMART(preset="paper")` is the paper's text: the raw margin, a random start, mini-batches of 1024, no patience.
    `SMART(preset="release")` is the authors' code: the standardised margin, two hidden layers, a random start, full
    batches, patience 200. Settings that are given go before the preset's.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits")
    >>> smart = sc.SMART(seed=0).fit(data.validation.logits, data.validation.labels)
    >>> smart.parameters
    49
    >>> smart.temperatures(data.test.logits).shape == data.test.labels.shape
    True
    """

    id = "smart"
    label = "SMART"
    summary = "A 49-parameter map from the logit margin to the sample's own temperature."
    position = 16
    family = "One temperature per sample or class"
    style = LineStyle("#D9480F", "solid", "diamond", 3.5)
    reducible = True
    rules = (("std_", DEVIATIONS), ("limit_", LIMIT))
    infinite = ("limit_",)
    stochastic = True
    presets = PRESETS

    sigma: float = setting(0.05, "Bandwidth of the soft bins.", low=1e-3, high=2.0, logarithmic=True)
    delta: float = setting(1e-3, "Charbonnier smoothing.", low=1e-8, high=10.0, logarithmic=True)
    bins: int = setting(15, "Number of soft bins.", low=1, high=1000)
    lr: float = setting(5e-3, "Adam's learning rate.", low=1e-6, high=1.0, logarithmic=True)
    epochs: int = setting(2000, "Passes over the validation set, at most.", low=1, high=1_000_000)
    patience: int | None = setting(
        200,
        "Early-stopping patience in epochs; none disables early stopping, as in the paper.",
        low=1,
        optional=True,
        kind=int,
    )
    batch_size: int | None = setting(
        None, "Batch size; none: full batch. The paper: 1024.", low=1, optional=True, kind=int
    )
    hidden: int = setting(16, "Width of the hidden layers.", low=1, high=1024)
    layers: int = setting(1, "Hidden layers. The authors' code: 2.", low=1, high=8)
    init: str = setting(
        "temperature",
        "Initialisation: constant at the temperature-scaling optimum, or random weights, as in the authors' code.",
        choices=("temperature", "random"),
    )
    indicator: str = setting("margin", "What the map reads.", choices=tuple(INDICATORS))
    objective: str = setting("charbonnier", "What training minimises.", choices=tuple(OBJECTIVES))
    standardize: bool = setting(
        True,
        "Standardise the indicator on validation, as the authors' code does and the paper's text does not.",
        choices=(True, False),
    )
    tail: float = setting(
        0.97,
        "Quantile of the validation margins above which the temperature is constant. The paper: 1.",
        low=0.5,
        high=1.0,
    )

    def __init__(self, *, preset: str | None = None, **settings: Any) -> None:
        chosen = {**self.preset(preset), **settings}
        for field in fields(self):
            setattr(self, field.name, chosen.pop(field.name, field.default))
        if chosen:
            raise TypeError(f"SMART has no setting {', '.join(map(repr, chosen))}")
        self.__post_init__()

    def _fit(self, data: FitData, run: Run) -> None:
        self._train(self.read(data, run.part(0.0, 0.1)), run.part(0.1, 1.0))

    def read(self, data: FitData, run: Run) -> Reading:
        """Everything that training reads from the data; it depends on the indicator and the start only."""
        if data.reduced is not None and self.indicator not in TOP_LOGIT_INDICATORS:
            raise self._error(f"the indicator {self.indicator} needs logits; the rows are reduced")
        values = map_rows(INDICATORS[self.indicator], data.logits, run, "reading the indicator")
        scale = Standardizer.of(values, run) if self.standardize else Standardizer.identity(values)
        limit = self._limit(values)
        profile = data.profile(run)
        temperature = None
        if self.init == "temperature":
            temperature = max(1.0 / best_beta(data, run.part(1.0, 1.0)), EPSILON + 1e-3)
        return Reading(scale, limit, scale(values.clamp(max=limit)), profile, temperature)

    def _limit(self, values: Tensor) -> Tensor:
        """The least margin that a share `tail` of the samples does not exceed; infinite for none."""
        if self.indicator != "margin" or self.tail == 1.0:
            return torch.full_like(values[0, :1], math.inf)
        return values[:, 0].kthvalue(math.ceil(self.tail * len(values))).values.reshape(1)

    def fit_reading(self, reading: Reading, run: Run) -> Self:
        """Learn from what `read` returned: the same as `fit` on the same data, for studies of many fits."""
        self.check_settings()
        return self._learn(lambda run: self._train(reading, run), reading.profile.classes, len(reading.x), run)

    def _train(self, reading: Reading, run: Run) -> None:
        self.mean_, self.std_, self.limit_ = reading.scale.mean, reading.scale.std, reading.limit
        x, profile = reading.x, reading.profile
        generator = torch.Generator().manual_seed(self.seed)
        sizes = self._sizes()
        spec = OBJECTIVES[self.objective]
        loss = spec.bind(sigma=self.sigma, delta=self.delta, bins=self.bins)
        progress = MIN_IMPROVEMENT * spec.scale(profile.classes)

        self.theta_ = train_map(
            lambda theta, x: temperature_map(theta, sizes, x),
            self._start(reading.temperature, generator).to(x.device),
            x,
            profile,
            loss,
            Schedule(self.lr, self.epochs, self.patience, self.batch_size, progress),
            generator,
            run,
            self._compiled(reading),
        )

    def _compiled(self, reading: Reading) -> Gradient | None:
        """The compiled objective and gradient, if it covers these settings."""
        if self.objective != "charbonnier" or self.layers != 1 or reading.samples is None:
            return None
        from smart_core.kernels.smart_objective import SmartGradient

        return SmartGradient(reading.samples, self.sigma, self.delta, self.bins)

    def _start(self, temperature: float | None, generator: torch.Generator) -> Tensor:
        """Random hidden layers; with the temperature start, an output that is flat at T_TS."""
        theta = mlp.random_parameters(self._sizes(), generator)
        if temperature is not None:
            theta[-self.hidden - 1 : -1] *= FLAT
            theta[-1] = inverse_softplus(temperature - EPSILON)
        return theta

    @property
    def leaves_out_classes(self) -> bool:
        return INDICATORS[self.indicator].scalar  # otherwise the map reads every logit

    def learned(self) -> dict[str, Shape]:
        width = INDICATORS[self.indicator].width(self.classes_)
        return {"theta_": (self._count(width),), "mean_": (width,), "std_": (width,), "limit_": (1,)}

    @classmethod
    def upgraded(cls, settings: dict[str, Any], tensors: dict[str, Tensor]) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Maps of older files are level nowhere."""
        if "tail" in settings or "limit_" in tensors:
            return settings, tensors
        return {**settings, "tail": 1.0}, {**tensors, "limit_": torch.tensor([math.inf])}

    def check_learned(self) -> None:
        super().check_learned()
        inputs = (LARGEST_CHECKED + self.mean_.abs()) / self.std_
        if not mlp.largest_activation(self.theta_, self._sizes(), inputs) < LARGEST_ACTIVATION:
            raise CalibrationError(f"{self.label}: theta_ must give temperatures that are finite numbers.")

    def _temperatures(self, logits: Logits) -> Tensor:
        return self.map(INDICATORS[self.indicator](logits))

    def map(self, values: Tensor) -> Tensor:
        """The temperatures of samples whose indicator is `values`, (N, width)."""
        return temperature_map(self.theta_, self._sizes(), (values.clamp(max=self.limit_) - self.mean_) / self.std_)

    def numpy_code(self) -> str:
        return f"""
            x = (np.minimum(np.clip({self.indicator}(z), -{LARGEST}, {LARGEST}), LIMIT) - MEAN) / STD
            raw = network(x, layers(THETA, {self._sizes()}))
            return (np.logaddexp(0.0, raw) + {EPSILON}).astype(np.float32)
        """

    def _margin_temperatures(self, margins: Tensor) -> Tensor | None:
        return self.map(margins.clamp(max=LARGEST).unsqueeze(1)) if self.indicator == "margin" else None

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


def train_map(
    temperature: Callable[[Tensor, Tensor], Tensor],
    theta: Tensor,
    x: Tensor,
    profile: Profile,
    loss: Objective,
    schedule: Schedule,
    generator: torch.Generator,
    run: Run,
    gradient: Gradient | None = None,
) -> Tensor:
    """The trained parameters of a map from inputs x (N, width) to temperatures (N,).

    A trace records the validation ECE (15 bins) and NLL of each epoch's map besides the objective.
    """

    def objective(theta: Tensor, index: Tensor | None) -> Tensor:
        if index is None:
            return loss(profile, 1.0 / temperature(theta, x))
        return loss(profile.take(index), 1.0 / temperature(theta, x[index]))

    def observe(theta: Tensor) -> dict[str, float]:
        with torch.no_grad():
            beta = 1.0 / temperature(theta, x)
            return {"ece": ece(profile.confidence(beta), profile.correct), "nll": float(profile.nll(beta).mean())}

    return train(theta, objective, len(x), schedule, generator, run, observe, gradient)


def compiled_samples(x: Tensor, profile: Profile) -> Samples:
    """The standardised indicator (N,) and a profile in the layout of the compiled loops."""
    from smart_core.kernels.smart_objective import Samples

    if isinstance(profile, TableProfile):
        per_log = profile.per_octave / math.log(2.0)
        return Samples.from_table(x, profile.correct, profile.classes, profile.own_table(), math.log(BETA_LOW), per_log)
    assert isinstance(profile, DirectProfile)
    return Samples.from_gaps(x, profile.correct, profile.d)
