"""Intervals by inverting a test along a path of hypothetical errors.

A plug-in calibration error exceeds the population's by an amount that depends on how the errors are spread over the
confidences. A candidate value t therefore needs a spread to be tested with: the path gives, for each t, residuals mu
that agree with the data as far as they can while the error of mu is t. Around mu the sampling noise is drawn, the
statistic T computed, and t belongs to the interval if the observed T does not lie in the tails of those draws.

T is a nearly unbiased estimate of the error, so that little depends on the path. The tails are those of the Pearson III
law with the draws' mean, variance and skewness, which a few hundred draws settle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincc, ndtri

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

SPENT = 0.8
"""Share of 1 - level that the two tails of the test have; the rest is for what the path cannot know."""

REACH = 4.0
"""Standard errors by which paths go beyond what was seen, in every cell."""

_FINER = 3
"""Points that are added between the two neighbours of an end."""


@dataclass(frozen=True)
class Candidates:
    """Candidates along a path, each (L,): the value t, P(T <= observed), P(T >= observed), and the deviation of T."""

    value: Vector
    below: Vector
    above: Vector
    sd: Vector

    def __add__(self, other: Candidates) -> Candidates:
        return Candidates(*(np.concatenate(pair) for pair in zip(_parts(self), _parts(other), strict=True)))

    def at(self, order: NDArray[np.intp]) -> Candidates:
        """These candidates only, in this order."""
        return Candidates(*(part[order] for part in _parts(self)))


def _parts(tested: Candidates) -> tuple[Vector, Vector, Vector, Vector]:
    return tested.value, tested.below, tested.above, tested.sd


Judge = Callable[[Vector], Candidates]
"""Places on the path, at which t rises, to the candidates there."""

Tails = Callable[[Candidates], tuple[Vector, Vector]]
"""Least P(T >= observed) and least P(T <= observed) of candidates that are kept."""


def judged(value: Vector, draws: Matrix, observed: float) -> Candidates:
    """Candidates `value` (L,) by draws (L, R) of the statistic under each."""
    mean = draws.mean(axis=-1)
    sd = draws.std(axis=-1)
    certain = sd <= 1e-12  # no noise: T is its mean
    scale = np.where(certain, 1e-12, sd)
    skewness = (((draws - mean[:, None]) / scale[:, None]) ** 3).mean(axis=-1)
    below, above = pearson_tails((observed - mean) / scale, np.where(certain, 0.0, skewness))
    return Candidates(value, below, above, sd)


def pearson_tails(z: Vector, skewness: Vector) -> tuple[Vector, Vector]:
    """P(X <= z) and P(X >= z) for the Pearson III law of mean 0, variance 1 and this skewness g: X = g/2 (G - 4/g^2)
    with G of the gamma law of shape 4/g^2."""
    g = np.where(np.abs(skewness) < 1e-3, 1e-3, skewness)
    shape = 4 / g**2
    place = np.maximum(shape + 2 * z / g, 0.0)
    lower, upper = gammainc(shape, place), gammaincc(shape, place)
    return np.where(g > 0, lower, upper), np.where(g > 0, upper, lower)


def one_sided_at_zero(level: float) -> Tails:
    """For values that cannot be negative: at t = 0 only a large T speaks against t, well above 0 both tails do."""
    half = SPENT * (1 - level) / 2

    def tails(candidates: Candidates) -> tuple[Vector, Vector]:
        near = np.exp(-candidates.value / np.maximum(candidates.sd, 1e-300))
        return half * (1 + near), half * (1 - near)

    return tails


def inverted(judge: Judge, places: Vector, tails: Tails) -> tuple[float, float]:
    """The candidates that are kept, from the least to the largest; `places` (L,) rise and reach beyond both ends."""
    first = judge(places)
    large, small = _excesses(first, tails)
    i = int(np.argmax(large >= 0)) if (large >= 0).any() else places.size - 1
    j = places.size - 1 - int(np.argmax(small[::-1] >= 0)) if (small >= 0).any() else 0
    more = np.concatenate([_between(places, i - 1), _between(places, j)])
    if more.size:
        order = np.argsort(np.concatenate([places, more]), kind="stable")
        first = (first + judge(more)).at(order)
        large, small = _excesses(first, tails)
    low = _crossing(first.value, large)
    high = _crossing(first.value[::-1], small[::-1])
    return low, max(low, high)


def _excesses(candidates: Candidates, tails: Tails) -> tuple[Vector, Vector]:
    """How far each tail exceeds what is asked of it, in normal deviates, which are nearly straight in t."""
    least_above, least_below = tails(candidates)
    return _deviate(candidates.above) - _deviate(least_above), _deviate(candidates.below) - _deviate(least_below)


def _deviate(probability: Vector) -> Vector:
    return np.asarray(ndtri(np.clip(probability, 1e-300, 1 - 1e-16)))


def _between(places: Vector, left: int) -> Vector:
    """Places inside the step from `left` to its right neighbour; none beyond the path."""
    if not 0 <= left < places.size - 1:
        return np.zeros(0)
    return np.linspace(places[left], places[left + 1], _FINER + 2)[1:-1]


def _crossing(value: Vector, excess: Vector) -> float:
    """Where the excess first reaches 0, between candidates."""
    kept = excess >= 0
    if not kept.any():
        return float(value[-1])
    i = int(np.argmax(kept))
    if i == 0:
        return float(value[0])
    rise = excess[i] - excess[i - 1]
    share = -excess[i - 1] / rise if rise > 0 else 1.0
    return float(value[i - 1] + share * (value[i] - value[i - 1]))
