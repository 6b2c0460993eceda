"""Confidence intervals of the population value of a metric.

The population value is what the same metric, with the same bins, would be on infinitely many samples of the same
distribution. Plug-in calibration errors are biased upwards, by an amount that depends on how the errors are spread over
the bins. Their intervals allow for the largest bias there can be (see `bounds`), and the noise floor decides whether
they leave out 0. NLL, Brier score and accuracy are means.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smart_core.metrics.arrays import Evaluated, MetricError, losses, needed, residuals
from smart_core.metrics.binned import adaece, ece
from smart_core.metrics.confidence_cells import binned_sums_if_large
from smart_core.metrics.proper import LARGEST_BRIER, LARGEST_NLL
from smart_core.metrics.smooth_calibration import smce
from smart_core.metrics.smooth_ece import smece
from smart_core.metrics.uncertainty.bounds import Bounds
from smart_core.metrics.uncertainty.classwise import NORMAL_ABOVE, classwise_bounds
from smart_core.metrics.uncertainty.floor import Floor, noise_floor
from smart_core.metrics.uncertainty.means import Range, mean_interval, wilson_interval
from smart_core.metrics.uncertainty.top_label import top_label_bounds
from smart_core.types import Vector

DESCRIPTIONS = {
    "ece": "the population ECE with these {bins} equal-width bins",
    "adaece": "the population AdaECE with bins at the population's {bins}-quantiles",
    "cece": "the population classwise ECE with these {bins} bins",
    "smce": "the population smooth calibration error",
    "smece": "the population SmoothECE",
    "nll": "the expected negative log-likelihood (skewness-corrected t)",
    "brier": "the expected Brier score (skewness-corrected t)",
    "accuracy": "the probability of a correct top label (Wilson)",
}

LOSS_BOUNDS: dict[str, Range] = {"nll": (0.0, LARGEST_NLL), "brier": (0.0, LARGEST_BRIER), "accuracy": (0.0, 1.0)}
"""Smallest and largest value of one sample, for the metrics that are means."""

TOO_FEW = 25
"""Samples, and wrong answers to be expected, below which residual sums are not taken for normal."""


@dataclass(frozen=True)
class Interval:
    """An interval that holds the population value in `level` of all test sets or more; `of` names that value."""

    low: float
    high: float
    level: float
    of: str


def interval(
    metric: str,
    evaluation: Evaluated,
    *,
    bins: int = 15,
    level: float = 0.95,
    seed: int = 0,
    floor: Floor | None = None,
    value: float | None = None,
) -> Interval:
    """Return the interval of the population value of ece, adaece, cece, smce, smece, nll, brier or accuracy.

    `floor` and `value` are the metric's noise floor and its value for this evaluation, if they are known already.

    >>> from smart_core.metrics import Samples
    >>> found = interval("ece", Samples(confidence=[0.8] * 500, correct=[1] * 300 + [0] * 200))
    >>> round(found.low, 2), round(found.high, 2)
    (0.16, 0.24)
    """
    if metric not in DESCRIPTIONS:
        raise MetricError(f"There is no interval of '{metric}'; choose one of {', '.join(DESCRIPTIONS)}.")
    if not 0 < level < 1:
        raise MetricError(f"The level must lie between 0 and 1, not {level}.")
    if metric == "accuracy":
        hits = sample_losses(metric, evaluation)
        low, high = wilson_interval(float(hits.sum()), hits.size, level)
    elif metric in LOSS_BOUNDS:
        low, high = mean_interval(sample_losses(metric, evaluation), level, LOSS_BOUNDS[metric])
    else:
        low, high = _error_interval(metric, evaluation, bins, level, seed, floor, value)
    if metric == "cece":
        bins = evaluation.cells.bins
    return Interval(float(low), float(high), level, DESCRIPTIONS[metric].format(bins=bins))


def sample_losses(metric: str, evaluation: Evaluated) -> Vector:
    """Return the values per sample whose mean is nll, brier or accuracy."""
    return losses(needed(evaluation, "correct" if metric == "accuracy" else metric, metric), metric)


def plug_in(metric: str, evaluation: Evaluated, bins: int) -> float:
    """Return the value of the metric on these samples."""
    if metric in LOSS_BOUNDS:
        return float(sample_losses(metric, evaluation).mean())
    if metric == "cece":
        return float(needed(evaluation, "cells", metric).ece())
    sums = binned_sums_if_large(evaluation, bins) if metric == "ece" else None
    if sums is not None:
        return sums.table.ece
    pair = needed(evaluation, "confidence", metric), needed(evaluation, "correct", metric)
    if metric in ("ece", "adaece"):
        return (ece if metric == "ece" else adaece)(*pair, bins)
    return (smce if metric == "smce" else smece)(*pair)


def _error_interval(
    metric: str,
    evaluation: Evaluated,
    bins: int,
    level: float,
    seed: int,
    floor: Floor | None,
    value: float | None,
) -> Range:
    """Return the interval of a calibration error.

    By M(mu + noise) <= M(mu) + M(noise), the plug-in less the floor's quantile is a lower bound of the population error
    M(mu). It decides whether the interval leaves out 0, so that a calibrated model's holds 0 in `level` of all sets.

    No calibration error is smaller than the mean gap, and smCE is hardly larger where the errors have one sign: where a
    test set shows a small gap by chance, its plug-in is too small, too. The interval of smCE therefore reaches the
    largest mean gap that the accuracy allows. So do all where few wrong answers are to be expected; they also reach
    down to the smallest.
    """
    value = plug_in(metric, evaluation, bins) if value is None else value
    if metric == "cece":
        cells, known = evaluation.cells, None
        bounds, expected = classwise_bounds(cells), float((cells.sum_p - cells.sum_p2).sum())
    else:
        bounds = top_label_bounds(metric, [evaluation], bins, seed, [value])[0]
        sums = binned_sums_if_large(evaluation, bins) if metric == "ece" else None
        if sums is None:
            p, r = residuals(evaluation.confidence, evaluation.correct)
            totals = p.size, float(p.sum()), float((p * (1 - p)).sum()), float(r @ r), float((p + r).sum())
        else:
            count, total, hits, variance, squares = sums.by_bin.sum(axis=1).tolist()
            totals = round(count), total, variance, squares, hits
        known = Residuals(*totals)
        expected = known.expected
    noise = (floor or noise_floor(metric, evaluation, bins=bins, seed=seed)) if expected >= NORMAL_ABOVE else None
    return error_range(metric, value, bounds, known, level, noise)


@dataclass(frozen=True)
class Residuals:
    """Sums over N samples: of p, of p (1 - p), of (a - p)^2, and of a.

    The second is about the number of wrong answers, and their variance if the model is calibrated.
    """

    samples: int
    p: float
    expected: float
    squares: float
    hits: float

    @property
    def excess(self) -> float:
        """The noise over a calibrated model's."""
        return float(np.sqrt(max(1.0, self.squares / max(self.expected, 1e-300))))


