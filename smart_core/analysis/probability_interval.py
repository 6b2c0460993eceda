"""How much the validation set leaves open at each confidence: the interval p0 to p1 of Venn-Abers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from smart_core.calibrators.vennabers import VennAbers
from smart_core.errors import CalibrationError
from smart_core.types import IntArray, Vector


@dataclass(frozen=True, eq=False)
class ProbabilityInterval:
    """Venn-Abers' p0 and p1 as step functions of the uncalibrated confidence."""

    edges: Vector
    """(n + 1,) rising confidences; p0 and p1 are constant between two of them."""
    low: Vector
    high: Vector
    samples: IntArray
    """(n,) of the given confidences."""

    @property
    def value(self) -> Vector:
        """The calibrated confidence, `p1 / (1 - p0 + p1)`."""
        return np.asarray(self.high / (1.0 - self.low + self.high))

    @property
    def width(self) -> float:
        """The mean of `p1 - p0` over the samples."""
        return float(np.average(self.high - self.low, weights=self.samples))


def probability_interval(calibrator: VennAbers, confidence: ArrayLike) -> ProbabilityInterval:
    """Return the steps of p0 and p1 from the least of the samples' uncalibrated confidences (N,) up to 1.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits")
    >>> vennabers = sc.VennAbers().fit_part(data.validation)
    >>> model = sc.evaluate(sc.Vanilla().fit_part(data.validation), data.test)
    >>> found = probability_interval(vennabers, model.confidence)
    >>> bool((found.low <= found.high).all()), int(found.samples.sum()) == len(data.test)
    (True, True)
    """
    given = np.asarray(confidence, dtype=np.float64).reshape(-1)
    if given.size == 0:
        raise CalibrationError("There are no samples whose interval could be shown.")
    nodes = 1.0 - np.concatenate(
        [calibrator.low_edges_.cpu().numpy(), calibrator.high_edges_.cpu().numpy()], dtype=float
    )
    least = min(given.min(), 1.0 - 1e-6)
    edges = np.unique([least, *nodes[(nodes > least) & (nodes < 1.0)], 1.0])
    low, high = calibrator.interval_at((edges[1:] + edges[:-1]) / 2)
    keep = np.append(True, (np.diff(low) != 0) | (np.diff(high) != 0))
    edges = np.append(edges[:-1][keep], 1.0)
    samples = np.histogram(given, edges)[0]
    return ProbabilityInterval(edges, low[keep], high[keep], samples)
