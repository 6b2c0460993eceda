"""Bounds and noise floor of the classwise ECE x = (1/K) sum over cells (class, bin) of |D_c|, from streamed sums.

Most cells of a large problem hold few labels: their number is not normal but binomial, and nothing says how large the
error of such a cell is. x sums over many cells and is close to normal. Its variance has three parts: the cells' own;
what residuals of one sample in several cells have in common at first order, in cells with a clear sign (from the
scatter of random groups of samples); and at second order, in the others (from products of groups).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln

from smart_core.metrics.classwise import ClasswiseCells
from smart_core.metrics.uncertainty.bounds import LARGEST_BIAS, Bounds, absolute_estimate
from smart_core.metrics.uncertainty.cells import PSEUDO_COUNT
from smart_core.types import Matrix, Vector

NORMAL_ABOVE = 8.0
"""Variance, in counts, from which on a number of labels is taken for normal."""

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)
_WEIGHTS = _WEIGHTS / np.sqrt(2 * np.pi)


def mean_absolute_deviation(mean: Vector, variance: Vector) -> Vector:
    """Return E|Y - E Y| of the binomial with this mean and, as near as whole trials allow, this variance.

    De Moivre: 2 k C(n, k) q^k (1 - q)^(n - k + 1) with k = floor(n q) + 1, for n trials of probability q.
    """
    mean = np.maximum(mean, 1e-12)
    trials = np.rint(mean / np.clip(1 - variance / mean, 1e-6, 1.0))
    trials = np.maximum(np.maximum(trials, np.ceil(mean - 1e-9)), 1.0)
    q = np.clip(mean / trials, 1e-300, 1 - 1e-12)
    k = np.minimum(np.floor(mean), trials - 1) + 1
    log_choose = -np.log(trials + 1) - betaln(trials - k + 1, k + 1)
    return np.asarray(2 * k * np.exp(log_choose + k * np.log(q) + (trials - k + 1) * np.log1p(-q)))


@dataclass(frozen=True)
class _UsedCells:
    """The cells that hold samples, (C,) each: sums of p, p (1 - p) and p - y, and the standard error of the last;
    `groups` (G, C) are the centred residual sums of the groups, whose outer products sum to the covariance."""

    p: Vector
    of_labels: Vector
    gap: Vector
    sd: Vector
    groups: Matrix


def _used_cells(cells: ClasswiseCells, residual: NDArray[np.float32]) -> _UsedCells:
    """Return the used cells; the standard error is the larger of a calibrated model's and of one with these labels."""
    used = cells.count.reshape(-1) > 0
    n = cells.samples
    size, p, p2, y = (a.reshape(-1)[used] for a in (cells.count, cells.sum_p, cells.sum_p2, cells.sum_y))
    of_labels, share = np.maximum(p - p2, 0), size / n
    rate = (y + PSEUDO_COUNT * share / cells.classes) / (size + PSEUDO_COUNT * share)
    mu = p - size * rate
    as_seen = of_labels + mu / size * (2 * p - size) - mu**2 / n
    sd = np.sqrt(np.maximum(np.maximum(of_labels, as_seen), 1e-12))
    flat = residual.reshape(len(residual), -1)[:, used].astype(np.float64)
    centred = flat - np.outer(cells.group_count / n, flat.sum(axis=0))
    return _UsedCells(p, of_labels, p - y, sd, centred * np.sqrt(len(flat) / (len(flat) - 1)))


def _second_order(groups: Matrix, weight: Vector, sd: Vector) -> float:
    """Return the variance of sum |D_c| that cells without a clear sign have in common, beyond their own.

    For normal D, Cov(|D_c|, |D_d|) is at most (1 - 2/pi) Cov(D_c, D_d)^2 / (s_c s_d), times the `weight` of both cells:
    1 for no sign, 0 for a clear one. Products of different groups (G, C) estimate the squared covariance without bias.
    """
    number = len(groups)
    scaled = groups * np.sqrt(weight / sd)
    products = (scaled @ scaled.T) ** 2
    both = number / (number - 1) * float(products.sum() - np.trace(products))
    return (1 - 2 / np.pi) * max(0.0, both - float(((weight * sd) ** 2).sum()))


def classwise_bounds(cells: ClasswiseCells) -> Bounds:
    """Return the bounds of the population's classwise ECE: the sum of the estimates of |mu_c|, and its largest bias.

    In a cell of few labels |D_c| is too large by at most the mean absolute deviation of a calibrated model, because Y
    changes by one label at a time; half of it is subtracted.
    """
    used = _used_cells(cells, cells.group_residual)
    few = used.of_labels < NORMAL_ABOVE  # by the probabilities alone: the labels must not choose among bounds
    z = used.gap / used.sd
    half = mean_absolute_deviation(used.p, used.of_labels) / 2
    value = float(np.where(few, np.abs(used.gap) - half, used.sd * absolute_estimate(z)).sum())
    largest = float(np.where(few, half, LARGEST_BIAS * used.sd).sum())
    slope, rest = np.zeros(z.size), np.maximum(used.sd**2 - (2 * half) ** 2, 0)
    slope[~few], rest[~few] = _linear_part(z[~few], used.sd[~few])
    # labels that happen to agree in every group scatter less than labels can
    unseen = float((slope**2 * np.maximum(used.sd**2 - 2 * (used.groups**2).sum(axis=0), 0)).sum())
    own = float(rest.sum()) + unseen + _second_order(used.groups, np.exp(-(z**2) / 2), used.sd)
    scale = 1 / (cells.samples * cells.classes)
    return Bounds((value - largest) * scale, (value + largest) * scale, used.groups @ slope * scale, own * scale**2)


def _linear_part(z: Vector, sd: Vector) -> tuple[Vector, Vector]:
    """Return the slope of the estimate of |mu_c| in D_c, normal about what was observed, and the rest of its
    variance."""
    slope, rest = np.zeros(z.size), np.zeros(z.size)
    for start in range(0, z.size, 1 << 15):
        part = slice(start, start + (1 << 15))
        values = absolute_estimate(z[part, None] + _NODES)
        slope[part] = (values * _NODES) @ _WEIGHTS
        variance = (values - (values @ _WEIGHTS)[:, None]) ** 2 @ _WEIGHTS
        rest[part] = np.maximum(variance - slope[part] ** 2, 0) * sd[part] ** 2
    return slope, rest


def calibrated_distribution(cells: ClasswiseCells) -> tuple[float, float]:
    """Return mean and standard deviation of the classwise ECE of a calibrated model with these probabilities."""
    used = _used_cells(cells, cells.null_residual)
    kept = used.of_labels > 1e-9  # a certain cell has no noise
    absolute = mean_absolute_deviation(used.p, used.of_labels)[kept]
    common = _second_order(used.groups[:, kept], np.ones(absolute.size), np.sqrt(used.of_labels[kept]))
    variance = float(np.maximum(used.of_labels[kept] - absolute**2, 0).sum()) + common
    scale = 1 / (cells.samples * cells.classes)
    return float(absolute.sum()) * scale, float(np.sqrt(variance)) * scale
