"""From the simulated law of a statistic to a confidence interval of the population value behind it.

A calibration error is at least 0 and its plug-in estimate is biased upwards, so neither a percentile nor a two-sided
interval keeps its level everywhere. Here every hypothetical value t is tested against the observed x, and the
interval is the set of values not rejected. The test orders outcomes by the likelihood ratio against the best t >= 0
(Feldman and Cousins 1998): one-sided where t = 0 is the bound, two-sided away from it, of the stated level in both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

_PLACES = 400


@dataclass(frozen=True)
class SimulatedLaw:
    """What the statistic would be if the population value were t: `draws[j]` are draws of it under t = `values[j]`.

    `values` (T,) rise; `observed` is the statistic of the data, computed in the same way as the draws.
    """

    values: Vector
    draws: Matrix
    observed: float


def likelihood_ratio_order(law: SimulatedLaw, outcomes: Matrix) -> Matrix:
    """d(x, t) - min over t' of d(x, t') with d(x, t) = ((x - mean_t) / sd_t)^2, for `outcomes` (T, n) row by row.

    The normal form only decides which outcomes count as extreme; how often they occur is taken from the draws.
    """
    mean, sd = law.draws.mean(axis=1), _spread(law.draws)
    place = np.linspace(min(law.draws.min(), outcomes.min()), max(law.draws.max(), outcomes.max(), 1e-12), _PLACES)
    best = (((place[:, None] - mean) / sd) ** 2).min(axis=1)
    own = ((outcomes - mean[:, None]) / sd[:, None]) ** 2
    return np.asarray(own - np.interp(outcomes, place, best))


def _spread(draws: Matrix) -> Vector:
    sd = draws.std(axis=1)
    return np.maximum(sd, max(1e-9 * float(sd.max()), 1e-300))


def unified_interval(law: SimulatedLaw, level: float = 0.95) -> tuple[float, float]:
    """Smallest and largest t that the observed value does not reject at `level`, linear between the tested ones."""
    critical = np.quantile(likelihood_ratio_order(law, law.draws), level, axis=1)
    observed = np.full((law.values.size, 1), law.observed)
    excess = likelihood_ratio_order(law, observed)[:, 0] - critical
    return accepted_range(law.values, excess)


def accepted_range(values: Vector, excess: Vector) -> tuple[float, float]:
    """Ends of the hull of {t : excess(t) <= 0}; where nothing is accepted, the t that is rejected least."""
    accepted = np.flatnonzero(excess <= 0)
    if accepted.size == 0:
        best = float(values[int(np.argmin(excess))])
        return best, best
    first, last = int(accepted[0]), int(accepted[-1])
    low = _crossing(values, excess, first, first - 1) if first > 0 else float(values[0])
    high = _crossing(values, excess, last, last + 1) if last + 1 < values.size else float(values[-1])
    return low, high


def _crossing(values: Vector, excess: Vector, inside: int, outside: int) -> float:
    share = -excess[inside] / (excess[outside] - excess[inside])
    return float(values[inside] + share * (values[outside] - values[inside]))


def bias_corrected(law: SimulatedLaw) -> float:
    """The population value whose mean is the observed statistic; the smallest one if that lies below all means."""
    mean = np.maximum.accumulate(law.draws.mean(axis=1))
    return float(np.interp(law.observed, mean, law.values))


def central_excess(draws: Vector, observed: float, level: float) -> float:
    """How far `observed` lies outside the central `level` of the draws; negative inside."""
    ordered = np.sort(draws)
    place = np.array([(1 - level) / 2, (1 + level) / 2]) * (ordered.size + 1) - 1
    low, high = np.interp(place, np.arange(ordered.size), ordered)
    return float(max(low - observed, observed - high))


def two_sided_p_value(draws: Vector, observed: float) -> float:
    """Twice the smaller tail share, the observed value counted among the draws."""
    tail = min((draws <= observed).sum(), (draws >= observed).sum())
    return float(min(1.0, 2 * (1 + tail) / (draws.size + 1)))


def draws_at(law: SimulatedLaw, value: float) -> Vector:
    """Draws under population value `value`, linear between the simulated ones (which share their noise)."""
    place = float(np.interp(value, law.values, np.arange(law.values.size)))
    below = min(int(place), law.values.size - 2)
    share = place - below
    return np.asarray((1 - share) * law.draws[below] + share * law.draws[below + 1])
