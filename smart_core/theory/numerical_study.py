"""The paper's numerical study: the temperature that a target confidence needs, against three indicators.

1,000 random 10-class rows, target 0.8; T against the margin, the largest logit and the normalised largest logit. The
paper names neither the law of its rows nor its normalisation. Here the logits are independent normals and
"normalised" is (z_max - mean) / standard deviation of the row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smart_core.equal_mass import equal_mass_groups
from smart_core.theory.margin_bounds import TemperatureBounds, temperature_bounds
from smart_core.theory.target_temperature import target_temperature

Array = NDArray[np.float64]

SAMPLES_A_GROUP = 40
"""Rows of about the same indicator, over which the spread of T is taken."""


@dataclass(frozen=True, eq=False)
class TargetStudy:
    """Rows with the T that gives each the target confidence; rows without such a T are left out and counted."""

    target: float
    classes: int
    indicators: dict[str, Array]
    """margin, max logit, normalised max logit: (N,) each."""
    temperature: Array
    """(N,)"""
    unsolved: int
    """Rows that no temperature brings to the target."""

    def bounds(self) -> TemperatureBounds:
        """The margin bounds of every row."""
        return temperature_bounds(self.indicators["margin"], self.target, self.classes)

    def outside(self, tolerance: float = 1e-9) -> int:
        """Rows whose T lies outside its margin bounds by more than a relative `tolerance`: 0, says the statement."""
        found = self.bounds()
        below = self.temperature < found.lower * (1 - tolerance)
        above = self.temperature > found.upper * (1 + tolerance)
        return int((below | above).sum())

    def spread(self, indicator: str) -> float:
        """How far T varies where the indicator does not: the 95 % over the 5 % quantile of T among about 40 rows of
        neighbouring values, median over such groups. 1 means that the indicator decides T."""
        if not self.temperature.size:
            return float("nan")
        groups = equal_mass_groups(self.indicators[indicator], max(1, self.temperature.size // SAMPLES_A_GROUP))
        ends = [np.quantile(self.temperature[group], [0.05, 0.95]) for group in groups if len(group)]
        return float(np.median([high / low for low, high in ends]))


def target_study(logits: NDArray[np.generic], target: float) -> TargetStudy:
    """T for the target confidence, and the three indicators, of given rows."""
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
    return TargetStudy(
        target,
        z.shape[1],
        {name: values[known] for name, values in indicators.items()},
        temperature[known],
        int((~known).sum()),
    )


def random_study(
    target: float = 0.8, classes: int = 10, rows: int = 1000, *, scale: float = 3.0, seed: int = 0
) -> TargetStudy:
    """The study on rows of independent normal logits of standard deviation `scale`."""
    return target_study(np.random.default_rng(seed).normal(scale=scale, size=(rows, classes)), target)