def error_range(
    metric: str, value: float, bounds: Bounds, known: Residuals | None, level: float, noise: Floor | None
) -> Range:
    """Return the interval from the plug-in `value` and its bounds; the classwise ECE has no residuals of the top label.

    `noise` is not used where so few wrong answers are to be expected that their number is not normal.
    """
    low, high = bounds.interval(level)
    low, beyond = max(0.0, min(low, value)), 0.0
    if noise is not None and (known is None or known.expected >= NORMAL_ABOVE):
        excess = 1.0 if known is None else known.excess
        beyond = max(0.0, value - excess * float(np.quantile(noise.values, level)))
        low = (low or beyond) if beyond > 0 else 0.0
    if known is not None and (metric == "smce" or known.expected < TOO_FEW):
        least, most = _mean_gap_range(known, level)
        high = max(high, most)
        if known.expected < TOO_FEW:
            low, high = min(low, max(least, beyond)), max(high, value)
    return low, min(1.0, max(low, high))


def _mean_gap_range(known: Residuals, level: float) -> Range:
    """Return the smallest and largest |E p - accuracy| that the accuracy's interval allows.

    No calibration error is smaller than the mean gap.
    """
    mean = known.p / known.samples
    gaps = [mean - end for end in wilson_interval(known.hits, known.samples, level)]
    smallest, largest = sorted(np.abs(gaps).tolist())
    return 0.0 if gaps[0] * gaps[1] <= 0 else smallest, largest
