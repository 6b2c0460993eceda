"""The temperatures that give a row the top confidence p-hat: bounds from the margin, and the exact solution.

With S = 1 / p-hat - 1, reaching p-hat means sum_{j != M} exp((z_j - z_M) / T) = S. Every rival is at least the margin m
behind the top logit, and one rival is exactly m behind, so e^{-m/T} <= S <= (K - 1) e^{-m/T}:

    S < 1          (p-hat > 1/2)           T in [ m / -log(S / (K-1)),  m / -log S ]
    1 <= S < K-1   (1/K < p-hat <= 1/2)    T in [ m / -log(S / (K-1)),  infinity )
    S = K - 1      (p-hat = 1/K)           some T only if m = 0

For K = 2 the two ends of the first case are equal and T is known. Both ends are proportional to m: the interval grows
with the margin, and the ratio of its ends, log(S / (K-1)) / log S, is constant.

`target_study` repeats the paper's numerical study: 1,000 random 10-class rows, target 0.8, and T against the margin,
the largest logit and the normalised largest logit. The paper gives neither the distribution of its rows nor its
normalisation. Here the logits are independent normals, and "normalised" is (z_max - mean) / standard deviation of the
row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smart_core.device import rows_per_chunk
from smart_core.errors import CalibrationError
from smart_core.metrics.binning import equal_mass_groups
from smart_core.types import Vector

INTERVAL = "interval"
HALF_LINE = "half-line"
TIES_ONLY = "ties only"
IMPOSSIBLE = "impossible"
"""The three cases above, and a target below 1/K, which no softmax maximum can be."""

MAX_STEPS = 200
PRECISION = 1e-14
"""Newton's method stops where its step is at most this fraction of beta."""

ROWS_PER_GROUP = 40
"""Rows with about the same value of an indicator, over which the spread of T is taken."""


def case_of(target: float, classes: int) -> str:
    """Return the case of a target confidence p-hat in (0, 1) for K classes.

    >>> case_of(0.8, 10), case_of(0.3, 10), case_of(0.1, 10), case_of(0.05, 10)
    ('interval', 'half-line', 'ties only', 'impossible')
    """
    if not 0.0 < target < 1.0:
        raise CalibrationError(f"A target confidence lies between 0 and 1, not at {target:g}.")
    if classes < 2:
        raise CalibrationError(f"A confidence needs at least two classes, not {classes}.")
    if math.isclose(target * classes, 1.0, rel_tol=1e-12):
        return TIES_ONLY
    if target * classes < 1.0:
        return IMPOSSIBLE
    return INTERVAL if target > 0.5 else HALF_LINE


def bound_slopes(target: float, classes: int) -> tuple[float, float]:
    """Return T / m at the lower and the upper bound: NaN where no T exists, infinite where there is no upper bound."""
    case = case_of(target, classes)
    if case in (TIES_ONLY, IMPOSSIBLE):
        return math.nan, math.nan
    log_s = math.log1p(-target) - math.log(target)
    # K = 2 is exact: log 1 = 0, and both ends are computed the same way
    return 1.0 / (math.log(classes - 1) - log_s), 1.0 / -log_s if case == INTERVAL else math.inf


@dataclass(frozen=True, eq=False)
class TemperatureBounds:
    """The closed interval of feasible T for each margin; both ends are NaN where no T is feasible."""

    case: str
    lower: Vector
    upper: Vector

    @property
    def width(self) -> Vector:
        """Upper minus lower end; infinite in the second case."""
        return np.asarray(self.upper - self.lower)


def temperature_bounds(margin: ArrayLike, target: float, classes: int) -> TemperatureBounds:
    """Return the bounds on T for a target confidence, from margins m >= 0 and K alone.

    A margin of 0 cannot give more than 1/2, so the first case has no T there. In the other two cases every T > 0 is
    possible for some row with margin 0, and the ends are 0 and infinity.

    >>> bounds = temperature_bounds([2.0, 4.0], 0.8, 10)
    >>> bounds.lower.round(3), bounds.upper.round(3)
    (array([0.558, 1.116]), array([1.443, 2.885]))
    """
    m = np.atleast_1d(np.asarray(margin, dtype=np.float64))
    if (m < 0).any() or np.isnan(m).any():
        raise CalibrationError("A margin is the largest minus the second largest logit: never negative, never NaN.")
    case, (low, high) = case_of(target, classes), bound_slopes(target, classes)
    at_zero = {HALF_LINE: (0.0, math.inf), TIES_ONLY: (0.0, math.inf)}.get(case, (math.nan, math.nan))
    with np.errstate(invalid="ignore"):  # 0 times infinity, which is not used
        lower, upper = (np.where(m > 0, m * slope, end) for slope, end in zip((low, high), at_zero, strict=True))
    return TemperatureBounds(case, lower, upper)


