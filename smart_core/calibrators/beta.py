"""Beta calibration (Kull, Silva Filho & Flach, 2017) of the top-1 confidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from smart_core.calibrators.base import LineStyle, Shape
from smart_core.calibrators.rules import Rule, between
from smart_core.calibrators.toplabel import TopLabelCalibrator
from smart_core.progress import Run
from smart_core.types import FloatArray

LEAST_COMPLEMENT = 1e-30
"""Complements 1 - s below this are raised to this, so that their logarithm is finite."""

SLOPE_LIMIT, INTERCEPT_LIMIT = 100.0, 50.0
"""Bounds of a, b and |c|; only validation sets with nothing but hits or nothing but misses reach them."""

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
    rules = (("coefficients_", between(-SLOPE_LIMIT - 1, SLOPE_LIMIT + 1), SLOPES),)
    libraries = ("scipy.optimize",)
    parameters = 3

    def _fit_map(self, u: FloatArray, hits: FloatArray, run: Run) -> None:
        if hits.min() == hits.max():
            outcome = "right" if hits.max() == 1.0 else "wrong"
            self.notices_.append(
                f"Every validation prediction is {outcome}; the map runs to its bounds and cannot be trusted."
            )
        features = beta_features(torch.from_numpy(u)).numpy()
        self.coefficients_ = self._store(fit_coefficients(features, hits, run))

    def learned(self) -> dict[str, Shape]:
        return {"coefficients_": (3,)}

    def _map(self, u: Tensor) -> Tensor:
        slopes, intercept = self.coefficients_[:2], self.coefficients_[2]
        return torch.sigmoid((beta_features(u) * slopes).sum(dim=1) + intercept)

    def numpy_code(self) -> str:
        return f"""
            u = complement(z).astype(np.float64)
            a, b, c = COEFFICIENTS.astype(np.float64)
            return spread(z, sigmoid(a * np.log1p(-u) - b * np.log(np.maximum(u, {LEAST_COMPLEMENT})) + c), keep=True)
        """


def beta_features(u: Tensor) -> Tensor:
    """`(log s, -log(1 - s))` from the complements `u = 1 - s`, (N, 2)."""
    # A confidence is at least 1/K, so log s is finite.
    return torch.stack([torch.log1p(-u), -torch.log(u.clamp(min=LEAST_COMPLEMENT))], dim=1)


def fit_coefficients(features: FloatArray, hits: FloatArray, run: Run) -> FloatArray:
    """`(a, b, c)` of least NLL with a, b >= 0: a convex problem in a box, by L-BFGS-B on scaled features."""
    from scipy.optimize import minimize

    spread = features.std(axis=0)
    scale = np.where(spread > 0.0, spread, 1.0)
    design = np.column_stack([features / scale, np.ones(len(hits))])

    def loss(theta: FloatArray) -> tuple[float, FloatArray]:
        run.tick(0.5, "beta calibration")
        score = design @ theta
        value = float(np.mean(np.logaddexp(0.0, score) - hits * score))
        return value, design.T @ (1.0 / (1.0 + np.exp(-np.clip(score, -700.0, 700.0))) - hits) / len(hits)

    bounds = [
        *((0.0, SLOPE_LIMIT * width) for width in scale),
        (-INTERCEPT_LIMIT, INTERCEPT_LIMIT),
    ]
    identity = np.array([*scale, 0.0])  # a = b = 1, c = 0 leaves every confidence as it is
    options = {"maxiter": 1000, "ftol": 1e-15, "gtol": 1e-9}
    found = minimize(loss, identity, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    return found / np.array([*scale, 1.0])
