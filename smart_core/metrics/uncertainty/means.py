"""Intervals and tests of a mean: of per-sample losses, which may be skewed, and of a share of successes."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from smart_core.types import Vector

Range = tuple[float, float]

ROUNDING = 1e-6
"""Values that differ by no more, or by this share of their size, count as equal."""

FEW = 10
"""Number of values below which their own spread says too little about the others."""


def hall_transform(t: float, skewness: float, samples: int) -> float:
    """Return Hall's (1992) monotone cubic of the t statistic, which removes the skewness g to order 1/sqrt(N).

    h(t) = t + a t^2 / 3 + a^2 t^3 / 27 + a / 6 with a = g / sqrt(N).
    """
    a = skewness / np.sqrt(samples)
    return float(t + a * t**2 / 3 + a**2 * t**3 / 27 + a / 6)


def hall_inverse(value: float, skewness: float, samples: int) -> float:
    """Return the t with hall_transform(t) = value."""
    a = skewness / np.sqrt(samples)
    if abs(a) < 1e-9:
        return value
    return float(3 / a * (np.cbrt(1 + a * (value - a / 6)) - 1))


def _moments(values: Vector) -> tuple[float, float, float]:
    """Return the mean, its standard error, and the skewness of the values; the last two are 0 for equal values."""
    mean = float(values.mean())
    centred = values - mean
    sd = float(np.sqrt((centred**2).mean()))
    if values.size < 2 or sd <= ROUNDING * max(1.0, abs(mean)):
        return mean, 0.0, 0.0
    return mean, sd / np.sqrt(values.size - 1), float((centred**3).mean() / sd**3)


def moments_of_sums(size: int, first: float, second: float, third: float) -> tuple[float, float, float]:
    """Return the same of values of which the sums of x, x^2 and x^3 are known."""
    mean = first / size
    variance = max(0.0, second / size - mean**2)
    sd = float(np.sqrt(variance))
    if size < 2 or sd <= ROUNDING * max(1.0, abs(mean)):
        return mean, 0.0, 0.0
    return mean, sd / np.sqrt(size - 1), (third / size - 3 * mean * variance - mean**3) / sd**3


def mean_interval(values: Vector, level: float = 0.95, bounds: Range = (-np.inf, np.inf)) -> Range:
    """Return the interval of E[value] by the skewness-corrected t statistic; values beyond the `bounds` widen them.

    The interval of a single value is the bounds. If all values are equal, or there are fewer than `FEW`, a share of all
    samples may be anything within the bounds: the largest share that N samples miss with probability 1 - level, about
    3 / N at 95%.
    """
    ends = float(values.min()), float(values.max())
    return moments_interval(values.size, *ends, *_moments(values), level, bounds)


def moments_interval(
    size: int, least: float, most: float, mean: float, error: float, skewness: float, level: float, bounds: Range
) -> Range:
    """Return `mean_interval` of values of which this is known: number, ends, mean, standard error and skewness."""
    least, most = min(bounds[0], least), max(bounds[1], most)
    if size < 2:
        return least, most
    share = float(1 - (1 - level) ** (1 / size))
    unseen = mean - share * (mean - least), mean + share * (most - mean)
    if error == 0.0:
        return unseen
    quantile = float(stdtrit(size - 1, (1 + level) / 2))
    low, high = (mean - error * hall_inverse(q, skewness, size) for q in (quantile, -quantile))
    if size < FEW:
        low, high = min(low, unseen[0]), max(high, unseen[1])
    return min(mean, max(low, least)), max(mean, min(high, most))


def mean_p_value(values: Vector, bounds: Range = (-np.inf, np.inf)) -> float:
    """Return the two-sided p-value of E[value] = 0: 1 - the highest level whose interval leaves out 0."""
    mean, error, skewness = _moments(values)
    if values.size < 2 or (error == 0.0 and mean == 0.0):
        return 1.0
    by_t = 0.0
    if error > 0.0:
        by_t = float(2 * stdtr(values.size - 1, -abs(hall_transform(mean / error, skewness, values.size))))
        if values.size >= FEW:
            return by_t
    opposite = abs(min(bounds[0], values.min()) if mean > 0 else max(bounds[1], values.max()))
    return max(by_t, float((1 / (1 + abs(mean) / opposite)) ** values.size))


def wilson_interval(successes: float, samples: int, level: float = 0.95) -> Range:
    """Return Wilson's score interval of a success probability."""
    z = float(ndtri((1 + level) / 2))
    share, weight = successes / samples, z**2 / samples
    centre = (share + weight / 2) / (1 + weight)
    half = z / (1 + weight) * np.sqrt(share * (1 - share) / samples + weight / (4 * samples))
    return max(0.0, float(centre - half)), min(1.0, float(centre + half))
