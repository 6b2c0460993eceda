"""Confidence intervals of the population value of a metric.

The population value is what the same metric, with the same bins, would be on infinitely many samples of the same law.
Plug-in calibration errors are biased upwards, so that near the noise floor the plug-in may lie above its own interval.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smart_core.metrics.arrays import Values, as_vector, confidence_and_correct
from smart_core.metrics.classwise_cells import ClasswiseCells
from smart_core.metrics.classwise_law import classwise_law, normal_law
from smart_core.metrics.inversion import unified_interval
from smart_core.metrics.laws import FAMILIES, joint_cells
from smart_core.metrics.mean_interval import mean_interval, wilson_interval

DESCRIPTIONS = {
    "ece": "the population ECE with these {bins} equal-width bins (test inversion, bias-corrected)",
    "adaece": "the population AdaECE with bins at the population's {bins}-quantiles (test inversion, bias-corrected)",
    "cece": "the population classwise ECE with these {bins} bins (test inversion, bias-corrected)",
    "smce": "the population smooth calibration error (test inversion, bias-corrected)",
    "smece": "the population SmoothECE (test inversion, bias-corrected)",
    "nll": "the expected negative log-likelihood (skewness-corrected t)",
    "brier": "the expected Brier score (skewness-corrected t)",
    "accuracy": "the probability of a correct top label (Wilson)",
}


@dataclass(frozen=True)
class Interval:
    """An interval that holds the population value in `level` of all test sets; `of` says of what, in plain words."""

    low: float
    high: float
    level: float
    of: str


def interval(
    metric: str,
    confidence: Values,
    correct: Values,
    *,
    nll: Values | None = None,
    brier: Values | None = None,
    cells: ClasswiseCells | None = None,
    bins: int = 15,
    level: float = 0.95,
    seed: int = 0,
    draws: int | None = None,
) -> Interval:
    """Interval of the population value of `metric`: ece, adaece, cece, smce, smece, nll, brier or accuracy.

    `nll` and `brier` are per-sample losses, `cells` the classwise sums; each is needed by its own metric only.
    `draws` is the number of simulated sets for each hypothetical value; None takes enough for the metric.
    """
    if metric not in DESCRIPTIONS:
        raise ValueError(f"no interval for {metric!r}; choose one of {', '.join(DESCRIPTIONS)}")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    if metric == "cece":
        if cells is None:
            raise ValueError("the interval of cece needs the classwise `cells`")
        bounds, bins = unified_interval(normal_law(classwise_law(cells)), level), cells.bins
    elif metric in ("nll", "brier"):
        losses = nll if metric == "nll" else brier
        if losses is None:
            raise ValueError(f"the interval of {metric} needs the losses of the samples, `{metric}`")
        bounds = mean_interval(as_vector(losses).astype(np.float64), level)
    elif metric == "accuracy":
        hits = as_vector(correct)
        bounds = wilson_interval(float(hits.sum()), hits.size, level)
    else:
        bounds = _simulated_interval(metric, confidence, correct, bins, level, seed, draws)
    return Interval(*bounds, level, DESCRIPTIONS[metric].format(bins=bins))


def _simulated_interval(
    metric: str, confidence: Values, correct: Values, bins: int, level: float, seed: int, draws: int | None
) -> tuple[float, float]:
    p, a = confidence_and_correct(confidence, correct)
    if bool(((p == a) & (p == p[0])).all()):
        # Certain and right every time: no residual to simulate from, but N samples bound the chance of an error.
        return 0.0, float(1 - (1 - level) ** (1 / p.size))
    ((sums, normals),) = joint_cells(metric, [(p, a)], bins, seed, draws)
    low, high = unified_interval(FAMILIES[metric].law(sums, normals), level)
    return max(0.0, low), min(1.0, high)
