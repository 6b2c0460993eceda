"""Logistic regression of the hits on functions of the top-1 confidence, shared by the methods that are such a map."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from smart_core.progress import Run
from smart_core.types import FloatArray

LEAST_COMPLEMENT = 1e-30
"""Complements 1 - s below this are raised to this, so that their logarithm is finite."""

SLOPE_LIMIT, INTERCEPT_LIMIT = 100.0, 50.0
"""Bounds of the slopes and of |intercept|; only validation sets with nothing but hits or nothing but misses, or whose
confidences separate the two, reach them."""


def log_odds(u: Tensor) -> Tensor:
    """`log(s / (1 - s))` from the complements `u = 1 - s`, (N,)."""
    return torch.log1p(-u) - torch.log(u.clamp(min=LEAST_COMPLEMENT))


def one_outcome(hits: FloatArray) -> list[str]:
    """The notice that a logistic map learned from hits alone, or from misses alone, is at its bounds; else none."""
    if hits.min() != hits.max():
        return []
    outcome = "right" if hits.max() == 1.0 else "wrong"
    return [f"Every validation prediction is {outcome}; the map runs to its bounds and cannot be trusted."]


def logistic_coefficients(features: FloatArray, hits: FloatArray, run: Run, least_slope: float) -> FloatArray:
    """`(slopes, intercept)` of least NLL of the hits, for features (N, F): a convex problem in a box, by L-BFGS-B.

    The search starts at slopes 1 and intercept 0, on features divided by their standard deviation.
    """
    from scipy.optimize import minimize

    spread = features.std(axis=0)
    scale = np.where(spread > 0.0, spread, 1.0)
    design = np.column_stack([features / scale, np.ones(len(hits))])

    def loss(theta: FloatArray) -> tuple[float, FloatArray]:
        run.tick(0.5, "logistic regression")
        score = design @ theta
        value = float(np.mean(np.logaddexp(0.0, score) - hits * score))
        return value, design.T @ (1.0 / (1.0 + np.exp(-np.clip(score, -700.0, 700.0))) - hits) / len(hits)

    bounds = [*((least_slope * width, SLOPE_LIMIT * width) for width in scale), (-INTERCEPT_LIMIT, INTERCEPT_LIMIT)]
    start = np.array([*scale, 0.0])
    options = {"maxiter": 1000, "ftol": 1e-15, "gtol": 1e-9}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    return found / np.array([*scale, 1.0])
