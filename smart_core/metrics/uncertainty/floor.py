"""Noise floor: what a metric would be for a perfectly calibrated model with these confidences.

Labels are drawn from the confidences themselves, a_i ~ Bernoulli(p_i). The mean of the metric over such draws is its
bias for a calibrated model; a value below the 95% quantile is no evidence of miscalibration.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri

from smart_core.metrics.arrays import Evaluated, MetricError, confidences, needed
from smart_core.metrics.binning import check_bins
from smart_core.metrics.confidence_cells import binned_sums_if_large
from smart_core.metrics.smooth_calibration import smce_batch
from smart_core.metrics.smooth_ece import smece_batch
from smart_core.metrics.uncertainty.cells import cell_index
from smart_core.metrics.uncertainty.classwise import calibrated_distribution
from smart_core.types import IntArray, Matrix, Vector

FLOOR_METRICS = ("ece", "adaece", "mce", "smce", "smece", "cece")


@dataclass(frozen=True)
class Floor:
    """Mean and 95% quantile of the metric of a calibrated model, the number of draws, and the drawn `values`."""

    mean: float
    q95: float
    draws: int
    values: Vector = field(repr=False, compare=False, default_factory=lambda: np.zeros(0))


def noise_floor(metric: str, evaluation: Evaluated, *, bins: int = 15, draws: int = 1000, seed: int = 0) -> Floor:
    """Return the noise floor of ece, adaece, mce, smce, smece or cece.

    It needs the confidences of the evaluation, for cece its classwise `cells`. cece sums over many cells and is close
    to normal: its mean and spread are computed, and its `values` are equally likely quantiles.

    >>> from smart_core.metrics import Samples
    >>> floor = noise_floor("ece", Samples(confidence=[0.5] * 400))
    >>> round(floor.mean, 2), round(floor.q95, 2)
    (0.02, 0.05)
    """
    if metric not in FLOOR_METRICS:
        raise MetricError(f"There is no noise floor of '{metric}'; choose one of {', '.join(FLOOR_METRICS)}.")
    if metric == "cece":
        mean, sd = calibrated_distribution(needed(evaluation, "cells", metric))
        values = np.maximum(mean + sd * ndtri((np.arange(draws) + 0.5) / draws), 0.0)
        return Floor(mean, mean + 1.645 * sd, draws, values)
    check_bins(bins)
    sums = binned_sums_if_large(evaluation, bins) if metric in ("ece", "mce") else None
    if sums is not None:
        return _floor(_values(metric, sums.calibrated_gaps(draws, seed), sums.by_bin[0] / sums.samples))
    p = confidences(needed(evaluation, "confidence", metric))
    return floor_of_cells(metric, p.astype(np.float64), *cell_index(metric, p, bins, fine=True), draws, seed)


def floor_of_cells(
    metric: str, p: Vector, index: IntArray, cells: int, draws: int, seed: int, weight: Vector | None = None
) -> Floor:
    """Return the floor of confidences in the cells of a metric, of which each counts `weight` times."""
    values = _calibrated_values(metric, p, index.astype(np.int64), cells, draws, seed, weight)
    return _floor(values)


def _floor(values: Vector) -> Floor:
    return Floor(float(values.mean()), float(np.quantile(values, 0.95)), len(values), values)


def _calibrated_values(
    metric: str, p: Vector, index: IntArray, cells: int, draws: int, seed: int, weight: Vector | None
) -> Vector:
    """Return draws of the metric with labels drawn from the confidences."""
    groups = 1 if metric in ("smce", "smece") else 24
    weight = np.ones(p.size) if weight is None else weight
    gap = _calibrated_gaps(p, index, cells, groups, draws, seed, weight)
    if metric == "smce":
        return smce_batch(np.linspace(0, 1, cells), gap)
    if metric == "smece":
        return smece_batch(gap)
    return _values(metric, gap, np.bincount(index, weight, minlength=cells) / weight.sum())


def _values(metric: str, gap: Matrix, share: Vector) -> Vector:
    """Return the binned errors of gaps (draws, cells) weighted by the share of each cell."""
    if metric == "mce":
        return np.asarray((np.abs(gap[:, share > 0]) / share[share > 0]).max(axis=1))
    return np.asarray(np.abs(gap).sum(axis=1))


def _calibrated_gaps(
    p: Vector, index: IntArray, cells: int, groups: int, draws: int, seed: int, weight: Vector
) -> Vector:
    """Return draws (draws, cells) of the sum over each cell of (p - a) / N.

    Samples of nearly equal confidence are drawn together: each cell is cut into `groups` of neighbouring confidences,
    whose number of hits is binomial with their mean (the spread of p within a group is negligible).
    """
    order = np.lexsort((p, index))
    sorted_index, sorted_p, size_of = index[order], p[order], weight[order]
    count = np.bincount(index, weight, minlength=cells)
    rank = np.cumsum(size_of) - size_of - (np.cumsum(count) - count)[sorted_index]
    group = sorted_index * groups + (rank * groups // np.maximum(count[sorted_index], 1)).astype(np.int64)
    size = np.bincount(group, size_of, minlength=cells * groups).astype(np.int64)
    used = size > 0
    total = np.bincount(group, weights=size_of * sorted_p, minlength=cells * groups)[used]
    mean = np.clip(total / size[used], 0, 1)
    cell = np.flatnonzero(used) // groups
    hits = np.random.default_rng(seed).binomial(size[used], mean, size=(draws, mean.size))
    starts = np.flatnonzero(np.diff(cell, prepend=-1))
    gap = np.zeros((draws, cells))
    gap[:, cell[starts]] = np.add.reduceat(total - hits, starts, axis=1) / weight.sum()
    return gap
