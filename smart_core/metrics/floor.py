"""Noise floor: what a metric would be for a perfectly calibrated model with these confidences.

Labels are drawn from the confidences themselves, a_i ~ Bernoulli(p_i). The mean of the metric over such draws is its
bias at perfection; a value below the 95 % quantile is no evidence of miscalibration.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from smart_core.metrics.arrays import MetricError, Values, confidences
from smart_core.metrics.binning import adaptive_index, bin_index, check_bins
from smart_core.metrics.classwise_cells import ClasswiseCells
from smart_core.metrics.classwise_law import calibrated_law
from smart_core.metrics.gathered import SMCE_NODES, smce_of_mass, smece_of_mass
from smart_core.types import FloatArray

Vector = NDArray[np.float64]

FLOOR_METRICS = ("ece", "adaece", "mce", "smce", "smece", "cece")
_PIECES_OF_A_BIN = 24


@dataclass(frozen=True)
class Floor:
    """Mean and 95 % quantile of the metric of a calibrated model, and from how many draws; `values` are the draws."""

    mean: float
    q95: float
    draws: int
    values: Vector = field(repr=False, compare=False, default_factory=lambda: np.zeros(0))


def noise_floor(
    metric: str,
    confidence: Values | None = None,
    *,
    cells: ClasswiseCells | None = None,
    bins: int = 15,
    draws: int = 1000,
    seed: int = 0,
) -> Floor:
    """Floor of ece, adaece, mce, smce or smece from the confidences, or of cece from the classwise `cells`.

    cece sums over many cells and is close to normal: its mean and spread are computed, and its `values` are equally
    likely quantiles.
    """
    if metric not in FLOOR_METRICS:
        raise MetricError(f"There is no noise floor of '{metric}'; choose one of {', '.join(FLOOR_METRICS)}.")
    if metric == "cece":
        if cells is None:
            raise MetricError("The noise floor of cece needs the classwise sums: pass `cells`.")
        mean, sd = calibrated_law(cells)
        values = np.maximum(mean + sd * ndtri((np.arange(draws) + 0.5) / draws), 0.0)
        return Floor(mean, mean + 1.645 * sd, draws, values)
    if confidence is None:
        raise MetricError(f"The noise floor of {metric} needs the confidences.")
    check_bins(bins)
    values = calibrated_values(metric, confidences(confidence), bins, draws, seed)
    return Floor(float(values.mean()), float(np.quantile(values, 0.95)), draws, values)


def calibrated_values(metric: str, confidence: FloatArray, bins: int, draws: int, seed: int) -> Vector:
    """Draws of the metric with labels drawn from the confidences."""
    p = confidence
    generator = np.random.default_rng(seed)
    if metric in ("ece", "mce"):
        index, cells = bin_index(p, bins).astype(np.int64), bins
    elif metric == "adaece":
        cells = min(bins, p.size)
        index = adaptive_index(p, cells).astype(np.int64)
    elif metric == "smce":
        cells = 2 * (SMCE_NODES - 1) + 1
        index = np.rint(p.astype(np.float64) * (cells - 1)).astype(np.int64)
    else:
        cells = 512  # fine enough for the exact value, which the floor is compared with
        index = np.minimum((p.astype(np.float64) * cells).astype(np.int64), cells - 1)
    pieces = 1 if metric in ("smce", "smece") else _PIECES_OF_A_BIN
    gap = calibrated_gaps(p.astype(np.float64), index, cells, draws, generator, pieces)
    if metric == "smce":
        return smce_of_mass(gap)
    if metric == "smece":
        return smece_of_mass(gap)
    if metric == "mce":
        share = np.bincount(index, minlength=cells) / p.size
        return np.asarray((np.abs(gap[:, share > 0]) / share[share > 0]).max(axis=1))
    return np.asarray(np.abs(gap).sum(axis=1))


def calibrated_gaps(
    p: Vector, index: NDArray[np.int64], cells: int, draws: int, generator: np.random.Generator, pieces: int
) -> NDArray[np.float64]:
    """Draws (draws, cells) of sum over the cell of (p - a) / N.

    Samples of nearly equal confidence are drawn together: each cell is cut into `pieces` of neighbouring confidences,
    whose number of hits is binomial at their mean (the spread of p within a piece is negligible).
    """
    order = np.lexsort((p, index))
    sorted_index, sorted_p = index[order], p[order]
    count = np.bincount(index, minlength=cells)
    rank = np.arange(p.size) - np.repeat(np.cumsum(count) - count, count)
    piece = sorted_index * pieces + rank * pieces // np.maximum(count[sorted_index], 1)
    size = np.bincount(piece, minlength=cells * pieces)
    used = size > 0
    total = np.bincount(piece, weights=sorted_p, minlength=cells * pieces)[used]
    mean = np.clip(total / size[used], 0, 1)
    owner = np.flatnonzero(used) // pieces
    hits = generator.binomial(size[used], mean, size=(draws, mean.size))
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    gap = np.zeros((draws, cells))
    gap[:, owner[starts]] = np.add.reduceat(total - hits, starts, axis=1) / p.size
    return gap


def floor_pvalue(value: float, floor: Floor) -> float:
    """Share of a calibrated model's values at least as large as `value`, the value itself counted among them.

    >>> floor_pvalue(0.5, Floor(0.0, 0.0, 3, np.array([0.1, 0.2, 0.6])))
    0.5
    """
    return float((1 + (floor.values >= value).sum()) / (floor.values.size + 1))


def is_beyond_noise(value: float, floor: Floor) -> bool:
    """Whether a perfectly calibrated model would show less than `value` in at least 95 % of test sets."""
    return value > floor.q95
