"""Law of the classwise ECE x = (1/K) sum over cells (class, bin) of |D_c|, from sums that a streaming pass can keep.

Most cells of a large problem hold next to no mass: the number of labels in them is not normal but binomial, and
E|D_c| is taken from that law. x sums over many cells and is close to normal; its variance has three parts:
the cells' own; what residuals of one sample in several cells have in common at first order, in cells with a clear sign
(from the scatter of random groups of samples); and at second order, in the others (from labels drawn from the model).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf, gammaln, stdtrit

from smart_core.metrics.binned_law import proportional
from smart_core.metrics.classwise_cells import GROUPS, ClasswiseCells
from smart_core.metrics.inversion import SimulatedLaw

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

STEPS = 25
DEGREES = 15
"""Degrees of freedom of the Student t that stands for x. The scatter of 64 groups alone would call for 63; the rest
allows for the shape of the residuals, which the law takes as given though it is estimated.
Chosen by measured coverage."""
_NORMAL_ABOVE = 8.0
_TERMS = 40


@dataclass(frozen=True)
class CellLaw:
    """Mean and variance of x along hypotheses `values`.

    `second_order` is the variance that comes from cells without a clear sign; `scores` (T, G) are the first-order
    deviations of the groups, whose squares sum to the rest.
    """

    values: Vector
    mean: Vector
    variance: Vector
    second_order: Vector
    scores: Matrix
    observed: float


def mean_absolute(expected: Vector, variance: Vector, centre: Vector) -> Vector:
    """E|c - Y| for a label count Y with the given mean and variance (in counts): binomial if small, else normal."""
    sd = np.sqrt(np.maximum(variance, 1e-300))
    shift = centre - expected
    z = shift / sd
    result = sd * np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2) + shift * erf(z / np.sqrt(2))
    small = np.flatnonzero((variance < _NORMAL_ABOVE) & (expected < _TERMS / 3))
    if small.size:
        k = np.arange(_TERMS)
        chance_of = matched_binomial(expected[small], variance[small])
        result[small] = (chance_of * np.abs(centre[small][:, None] - k)).sum(axis=1)
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


def shared_and_own(
    gap: Vector, share: Vector, p: Vector, chance: Vector, samples: int, bin_of: NDArray[np.int64]
) -> Vector:
    """Plausible residuals of the cells: a gap shared by the classes in each bin, and a spread of its own per class.

    mu_kb = share_kb m_b + sqrt(w_kb) (D_kb - share_kb m_b), m_b the pooled gap of bin b, w the share of the variance
    between classes that noise does not explain (moments per bin, less one standard error of theirs). The square root
    keeps the spread of mu that of the population; the usual weight w would shrink it, and with it the sum of |mu|.
    """

    def pooled(weights: Vector) -> Vector:
        return np.asarray(np.bincount(bin_of, weights=weights), dtype=np.float64)

    level = (pooled(gap) / np.maximum(pooled(share), 1e-300))[bin_of]
    own = gap - share * level
    noise = np.maximum(chance + level * (2 * p - share), 0.05 * chance) / samples
    beyond = np.maximum(pooled(own**2 - noise) - np.sqrt(2 * pooled(noise**2)), 0)
    real = share**2 * (beyond / np.maximum(pooled(share**2), 1e-300))[bin_of]
    return np.asarray(share * level + np.sqrt(real / np.maximum(real + noise, 1e-300)) * own)


def classwise_law(cells: ClasswiseCells, steps: int = STEPS) -> CellLaw:
    """Moments of x over population values from 0 or well below the observed x to well above it."""
    n, k = cells.samples, cells.classes
    used = cells.count.reshape(-1) > 0
    count, p, p2 = (a.reshape(-1)[used] for a in (cells.count, cells.sum_p, cells.sum_p2))
    gap = (p - cells.sum_y.reshape(-1)[used]) / n
    groups = cells.group_residual.reshape(GROUPS, -1)[:, used].astype(np.float64)
    groups -= (cells.group_count / n)[:, None] * (gap * n)
    chance = np.maximum(p - p2, 1e-9)
    scale = GROUPS / (GROUPS - 1) / n**2
    group_variance = (groups**2).sum(axis=0) * scale

    observed = float(np.abs(gap).sum())
    null_mean = float(mean_absolute(p, chance, p).sum() / n)
    null_own = float((chance / n**2).sum()) - float(((mean_absolute(p, chance, p) / n) ** 2).sum())
    null_variance = float((cells.null_values() * k).var(ddof=1))
    excess = max(0.0, null_variance - null_own)
    signed = float((((groups @ np.sign(gap)) ** 2).sum()) * scale)
    reach = np.sqrt(max(null_variance, signed, null_own))
    values = np.linspace(max(0.0, observed - null_mean - 4 * reach), observed + 4.5 * reach, steps)
    bin_of = np.broadcast_to(np.arange(cells.bins), cells.count.shape).reshape(-1)[used]
    mu = proportional(shared_and_own(gap, count / n, p / n, chance / n, n, bin_of), values)

    mean, variance, second, influence = (np.zeros(steps), np.zeros(steps), np.zeros(steps), np.zeros_like(mu))
    for j, row in enumerate(mu):
        spread = np.maximum(chance + row * n / count * (2 * p - count), 0.05 * chance)
        given_count = np.maximum(spread - (row * n) ** 2 / count, 0.02 * chance)
        absolute = mean_absolute(np.clip(p - row * n, 0, None), given_count, p) / n
        influence[j] = erf(row * n / np.sqrt(2 * spread))
        common = float(((groups @ influence[j]) ** 2).sum()) * scale
        own = float((influence[j] ** 2 * group_variance).sum())
        free = float((np.exp(-((row * n) ** 2) / spread) * spread).sum() / chance.sum())
        cellwise = np.maximum(spread / n**2 + row**2 - absolute**2, 0).sum()
        second[j] = max(float(cellwise) - own, 0.0) + excess * min(free, 1.0)
        mean[j], variance[j] = absolute.sum(), second[j] + common
    scores = influence @ groups.T * np.sqrt(scale)
    return CellLaw(values / k, mean / k, variance / k**2, second / k**2, scores / k, observed / k)


def normal_law(law: CellLaw, draws: int = 801) -> SimulatedLaw:
    """Draws at equally likely quantiles with the mean and scale of `law`."""
    z = stdtrit(DEGREES, (np.arange(draws) + 0.5) / draws)
    return SimulatedLaw(law.values, law.mean[:, None] + np.sqrt(law.variance)[:, None] * z, law.observed)
