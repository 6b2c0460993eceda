"""Sample bootstrap: the metric on resamples of the same size, drawn with replacement.

These are draws around the *plug-in* value. For calibration errors their percentiles are no interval of the population
value (the resample adds the bias once more); use `intervals` for that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smart_core.metrics.arrays import MetricError, Values, confidence_and_correct
from smart_core.metrics.binning import bin_index, check_bins, chunk_of_rank
from smart_core.metrics.gathered import smce_cells, smce_of_mass, smece_cells, smece_of_mass
from smart_core.types import FloatArray

Vector = NDArray[np.float64]
Statistic = Callable[[FloatArray, Vector], float]


def bootstrap(
    statistic: str | Statistic,
    confidence: Values,
    correct: Values,
    *,
    losses: Values | None = None,
    bins: int = 15,
    resamples: int = 1000,
    seed: int = 0,
) -> Vector:
    """Values (resamples,) of ece, adaece, mce, smce, smece, accuracy, the mean of `losses` ("mean"), or of a function
    of (confidence, correct).
    """
    check_bins(bins)
    p, a = confidence_and_correct(confidence, correct)
    generator = np.random.default_rng(seed)
    if callable(statistic):
        chosen = (generator.integers(p.size, size=p.size) for _ in range(resamples))
        return np.array([statistic(p[i], a[i]) for i in chosen])
    r = p.astype(np.float64) - a
    if statistic in ("ece", "mce"):
        index = bin_index(p, bins).astype(np.int64)
        return _binned(statistic, index, r, bins, resamples, generator)
    if statistic == "adaece":
        return _adaptive(p, r, bins, resamples, generator)
    if statistic == "smce":
        sums = smce_cells(p, a)
        return smce_of_mass(resampled_sums(sums.index, r, sums.cells, resamples, generator) / p.size)
    if statistic == "smece":
        sums = smece_cells(p, a)
        return smece_of_mass(resampled_sums(sums.index, r, sums.cells, resamples, generator) / p.size)
    if statistic in ("accuracy", "mean"):
        values = a if statistic == "accuracy" else np.asarray(losses, dtype=np.float64)
        return resampled_sums(np.zeros(p.size, dtype=np.int64), values, 1, resamples, generator)[:, 0] / p.size
    raise MetricError(f"There is no bootstrap of {statistic!r}.")


def resampled_sums(
    index: NDArray[np.int64], values: Vector, cells: int, resamples: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Sum of `values` per cell in each resample, (resamples, cells); nothing of a resample but its sums is kept."""
    narrow = index.astype(np.int32)
    result = np.empty((resamples, cells))
    for row in result:
        chosen = generator.integers(values.size, size=values.size, dtype=np.int32)
        row[:] = np.bincount(narrow[chosen], weights=values[chosen], minlength=cells)
    return result


def _binned(
    statistic: str,
    index: NDArray[np.int64],
    r: Vector,
    bins: int,
    resamples: int,
    generator: np.random.Generator,
) -> Vector:
    if statistic == "ece":
        return np.asarray(np.abs(resampled_sums(index, r, bins, resamples, generator)).sum(axis=1) / r.size)
    values = np.empty(resamples)
    for j in range(resamples):
        chosen = generator.integers(r.size, size=r.size, dtype=np.int32)
        cell = index[chosen]
        count = np.bincount(cell, minlength=bins)
        gap = np.bincount(cell, weights=r[chosen], minlength=bins)
        values[j] = (np.abs(gap[count > 0]) / count[count > 0]).max()
    return values


def _adaptive(p: FloatArray, r: Vector, bins: int, resamples: int, generator: np.random.Generator) -> Vector:
    """AdaECE of resamples, whose ranks follow from how often each distinct confidence was drawn."""
    _, group = np.unique(p, return_inverse=True)
    groups, chunk = int(group.max()) + 1, chunk_of_rank(p.size, bins)
    values = np.empty(resamples)
    for j in range(resamples):
        chosen = generator.integers(p.size, size=p.size, dtype=np.int32)
        times = np.bincount(group[chosen], minlength=groups)
        drawn = times > 0
        middle = np.cumsum(times)[drawn] - 1 - times[drawn] // 2
        mass = np.bincount(group[chosen], weights=r[chosen], minlength=groups)[drawn]
        values[j] = np.abs(np.bincount(chunk[middle], weights=mass, minlength=bins)).sum() / p.size
    return values


@dataclass(frozen=True)
class ReliabilityBand:
    """Lower and upper accuracy of each bin; NaN for empty bins."""

    low: Vector
    high: Vector
    level: float


def bootstrap_reliability_band(
    confidence: Values,
    correct: Values,
    bins: int = 15,
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> ReliabilityBand:
    """Pointwise band of the accuracy per equal-width bin, by the Bayesian bootstrap, half a hit and half a miss added.

    Reweighting h hits and n - h misses at random gives Beta(h, n - h) accuracies; the added halves (Jeffreys) keep
    the band open in bins that saw hits only.
    """
    check_bins(bins)
    p, a = confidence_and_correct(confidence, correct)
    index = np.asarray(bin_index(p, bins))
    count = np.bincount(index, minlength=bins)
    hits = np.bincount(index, weights=a, minlength=bins)
    drawn = np.random.default_rng(seed).beta(hits + 0.5, count - hits + 0.5, size=(resamples, bins))
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    empty = count == 0
    return ReliabilityBand(np.where(empty, np.nan, low), np.where(empty, np.nan, high), level)