def target_temperature(logits: ArrayLike, target: float) -> Vector:
    """Return (N,) T with max softmax(z / T) = target; NaN where no T > 0 gives it.

    With d_j = z_j - z_M over the rivals j != M, beta = 1/T solves h(beta) = log S for

        h(beta) = log sum_{j != M} exp(beta d_j),

    which is convex and falls from log(K - 1). Newton's step from the left of the root never passes it, and the margin
    bound gives a starting point on the left, so it converges for every row.

    >>> target_temperature([[0.0, -1.0]], 0.8).round(6)   # 1 / log 4
    array([0.721348])
    """
    z = np.atleast_2d(np.asarray(logits))
    if case_of(target, z.shape[1]) not in (INTERVAL, HALF_LINE):
        return np.full(len(z), np.nan)
    size = rows_per_chunk(z.shape[1])
    return np.concatenate([_solve(z[start : start + size], target) for start in range(0, max(len(z), 1), size)])


def _solve(logits: NDArray[np.generic], target: float) -> Vector:
    log_s = math.log1p(-target) - math.log(target)
    z = logits.astype(np.float64)
    rows, top = np.arange(len(z)), z.argmax(axis=1)
    behind = z - z[rows, top][:, None]
    rival = np.ones(z.shape, dtype=np.bool_)
    rival[rows, top] = False
    d = behind[rival].reshape(len(z), -1)
    margin, tied = -d.max(axis=1), (d == 0).sum(axis=1)
    # h falls to the log of the number of tied rivals, or without limit where no rival is tied
    solvable = (tied == 0) | (np.log(np.maximum(tied, 1)) < log_s)
    beta = np.divide(max(-log_s, 0.0), margin, out=np.zeros(len(z)), where=margin > 0)
    active = np.flatnonzero(solvable)
    for _ in range(MAX_STEPS):
        if not active.size:
            break
        scaled = beta[active, None] * d[active]
        largest = scaled.max(axis=1, keepdims=True)
        weight = np.exp(scaled - largest)
        total = weight.sum(axis=1)
        excess = largest[:, 0] + np.log(total) - log_s
        step = excess * total / -(weight * d[active]).sum(axis=1)
        beta[active] += step
        active = active[np.abs(step) > PRECISION * beta[active]]
    return np.asarray(np.divide(1.0, beta, out=np.full(len(z), np.nan), where=solvable & (beta > 0)))


@dataclass(frozen=True, eq=False)
class TargetStudy:
    """Rows with the T that gives each the target confidence; rows without such a T are left out and counted."""

    target: float
    classes: int
    indicators: dict[str, Vector]
    """margin, max logit, normalised max logit: (N,) each."""
    temperature: Vector
    """(N,)"""
    unsolved: int
    """The number of rows that reach the target at no temperature."""

    def bounds(self) -> TemperatureBounds:
        return temperature_bounds(self.indicators["margin"], self.target, self.classes)

    def outside(self, tolerance: float = 1e-9) -> int:
        """Count the rows whose T is outside its bounds by more than a relative `tolerance`: 0, by the statement."""
        bounds = self.bounds()
        below = self.temperature < bounds.lower * (1 - tolerance)
        above = self.temperature > bounds.upper * (1 + tolerance)
        return int((below | above).sum())

    def spread(self, indicator: str) -> float:
        """Return how much T varies where the indicator does not.

        This is the ratio of the 95% to the 5% quantile of T among about 40 rows with neighbouring values of the
        indicator, as the median over such groups. 1 means that the indicator determines T.
        """
        if not self.temperature.size:
            return float("nan")
        groups = equal_mass_groups(self.indicators[indicator], max(1, self.temperature.size // ROWS_PER_GROUP))
        ends = [np.quantile(self.temperature[group], [0.05, 0.95]) for group in groups if len(group)]
        return float(np.median([high / low for low, high in ends]))


def target_study(logits: NDArray[np.generic], target: float) -> TargetStudy:
    """Return T for the target confidence, and the three indicators, of the given rows."""
    z = np.asarray(logits, dtype=np.float64)
    temperature = target_temperature(z, target)
    two = np.partition(z, -2, axis=1)[:, -2:]
    spread = z.std(axis=1)
    known = np.isfinite(temperature)
    indicators = {
        "margin": two[:, 1] - two[:, 0],
        "max logit": two[:, 1],
        "normalised max logit": (two[:, 1] - z.mean(axis=1)) / np.where(spread > 0, spread, 1.0),
    }
    solved = {name: values[known] for name, values in indicators.items()}
    return TargetStudy(target, z.shape[1], solved, temperature[known], int((~known).sum()))


def random_study(
    target: float = 0.8, classes: int = 10, rows: int = 1000, *, scale: float = 3.0, seed: int = 0
) -> TargetStudy:
    """Return the study on rows of independent normal logits with standard deviation `scale`.

    >>> study = random_study(0.8, 10, rows=400)
    >>> study.outside(), study.spread("margin") < study.spread("max logit")
    (0, True)
    """
    return target_study(np.random.default_rng(seed).normal(scale=scale, size=(rows, classes)), target)
