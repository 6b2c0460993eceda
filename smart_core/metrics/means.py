"""Intervals of a mean: of per-sample losses, skewed as they may be, and of a share of successes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtr, stdtrit

Vector = NDArray[np.float64]
Range = tuple[float, float]


def hall_transform(t: float, skewness: float, samples: int) -> float:
    """Hall's (1992) monotone cubic of the t statistic, which takes the skewness g out to order 1/sqrt(N).

    h(t) = t + a t^2 / 3 + a^2 t^3 / 27 + a / 6 with a = g / sqrt(N).
    """
    a = skewness / np.sqrt(samples)
    return float(t + a * t**2 / 3 + a**2 * t**3 / 27 + a / 6)


def hall_inverse(value: float, skewness: float, samples: int) -> float:
    """The t with hall_transform(t) = value."""
    a = skewness / np.sqrt(samples)
    if abs(a) < 1e-9:
        return value
    return float(3 / a * (np.cbrt(1 + a * (value - a / 6)) - 1))


ROUNDING = 1e-14
"""Values that differ by no more, or by this share of their size, are equal."""


def _moments(values: Vector, grain: float = ROUNDING) -> tuple[float, float, float]:
    """Mean, its standard error, and the skewness of the values; both 0 where they are equal up to the `grain`."""
    mean = float(values.mean())
    centred = values - mean
    sd = float(np.sqrt((centred**2).mean()))
    if values.size < 2 or sd <= grain * max(1.0, abs(mean)):
        return mean, 0.0, 0.0
    skewness = float((centred**3).mean() / sd**3)
    return mean, sd / np.sqrt(values.size - 1), skewness


FEW = 10
"""Values, below which their own scatter says too little of how far others may lie away."""


def unseen_share(samples: int, level: float) -> float:
    """The largest share of all samples that N samples may miss with probability 1 - level: 3 / N, nearly, at 95 %."""
    return float(1 - (1 - level) ** (1 / samples))


def mean_interval(
    values: Vector, level: float = 0.95, bounds: Range = (-np.inf, np.inf), grain: float = ROUNDING
) -> tuple[float, float]:
    """Interval of E[value] by the skewness-corrected t statistic (mean - E) / se; values lie within `bounds`,
    or widen them.

    One value says nothing: the bounds are the interval. Where all values are equal up to the `grain`, or there are
    fewer than `FEW`, the share of them that may not have been seen may be anything within the bounds.
    """
    least, most = min(bounds[0], float(values.min())), max(bounds[1], float(values.max()))
    if values.size < 2:
        return least, most
    mean, error, skewness = _moments(values, grain)
    share = unseen_share(values.size, level)
    unseen = mean - share * (mean - least), mean + share * (most - mean)
    if error == 0.0:
        return unseen
    quantile = float(stdtrit(values.size - 1, (1 + level) / 2))
    low, high = (mean - error * hall_inverse(q, skewness, values.size) for q in (quantile, -quantile))
    if values.size < FEW:
        low, high = min(low, unseen[0]), max(high, unseen[1])
    return min(mean, max(low, least)), max(mean, min(high, most))


def mean_p_value(values: Vector, bounds: Range = (-np.inf, np.inf)) -> float:
    """Two-sided p-value of E[value] = 0 by the same statistic: 1 - the highest level whose interval leaves out 0."""
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


def wilson_interval(successes: float, samples: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a success probability."""
    z = float(ndtri((1 + level) / 2))
    share, weight = successes / samples, z**2 / samples
    centre = (share + weight / 2) / (1 + weight)
    half = z / (1 + weight) * np.sqrt(share * (1 - share) / samples + weight / (4 * samples))
    return max(0.0, float(centre - half)), min(1.0, float(centre + half))
