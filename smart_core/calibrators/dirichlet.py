"""Dirichlet calibration (Kull et al., 2019): a linear map of the log-probabilities."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from smart_core.calibrators.linear import MANY_CLASSES, LinearCalibrator, Penalty, log_probabilities, odir
from smart_core.calibrators.settings import setting
from smart_core.types import Logits

DEFAULT_STRENGTH = 1.0
"""What a strength is where only the other one is set, and both below 100 classes."""


@dataclass(kw_only=True, eq=False)
class Dirichlet(LinearCalibrator):
    """`q = softmax(W log p + b)`, p the model's softmax, with off-diagonal and intercept penalties (ODIR)."""

    id = "dirichlet"
    label = "Dirichlet"
    summary = "A regularised K x K linear map of the log-probabilities, with a bias."
    position = 5

    reg_lambda: float | None = setting(
        None,
        "Penalty on the mean square of W off its diagonal. None: 1 below 100 classes, else a prior fading like 1/N.",
        low=0.0,
        high=1e9,
        optional=True,
        kind=float,
    )
    reg_mu: float | None = setting(
        None,
        "Penalty on the mean square of b. None: 1 below 100 classes, else a prior fading like 1/N.",
        low=0.0,
        high=1e9,
        optional=True,
        kind=float,
    )

    def _inputs(self, logits: Logits) -> Tensor:
        return log_probabilities(logits)

    def _shape(self, classes: int) -> tuple[int, ...]:
        return (classes, classes)

    def _set_penalty(self, beta: float) -> Penalty | None:
        if self.classes_ >= MANY_CLASSES and self.reg_lambda is None and self.reg_mu is None:
            return None
        reg_lambda = DEFAULT_STRENGTH if self.reg_lambda is None else self.reg_lambda
        reg_mu = DEFAULT_STRENGTH if self.reg_mu is None else self.reg_mu
        return odir(reg_lambda, reg_mu, beta)
