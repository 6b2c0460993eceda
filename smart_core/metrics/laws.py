"""Which simulated law belongs to which metric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smart_core.metrics.arrays import Values, confidence_and_correct
from smart_core.metrics.binned_law import binned_law, equal_mass_cells, equal_width_cells
from smart_core.metrics.cells import CellSums, correlated_normals, joint_covariance
from smart_core.metrics.inversion import SimulatedLaw
from smart_core.metrics.smooth_law import smce_cells, smce_law, smece_cells, smece_law
from smart_core.types import FloatArray

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Family:
    """How the confidences are cut into cells, the law of the metric over them, and the number of draws it takes."""

    cells: Callable[[FloatArray, Vector, int], CellSums]
    law: Callable[[CellSums, NDArray[np.float64]], SimulatedLaw]
    draws: int


FAMILIES = {
    "ece": Family(equal_width_cells, binned_law, 2000),
    "adaece": Family(equal_mass_cells, binned_law, 2000),
    "smce": Family(lambda p, a, bins: smce_cells(p, a), smce_law, 1000),
    "smece": Family(lambda p, a, bins: smece_cells(p, a), smece_law, 1000),
}


def joint_cells(
    metric: str, sets: list[tuple[Values, Values]], bins: int, seed: int, draws: int | None = None
) -> list[tuple[CellSums, NDArray[np.float64]]]:
    """Cells of one or several (confidence, correct) on the same samples, each with correlated normals."""
    family = FAMILIES[metric]
    parts = [family.cells(*confidence_and_correct(*pair), bins) for pair in sets]
    count = family.draws if draws is None else draws
    normals = correlated_normals(joint_covariance(parts), count, np.random.default_rng(seed))
    ends = np.cumsum([0, *(part.cells for part in parts)])
    return [(part, normals[:, ends[i] : ends[i + 1]]) for i, part in enumerate(parts)]
