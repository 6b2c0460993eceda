"""Structured scaling (Berta, Holzmueller, Jordan & Bach, 2026): a penalised linear map of tempered log-probabilities.

`q = softmax(V x + b)` with `x = log((1 - u) softmax(z / T) + u / K)`, T of temperature scaling and `u = 1 / (N + 1)`:
no x is below `-log(K (N + 1))`. V and b minimise

    mean NLL + (K / N) (lambda_intercept |b|^2 + lambda_diagonal |diag V - 1|^2)
             + (K (K - 1) / N) lambda_off_diagonal |off-diagonal V|^2

from `V = I, b = 0`, which is temperature scaling. The strengths grow with the number of values that they hold and fade
with the number of samples, so that 1, the default of each, needs no tuning.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from smart_core.calibrators.base import Calibrator, FitData, Shape
from smart_core.calibrators.linear import MOST_ENTRIES, Penalty, minimise, scores
from smart_core.calibrators.rows import map_rows
from smart_core.calibrators.rules import PROBABILITIES, TEMPERATURES, WEIGHTS
from smart_core.calibrators.settings import setting
from smart_core.calibrators.ts import minimise_nll
from smart_core.device import precise
from smart_core.fitting.profile import gaps
from smart_core.progress import Run
from smart_core.types import Logits, Probabilities

LEAST_GAIN = 1e-13
"""The fit ends when the expected gain of a step is less than this: the penalties make the minimum sharp."""


def strength(of: str) -> Any:
    """The setting of one penalty's strength."""
    return setting(1.0, f"Strength of the penalty on {of}.", low=1e-6, high=1e6, logarithmic=True)


@dataclass(kw_only=True, eq=False)
class StructuredScaling(Calibrator):
    """`q = softmax(V x + b)`, x the tempered log-probabilities."""

    whole_rows = "it has parameters for each class"

    family = "Linear maps of the logits"
    diagonal: ClassVar[bool] = False
    """Whether V is a diagonal matrix, kept as its K entries."""
    rules = (("temperature_", TEMPERATURES), ("uniform_", PROBABILITIES), ("weight_", WEIGHTS), ("bias_", WEIGHTS))
    keeps_top1 = False

    lambda_intercept: float = strength("the intercepts b")
    lambda_diagonal: float = strength("the diagonal of V, less 1")
    max_iterations: int = setting(200, "Most steps of the optimiser, L-BFGS.", low=1, high=10_000)

    @abstractmethod
    def _off_diagonal(self) -> float:
        """The strength of the penalty on V off its diagonal."""

    def _fit(self, data: FitData, run: Run) -> None:
        shape, device = self._shape(data.classes), data.logits.device
        if math.prod(shape) > MOST_ENTRIES:
            raise self._error(
                f"{data.classes:,} classes need a map of {math.prod(shape):,} numbers, more than can be fitted here; "
                "choose a method that does not grow with the square of the classes, such as SVS or SMART"
            )
        beta = minimise_nll(data.logits, data.labels, run)
        self.temperature_ = torch.tensor([1.0 / beta], dtype=torch.float32, device=device)
        self.uniform_ = torch.tensor([1.0 / (len(data) + 1)], dtype=torch.float32, device=device)
        x = map_rows(lambda rows: self._inputs(gaps(rows)), data.logits, run, "reading the logits")
        identity = torch.ones(shape, device=device) if self.diagonal else torch.eye(data.classes, device=device)
        penalty = self._penalty(len(data), data.classes)
        self.weight_, self.bias_ = minimise(x, data.labels, identity, penalty, self.max_iterations, run, LEAST_GAIN)

    def _penalty(self, samples: int, classes: int) -> Penalty:
        """The strengths of the sums of squares as strengths of their means."""
        each, pairs = classes**2 / samples, (classes * (classes - 1)) ** 2 / samples
        return Penalty(self._off_diagonal() * pairs, self.lambda_diagonal * each, self.lambda_intercept * each)

    def _inputs(self, d: Tensor) -> Tensor:
        """The rows x of gaps d, in their precision."""
        p = torch.softmax(d / self.temperature_, dim=1)
        return torch.log((1.0 - self.uniform_) * p + self.uniform_ / d.shape[1])

    def _shape(self, classes: int) -> tuple[int, ...]:
        return (classes,) if self.diagonal else (classes, classes)

    def learned(self) -> dict[str, Shape]:
        shape = self._shape(self.classes_)
        return {"temperature_": (1,), "uniform_": (1,), "weight_": shape, "bias_": (self.classes_,)}

    @property
    def parameters(self) -> int:
        """Everything but the share of the uniform distribution, which is not learned."""
        return max(0, super().parameters - 1)

    def _probabilities(self, logits: Logits, features: Tensor | None) -> Probabilities:
        q = torch.softmax(
            scores(self._inputs(precise(gaps(logits))), precise(self.weight_), precise(self.bias_)), dim=1
        )
        return Probabilities(q.to(logits.dtype))

    def numpy_code(self) -> str:
        scores = "x * WEIGHT + BIAS" if self.diagonal else "linear(x, WEIGHT, BIAS)"
        return f"""
            x = smoothed_log_probabilities(z, TEMPERATURE[0], UNIFORM[0])
            return softmax({scores}).astype(np.float32)
        """
