"""Dirichlet calibration (Kull et al., 2019): a linear map of the log-probabilities."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from smart_core.calibrators.base import LineStyle
from smart_core.calibrators.linear import MANY_CLASSES, LinearCalibrator, Penalty, log_probabilities, odir, strength
from smart_core.types import Logits

DEFAULT_STRENGTH = 1.0
"""A strength that is not set, if the other one is set or there are fewer than 100 classes."""


@dataclass(kw_only=True, eq=False)
class Dirichlet(LinearCalibrator):
    """`q = softmax(W log p + b)`, p the model's softmax, with off-diagonal and intercept penalties (ODIR).

    Departures: the penalties have strength 1 where the original chooses them by cross-validation, and from 100 classes
    on a prior keeps W and b near temperature scaling instead, unless a strength is set.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits").validation
    >>> sc.Dirichlet().fit(data.logits, data.labels).parameters
    110
    """

    id = "dirichlet"
    label = "Dirichlet"
    summary = "A regularised K x K linear map of the log-probabilities, with a bias."
    position = 5
    style = LineStyle("#5F8A00", "3px,3px", "triangle-down")
    numpy_inputs = "log_probabilities(z)"

    reg_lambda: float | None = strength(
        "Penalty on the mean square of W off its diagonal. None: 1 below 100 classes, else a prior fading like 1/N."
    )
    reg_mu: float | None = strength(
        "Penalty on the mean square of b. None: 1 below 100 classes, else a prior fading like 1/N."
    )

    def _inputs(self, logits: Logits) -> Tensor:
        return log_probabilities(logits)

    def _set_penalty(self, beta: float) -> Penalty | None:
        if self.classes_ >= MANY_CLASSES and self.reg_lambda is None and self.reg_mu is None:
            return None
        reg_lambda = DEFAULT_STRENGTH if self.reg_lambda is None else self.reg_lambda
        reg_mu = DEFAULT_STRENGTH if self.reg_mu is None else self.reg_mu
        return odir(reg_lambda, reg_mu, beta)
