"""Law of the classwise ECE x = (1/K) sum over cells (class, bin) of |D_c|, from sums that a streaming pass can keep.

Most cells of a large problem hold next to no mass: the number of labels in them is not normal but binomial, and the law
of |D_c| is taken from there. x sums over many cells and is close to normal; its variance has three parts: the
cells' own; what residuals of one sample in several cells have in common at first order, in cells with a clear sign
(from the scatter of random groups of samples); and at second order, in the others (from products of groups).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf, gammaln

from smart_core.metrics.absolute import LARGEST_BIAS, absolute_estimate
from smart_core.metrics.bias_bound import HALF_NORMAL
from smart_core.metrics.bracket import Bracket, Estimate
from smart_core.metrics.cells import UNSEEN
from smart_core.metrics.classwise_cells import ClasswiseCells

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

_NORMAL_ABOVE = 8.0
_TERMS = 40
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)
_WEIGHTS = _WEIGHTS / np.sqrt(2 * np.pi)


def mean_absolute(expected: Vector, variance: Vector, centre: Vector) -> Vector:
    """E|c - Y| for a label count Y with the given mean and variance (in counts): binomial if small, else normal."""
    sd = np.sqrt(np.maximum(variance, 1e-300))
    shift = centre - expected
    z = shift / sd
    result = sd * HALF_NORMAL * np.exp(-(z**2) / 2) + shift * erf(z / np.sqrt(2))
    small = np.flatnonzero((variance < _NORMAL_ABOVE) & (expected < _TERMS / 3))
    for part in _blocks(small.size):
        these = small[part]
        chance_of = matched_binomial(expected[these], variance[these])
        result[these] = (chance_of * np.abs(centre[these][:, None] - np.arange(_TERMS))).sum(axis=1)
    return np.asarray(result)


def matched_binomial(mean: Vector, variance: Vector) -> Matrix:
    """Chances of 0, 1, 2, ... (n, 40) under the binomial of this mean and, as near as whole trials allow, variance."""
    mean = np.maximum(mean, 1e-12)
    wanted = np.clip(1 - variance / mean, 1e-6, 1.0)
    trials = np.maximum(np.maximum(np.rint(mean / wanted), np.ceil(mean - 1e-9)), 1.0)[:, None]
    success = np.clip(mean[:, None] / trials, 1e-300, 1 - 1e-12)
    k = np.arange(_TERMS)
    left = np.maximum(trials - k, 0)
    log_chance = gammaln(trials + 1) - gammaln(k + 1) - gammaln(left + 1)
    log_chance = log_chance + k * np.log(success) + left * np.log1p(-success)
    chance = np.where(k <= trials, np.exp(log_chance), 0.0)
    return np.asarray(chance / chance.sum(axis=1, keepdims=True))


def second_order(groups: Matrix, weight: Vector, sd: Vector) -> float:
    """Variance of sum |D_c| by which cells move together though none has a clear sign, beyond the cells' own.

    For normal D, Cov(|D_c|, |D_d|) is (1 - 2/pi) Cov(D_c, D_d)^2 / (s_c s_d) at most, times the `weight` of both cells:
    1 for no sign, 0 for a clear one. Products of different groups (G, C) estimate the squared covariance without bias.
    """
    number = len(groups)
    scaled = groups * np.sqrt(weight / sd)
    products = (scaled @ scaled.T) ** 2
    both = number / (number - 1) * float(products.sum() - np.trace(products))
    return (1 - HALF_NORMAL**2) * max(0.0, both - float(((weight * sd) ** 2).sum()))


@dataclass(frozen=True)
class UsedCells:
    """The cells that hold samples, (C,) each: sizes, sums of p, p (1 - p) and p - y, and the residuals' standard error;
    `groups` (G, C) are the centred residual sums of the groups, whose outer products estimate the covariance."""

    size: Vector
    p: Vector
    chance: Vector
    gap: Vector
    sd: Vector
    groups: Matrix


def used_cells(cells: ClasswiseCells) -> UsedCells:
    """From the sums of a pass; the standard error is the larger of a calibrated model's and of that of these labels."""
    used = cells.count.reshape(-1) > 0
    n = cells.samples
    size, p, p2, y = (a.reshape(-1)[used] for a in (cells.count, cells.sum_p, cells.sum_p2, cells.sum_y))
    chance, gap = np.maximum(p - p2, 0), p - y
    share = size / n
    rate = (y + UNSEEN * share / cells.classes) / (size + UNSEEN * share)
    mu = p - size * rate
    by_labels = chance + mu / size * (2 * p - size) - mu**2 / n
    sd = np.sqrt(np.maximum(np.maximum(chance, by_labels), 1e-12))
    return UsedCells(size, p, chance, gap, sd, centred_groups(cells, cells.group_residual)[:, used])


def centred_groups(cells: ClasswiseCells, residual: NDArray[np.float32]) -> Matrix:
    """Group sums less what their sizes explain, scaled so that their outer products sum to the covariance."""
    flat = residual.reshape(len(residual), -1).astype(np.float64)
    centred = flat - np.outer(cells.group_count / cells.samples, flat.sum(axis=0))
    return np.asarray(centred * np.sqrt(len(flat) / (len(flat) - 1)))


