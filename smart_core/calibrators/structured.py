"""Structured scaling (Berta, Holzmueller, Jordan & Bach, 2026): a penalised linear map of tempered log-probabilities.

`q = softmax(V x + b)` with `x = log((1 - u) softmax(z / T) + u / K)`, T of temperature scaling and `u = 1 / (N + 1)`:
no x is below `-log(K (N + 1))`. V and b minimise

    mean NLL + (K / N) (lambda_intercept |b|^2 + lambda_diagonal |diag V - 1|^2)
             + (K (K - 1) / N) lambda_off_diagonal |off-diagonal V|^2

from `V = I, b = 0`, which is temperature scaling. The strengths grow with the number of values that they hold and fade
with the number of samples, so that 1, the default of each, needs no tuning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from smart_core.calibrators.base import FitData, Shape
from smart_core.calibrators.linear import LinearMap, Penalty
from smart_core.calibrators.rows import map_rows
from smart_core.calibrators.rules import PROBABILITIES, TEMPERATURES, WEIGHTS
from smart_core.calibrators.settings import setting
from smart_core.fitting.profile import gaps
from smart_core.progress import Run
from smart_core.types import Logits


def strength(of: str) -> Any:
    """The setting of one penalty's strength."""
    return setting(1.0, f"Strength of the penalty on {of}.", low=1e-6, high=1e6, logarithmic=True)


@dataclass(kw_only=True, eq=False)
class StructuredScaling(LinearMap):
    """`q = softmax(V x + b)`, x the tempered log-probabilities."""

    rules = (("temperature_", TEMPERATURES), ("uniform_", PROBABILITIES), ("weight_", WEIGHTS), ("bias_", WEIGHTS))
    numpy_inputs = "smoothed_log_probabilities(z, TEMPERATURE[0], UNIFORM[0])"
    least_gain = 1e-12  # the penalties make the minimum sharp; smaller gains are rounding at 1000 classes

    lambda_off_diagonal = 0.0  # a setting where V is a full matrix
    lambda_intercept: float = strength("the intercepts b")
    lambda_diagonal: float = strength("the diagonal of V, less 1")

    def _problem(self, data: FitData, beta: float, run: Run) -> tuple[Tensor, Penalty, float]:
        self.temperature_ = torch.tensor([1.0 / beta], dtype=torch.float32, device=data.logits.device)
        self.uniform_ = torch.tensor([1.0 / (len(data) + 1)], dtype=torch.float32, device=data.logits.device)
        x = map_rows(self._inputs, data.logits, run, "reading the logits")
        # the strengths of the sums of squares as strengths of their means
        each, pairs = data.classes**2 / len(data), (data.classes * (data.classes - 1)) ** 2 / len(data)
        penalty = Penalty(self.lambda_off_diagonal * pairs, self.lambda_diagonal * each, self.lambda_intercept * each)
        return x, penalty, 1.0

    def _inputs(self, logits: Logits) -> Tensor:
        p = torch.softmax(gaps(logits) / self.temperature_, dim=1)
        return torch.log((1.0 - self.uniform_) * p + self.uniform_ / p.shape[1])

    def learned(self) -> dict[str, Shape]:
        return {"temperature_": (1,), "uniform_": (1,), **super().learned()}

    @property
    def parameters(self) -> int:
        """Everything but the share of the uniform distribution, which is not learned."""
        return max(0, super().parameters - 1)
