"""Confidence intervals of the population value of a metric.

The population value is what the same metric, with the same bins, would be on infinitely many samples of the same law.
Plug-in calibration errors are biased upwards, by an amount that depends on how the errors are spread over the bins,
which the data show only in part. Their interval comes from inverting a test (see `inversion`); that of the classwise
error allows, besides, for the largest bias there can be in cells of few labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smart_core.metrics.arrays import MetricError, Values, as_vector, confidence_and_correct
from smart_core.metrics.bias_bound import NORMAL_ABOVE
from smart_core.metrics.binned import adaece, ece
from smart_core.metrics.classwise_cells import ClasswiseCells
from smart_core.metrics.classwise_interval import classwise_interval
from smart_core.metrics.error_interval import error_interval
from smart_core.metrics.floor import Floor, noise_floor
from smart_core.metrics.means import Range, mean_interval, wilson_interval
from smart_core.metrics.proper import LARGEST_BRIER, LARGEST_NLL
from smart_core.metrics.smooth_calibration import smce
from smart_core.metrics.smooth_ece import smece

DESCRIPTIONS = {
    "ece": "the population ECE with these {bins} equal-width bins (by inverting a test)",
    "adaece": "the population AdaECE with bins at the population's {bins}-quantiles (by inverting a test)",
    "cece": "the population classwise ECE with these {bins} bins (by inverting a test; at least the stated level where "
    "cells hold few labels)",
    "smce": "the population smooth calibration error (by inverting a test)",
    "smece": "the population SmoothECE (by inverting a test)",
    "nll": "the expected negative log-likelihood (skewness-corrected t)",
    "brier": "the expected Brier score (skewness-corrected t)",
    "accuracy": "the probability of a correct top label (Wilson)",
}

LOSS_BOUNDS: dict[str, Range] = {"nll": (0.0, LARGEST_NLL), "brier": (0.0, LARGEST_BRIER), "accuracy": (0.0, 1.0)}
"""Smallest and largest value of one sample."""


EQUAL_LOSSES = 1e-6
"""Losses this near to each other count as equal: their scatter says nothing of the samples that were not seen."""


FEW_ERRORS = 25.0
"""Variance of the number of hits, in counts, below which the noise of the residual sums is not taken for normal."""


FEWEST = 25
"""Samples, below which it is not whatever the confidences are: two calibration errors are not told apart there."""


SMCE_GAP = 6.0
"""Multiple of 1 - level at which the mean gap's interval bounds that of smCE. The path of the test is made of noise
where all that there is to see is a mean gap, and ends too early then."""


@dataclass(frozen=True)
class Interval:
    """An interval that holds the population value in `level` of all test sets or more; `of` says of what, in words."""

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
    floor: Floor | None = None,
    bins: int = 15,
    level: float = 0.95,
    seed: int = 0,
    draws: int | None = None,
) -> Interval:
    """Interval of the population value of `metric`: ece, adaece, cece, smce, smece, nll, brier or accuracy.

    `nll` and `brier` are per-sample losses, `cells` the classwise sums; each is needed by its own metric only.
    `draws` is the number of draws of the noise; None takes enough for the metric. `floor` is the metric's noise floor
    of these confidences, for callers that have it already.
    """
    if metric not in DESCRIPTIONS:
        raise MetricError(f"There is no interval of '{metric}'; choose one of {', '.join(DESCRIPTIONS)}.")
    if not 0 < level < 1:
        raise MetricError(f"The level must lie between 0 and 1, not {level}.")
    if metric == "cece":
        if cells is None:
            raise MetricError("The interval of cece needs the classwise sums: pass `cells`.")
        low, high = classwise_interval(cells, level)
        low = max(0.0, min(low, cells.ece()))
        if float((cells.sum_p - cells.sum_p2).sum()) >= NORMAL_ABOVE:
            beyond = least_beyond_noise(cells.ece(), floor or noise_floor("cece", cells=cells), level)
            low = (low or beyond) if beyond > 0 else 0.0
        bounds, bins = (low, high), cells.bins
    elif metric in ("nll", "brier"):
        losses = nll if metric == "nll" else brier
        if losses is None:
            raise MetricError(f"The interval of {metric} needs the losses of the samples: pass `{metric}`.")
        bounds = mean_interval(checked_losses(losses, metric), level, LOSS_BOUNDS[metric], EQUAL_LOSSES)
    elif metric == "accuracy":
        hits = checked_losses(correct, "correctness")
        bounds = wilson_interval(float(hits.sum()), hits.size, level)
    else:
        value = plug_in(metric, confidence, correct, bins)
        low, high = error_interval(metric, confidence, correct, bins, level, seed, draws)
        low = max(0.0, min(low, value))
        beyond, excess = 0.0, excess_noise(confidence, correct)
        if np.isfinite(excess):
            noise = floor or noise_floor(metric, confidence, bins=bins, draws=draws or 1000, seed=seed)
            beyond = least_beyond_noise(value, noise, level, excess)
            low = (low or beyond) if beyond > 0 else 0.0
        least, most = mean_gap_bounds(confidence, correct, level)
        if np.size(confidence) < FEWEST or not np.isfinite(excess):
            low = min(low, max(least, beyond))
        if expected_errors(confidence) < FEW_ERRORS:
            high = max(high, value, most)
        elif metric == "smce":
            high = max(high, mean_gap_bounds(confidence, correct, 1 - min(0.9, SMCE_GAP * (1 - level)))[1])
        bounds = low, high
    low, high = bounds
    if metric in ("ece", "adaece", "cece", "smce", "smece"):
        low, high = max(0.0, low), min(1.0, high)
    return Interval(float(low), float(high), level, DESCRIPTIONS[metric].format(bins=bins))


def plug_in(metric: str, confidence: Values, correct: Values, bins: int) -> float:
    """ece, adaece, smce or smece of these samples."""
    if metric in ("ece", "adaece"):
        return float((ece if metric == "ece" else adaece)(confidence, correct, bins))
    return float((smce if metric == "smce" else smece)(confidence, correct))


def least_beyond_noise(value: float, floor: Floor, level: float, excess: float = 1.0) -> float:
    """Lower bound of the population error M(mu): the plug-in less the noise floor's quantile at `level`.

    M(mu + noise) <= M(mu) + M(noise), and M(noise) is what a calibrated model shows, times the `excess` of the noise
    over such a model's. It decides whether 0 belongs to the interval: a calibrated model's does in `level` of all sets.
    """
    return value - excess * float(np.quantile(floor.values, level))


def excess_noise(confidence: Values, correct: Values) -> float:
    """How many times the residuals' size is a calibrated model's, at least 1: sqrt(E (p - a)^2 / E p (1 - p)).

    Infinite where the confidences are too certain for a calibrated model to show a few errors: nothing follows then.
    """
    p, a = confidence_and_correct(confidence, correct)
    calibrated = expected_errors(p)
    if calibrated < NORMAL_ABOVE:
        return np.inf
    return float(np.sqrt(max(1.0, ((p - a) ** 2).sum() / calibrated)))


def expected_errors(confidence: Values) -> float:
    """sum p (1 - p): the variance, in counts, of a calibrated model's hits."""
    p = np.asarray(confidence, dtype=np.float64)
    return float((p * (1 - p)).sum())


def mean_gap_bounds(confidence: Values, correct: Values, level: float) -> Range:
    """The smallest and the largest |E p - accuracy| that the accuracy's interval allows.

    No calibration error is smaller than the mean gap, so none of their intervals may end below what the mean gap can
    be; and where a handful of samples says little else, none begins above the least it can be. It matters where few
    cells hold samples and nearly all answers agree.
    """
    hits = checked_losses(correct, "correctness")
    mean = float(np.mean(np.asarray(confidence, dtype=np.float64)))
    low, high = wilson_interval(float(hits.sum()), hits.size, level)
    least = 0.0 if low <= mean <= high else min(abs(mean - low), abs(mean - high))
    return least, max(abs(mean - low), abs(mean - high))


def checked_losses(values: Values, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """One finite number a sample."""
    losses = as_vector(values, f"{name} values").astype(np.float64)
    if losses.size == 0:
        raise MetricError(f"There are no samples; the {name} needs at least one.")
    if not np.isfinite(losses).all():
        raise MetricError(f"The {name} of sample {int((~np.isfinite(losses)).argmax())} is not finite.")
    return losses.reshape(-1)
