"""The temperatures that can give a row the top confidence p-hat, when only its margin m and K are known.

With S = 1 / p-hat - 1, reaching p-hat means sum_{j != M} exp((z_j - z_M) / T) = S. Every rival is at least m behind,
and one is exactly m behind, so e^{-m/T} <= S <= (K - 1) e^{-m/T}:

    S < 1          (p-hat > 1/2)           T in [ m / -log(S / (K-1)),  m / -log S ]
    1 <= S < K-1   (1/K < p-hat <= 1/2)    T in [ m / -log(S / (K-1)),  infinity )
    S = K - 1      (p-hat = 1/K)           some T only if m = 0

For K = 2 the two ends of the first case are equal and T is known. Both ends are proportional to m: the interval grows
with the margin, and what is constant is the ratio of its ends, log(S / (K-1)) / log S.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smart_core.errors import CalibrationError

Array = NDArray[np.float64]

INTERVAL = "interval"
HALF_LINE = "half-line"
TIES_ONLY = "ties only"
IMPOSSIBLE = "impossible"
"""The three cases of the statement, and a target below 1/K, which no softmax maximum can be."""


def case_of(target: float, classes: int) -> str:
    """Which case a target confidence p-hat in (0, 1) falls into for K classes."""
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
    """T / m at the lower and the upper bound: NaN where the case has no T, infinite where it has no upper bound."""
    case = case_of(target, classes)
    if case in (TIES_ONLY, IMPOSSIBLE):
        return math.nan, math.nan
    log_s = math.log1p(-target) - math.log(target)
    # K = 2 is exact: log 1 = 0, and both ends are computed the same way
    return 1.0 / (math.log(classes - 1) - log_s), 1.0 / -log_s if case == INTERVAL else math.inf


@dataclass(frozen=True, eq=False)
class TemperatureBounds:
    """The closed set of feasible T for each margin; NaN at both ends where there is none."""

    case: str
    lower: Array
    upper: Array

    @property
    def width(self) -> Array:
        """Upper less lower end; infinite in the second case."""
        return np.asarray(self.upper - self.lower)


def temperature_bounds(margin: ArrayLike, target: float, classes: int) -> TemperatureBounds:
    """Bounds on T for the target confidence, from margins m >= 0 and K alone.

    A margin of 0 cannot give more than 1/2, so the first case has no T there; in the other two every T > 0 is possible
    for some row, which the ends 0 and infinity say.

    >>> found = temperature_bounds([2.0], 0.8, 2)
    >>> found.lower[0] == found.upper[0]
    np.True_
    """
    m = np.atleast_1d(np.asarray(margin, dtype=np.float64))
    if (m < 0).any() or np.isnan(m).any():
        raise CalibrationError("A margin is the largest minus the second largest logit: never negative, never NaN.")
    case = case_of(target, classes)
    nothing = np.full(m.shape, np.nan)
    if case == IMPOSSIBLE:
        return TemperatureBounds(case, nothing, nothing)
    if case == TIES_ONLY:
        return TemperatureBounds(case, np.where(m == 0, 0.0, np.nan), np.where(m == 0, np.inf, np.nan))
    low, high = bound_slopes(target, classes)
    if case == HALF_LINE:
        return TemperatureBounds(case, m * low, np.full(m.shape, np.inf))
    return TemperatureBounds(case, np.where(m > 0, m * low, np.nan), np.where(m > 0, m * high, np.nan))