@dataclass(frozen=True)
class _Absolute:
    """The estimate of |mu_c| as a part linear in D_c and a rest: slope and variance."""

    slope: Vector
    rest: Vector


def _around_normal(gap: Vector, sd: Vector) -> _Absolute:
    """By quadrature, D_c normal about what was observed."""
    values = absolute_estimate(gap[:, None] / sd[:, None] + _NODES)
    mean = values @ _WEIGHTS
    slope = (values * _NODES) @ _WEIGHTS
    variance = (values - mean[:, None]) ** 2 @ _WEIGHTS
    return _Absolute(slope, np.maximum(variance - slope**2, 0) * sd**2)


def _of_few_labels(p: Vector, chance: Vector) -> _Absolute:
    """From the binomial law of a calibrated model."""
    slope, rest = np.zeros(p.size), np.zeros(p.size)
    for part in _blocks(p.size):
        chance_of = matched_binomial(p[part], chance[part])
        gap = p[part, None] - np.arange(_TERMS)
        values = np.abs(gap)
        gap = gap - (chance_of * gap).sum(axis=1, keepdims=True)
        mean = (chance_of * values).sum(axis=1, keepdims=True)
        spread = np.maximum((chance_of * gap**2).sum(axis=1), 1e-300)
        slope[part] = (chance_of * gap * values).sum(axis=1) / spread
        variance = (chance_of * (values - mean) ** 2).sum(axis=1)
        rest[part] = np.maximum(variance - slope[part] ** 2 * spread, 0)
    return _Absolute(slope, rest)


def _blocks(cells: int, size: int = 1 << 15) -> Iterator[slice]:
    """Slices of so many cells: tables of 40 chances a cell stay small."""
    return (slice(start, start + size) for start in range(0, cells, size))


def has_few_labels(used: UsedCells) -> NDArray[np.bool_]:
    """Cells whose number of labels is not nearly normal; not by the labels, which would choose among bounds."""
    return np.asarray((used.chance < _NORMAL_ABOVE) & (used.p < _TERMS / 3))


@dataclass(frozen=True)
class FewLabels:
    """Sum over cells of few labels of the estimates of |mu_c|, in counts: its largest bias, and its deviation."""

    value: float
    most: float
    sd: float


def of_few_labels(used: UsedCells, few: NDArray[np.bool_]) -> FewLabels:
    """|D_c| less half the bias of a calibrated model, which is the largest there can be."""
    half = mean_absolute(used.p[few], used.chance[few], used.p[few]) / 2
    parts = _of_few_labels(used.p[few], used.chance[few])
    variance = float((parts.slope**2 * used.sd[few] ** 2 + parts.rest).sum())
    return FewLabels(float((np.abs(used.gap[few]) - half).sum()), float(half.sum()), float(np.sqrt(variance)))


def classwise_bracket(cells: ClasswiseCells) -> Bracket:
    """Bracket of the population's classwise ECE: the nearly unbiased estimate, less and plus its largest bias.

    In a cell of few labels the bias is at most that of a calibrated model: E|P - Y| - |P - E Y| is largest where
    E Y = P, for Y changes by one label at a time.
    """
    used = used_cells(cells)
    few = has_few_labels(used)
    half = np.zeros(few.size)
    half[few] = mean_absolute(used.p[few], used.chance[few], used.p[few]) / 2
    value = np.where(few, np.abs(used.gap) - half, used.sd * absolute_estimate(used.gap / used.sd))
    most = float(np.where(few, half, LARGEST_BIAS * used.sd).sum())
    slope, rest = np.zeros(few.size), np.zeros(few.size)
    for which, parts in (
        (few, _of_few_labels(used.p[few], used.chance[few])),
        (~few, _around_normal(used.gap[~few], used.sd[~few])),
    ):
        slope[which], rest[which] = parts.slope, parts.rest
    scale = 1 / (cells.samples * cells.classes)
    below, above = (_estimate(used, _Absolute(slope, rest), float(value.sum()) + bias, scale) for bias in (-most, most))
    return Bracket(below, above)


def _estimate(used: UsedCells, parts: _Absolute, value: float, scale: float) -> Estimate:
    seen = (used.groups**2).sum(axis=0)
    # labels that happen to agree in every group scatter less than labels can
    unseen = float((parts.slope**2 * np.maximum(used.sd**2 - 2 * seen, 0)).sum())
    free = np.exp(-((used.gap / used.sd) ** 2) / 2)
    own = float(parts.rest.sum()) + unseen + second_order(used.groups, free, used.sd)
    return Estimate(value * scale, used.groups @ parts.slope * scale, own * scale**2)


def calibrated_law(cells: ClasswiseCells) -> tuple[float, float]:
    """Mean and standard deviation of the classwise ECE of a perfectly calibrated model with these probabilities."""
    used = used_cells(cells)
    absolute = mean_absolute(used.p, used.chance, used.p)
    kept = used.chance > 1e-9  # a certain cell has no noise
    groups = centred_groups(cells, cells.null_residual)[:, cells.count.reshape(-1) > 0][:, kept]
    common = second_order(groups, np.ones(int(kept.sum())), np.sqrt(used.chance[kept]))
    variance = float(np.maximum(used.chance - absolute**2, 0)[kept].sum()) + common
    scale = 1 / (cells.samples * cells.classes)
    return float(absolute[kept].sum()) * scale, float(np.sqrt(variance)) * scale
