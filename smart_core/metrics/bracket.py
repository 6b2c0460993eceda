"""A population value enclosed by two estimates, and the interval that follows.

`below` and `above` estimate on average no more and no less than the population value: E below <= t <= E above. With
standard errors s of both, the interval is [below - c s, above + c s]. While the two estimates are far apart only one
end can miss t, so that c = 1.64 suffices for 95 %; where they coincide c = 1.96. In between c solves (Imbens and Manski
2004)

    Phi(c + w) - Phi(-c) = level ,    w = (above - below) / s .

The interval holds t in at least `level` of all test sets; in more, where t lies well between the two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A statistic and its sampling noise.

    `shared` are deviations over draws (or groups of samples) in common with other estimates on the same samples; their
    squares sum to a variance. `own` is variance that nothing else shares.
    """

    value: float
    shared: Vector
    own: float = 0.0

    def __sub__(self, other: Estimate) -> Estimate:
        return Estimate(self.value - other.value, self.shared - other.shared, self.own + other.own)

    def wider(self, factor: float) -> Estimate:
        """The same value with its deviations multiplied."""
        return Estimate(self.value, factor * self.shared, factor**2 * self.own)

    @property
    def sd(self) -> float:
        """Standard error."""
        return float(np.sqrt((self.shared**2).sum() + self.own))


@dataclass(frozen=True)
class Bracket:
    """Two estimates that enclose a population value on average."""

    below: Estimate
    above: Estimate

    def __sub__(self, other: Bracket) -> Bracket:
        """Bracket of the difference of two population values."""
        return Bracket(self.below - other.above, self.above - other.below)

    def wider(self, factor: float) -> Bracket:
        """The same estimates with their deviations multiplied."""
        return Bracket(self.below.wider(factor), self.above.wider(factor))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Interval that holds the population value in at least `level` of all test sets."""
        c = _critical(self._width(), level)
        return float(self.below.value - c * self.below.sd), float(self.above.value + c * self.above.sd)

    def p_value(self) -> float:
        """1 - the highest level whose interval leaves out 0; at most 1."""
        c = max(_ratio(self.below.value, self.below.sd), _ratio(-self.above.value, self.above.sd))
        return float(min(1.0, ndtr(-c) + ndtr(-c - self._width())))

    def _width(self) -> float:
        """Distance of the two estimates in standard errors."""
        return _ratio(max(0.0, self.above.value - self.below.value), max(self.below.sd, self.above.sd))


def drawn(value: float, draws: Vector) -> Estimate:
    """Estimate whose noise is that of simulated values of it."""
    return Estimate(value, (draws - draws.mean()) / np.sqrt(draws.size))


def _ratio(value: float, sd: float) -> float:
    if sd > 0:
        return value / sd
    return 0.0 if value == 0 else float(np.copysign(np.inf, value))


def _critical(width: float, level: float) -> float:
    least, most = float(ndtri(level)), float(ndtri((1 + level) / 2))
    if width > most + 10:
        return least
    return float(brentq(lambda c: ndtr(c + width) - ndtr(-c) - level, min(least, 0.0), most + 1e-9))
