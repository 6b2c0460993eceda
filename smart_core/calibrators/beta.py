"""Beta calibration (Kull, Silva Filho & Flach, 2017) of the top-1 confidence."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from smart_core.calibrators.base import LineStyle
from smart_core.calibrators.logistic import LEAST_COMPLEMENT, SLOPE_LIMIT, logistic_coefficients, one_outcome
from smart_core.calibrators.rules import Rule, between
from smart_core.calibrators.toplabel import TopLabelCalibrator
from smart_core.progress import Run
from smart_core.types import FloatArray

SLOPES = Rule(lambda coefficients: bool((coefficients[:2] >= 0).all()), "begin with two slopes of at least 0")


@dataclass(kw_only=True, eq=False)
class Beta(TopLabelCalibrator):
    """`c(s) = sigmoid(a log s - b log(1 - s) + c)` with a, b >= 0, of least NLL of the hits.

    A convex problem in a box, solved by L-BFGS-B. Departure: the original is for two classes and refits without a
    negative slope; this maps the top-1 confidence, and the other classes share the rest.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits").validation
    >>> beta = sc.Beta().fit(data.logits, data.labels)
    >>> bool((beta.coefficients_[:2] >= 0).all())
    True
    """

    id = "beta"
    label = "Beta"
    summary = "A three-parameter, non-decreasing map of the top-1 confidence from the beta family."
    position = 15
    style = LineStyle("#8F7A33", "dot", "x-open")
    shapes = (("coefficients_", (3,)),)
    rules = (("coefficients_", between(-SLOPE_LIMIT - 1, SLOPE_LIMIT + 1), SLOPES),)
    libraries = ("scipy.optimize",)
    parameters = 3
    numpy_map = f"beta_map(u, COEFFICIENTS, {LEAST_COMPLEMENT})"

    def _fit_map(self, u: FloatArray, hits: FloatArray, run: Run) -> None:
        self.notices_ += one_outcome(hits)
        features = beta_features(torch.from_numpy(u)).numpy()
        self.coefficients_ = self._store(logistic_coefficients(features, hits, run, least_slope=0.0))

    def _map(self, u: Tensor) -> Tensor:
        slopes, intercept = self.coefficients_[:2], self.coefficients_[2]
        return torch.sigmoid((beta_features(u) * slopes).sum(dim=1) + intercept)


def beta_features(u: Tensor) -> Tensor:
    """`(log s, -log(1 - s))` from the complements `u = 1 - s`, (N, 2)."""
    # A confidence is at least 1/K, so log s is finite.
    return torch.stack([torch.log1p(-u), -torch.log(u.clamp(min=LEAST_COMPLEMENT))], dim=1)
