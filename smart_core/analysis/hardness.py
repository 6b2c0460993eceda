"""Does an indicator measure hardness: its values against the distance to the decision boundary (C&W L2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smart_core.analysis.correlation import Correlation, correlate
from smart_core.errors import CalibrationError
from smart_core.fitting.indicators import scalar_indicator
from smart_core.metrics.binning import equal_mass_groups
from smart_core.types import BoolArray, Vector

if TYPE_CHECKING:
    from smart_core.data.logitset import Part


@dataclass(frozen=True, eq=False)
class Hardness:
    """The samples whose distance is known, and how many others there are."""

    indicator: str
    value: Vector
    """(A,) the indicator."""
    distance: Vector
    """(A,) L2 norm of the smallest change found that changes the prediction."""
    correct: BoolArray
    """(A,) whether the prediction is right."""
    index: NDArray[np.int64]
    """(A,) their rows in the part."""
    correlation: Correlation
    failed: int | None
    """Samples whose attack found no change; None if it is not known which samples were attacked."""
    unknown: int
    """All samples without a distance."""

    @property
    def missing(self) -> str:
        """The samples without a distance, in words; empty if there are none."""
        counts = {"without a distance": self.unknown}
        if self.failed is not None:
            counts = {"attacks failed": self.failed, "not attacked": self.unknown - self.failed}
        return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)


@dataclass(frozen=True, eq=False)
class Trend:
    """The distance in bins of equally many samples."""

    value: Vector
    """(B,) median of the indicator."""
    low: Vector
    """(B,) lower quartile of the distance."""
    median: Vector
    high: Vector
    """(B,) upper quartile."""
    count: NDArray[np.int64]


def hardness(
    part: Part, indicator: str = "margin", *, attacked: ArrayLike | None = None, seed: int = 0, resamples: int = 2000
) -> Hardness:
    """The indicator and the distance of every sample that has one, with their correlation.

    `part.cw_l2` is NaN both for samples that were not attacked and for failed attacks; `attacked`, a mask of the
    samples that were, tells them apart.

    >>> import smart_core as sc
    >>> part = sc.simulate_set(20, 100, 3, seed=0).test
    >>> known = sc.Part(part.logits, part.labels, cw_l2=np.sort(part.logits).astype(float) @ [0, -1, 1])
    >>> round(hardness(known, resamples=10).correlation.pearson, 3)
    1.0
    """
    if part.cw_l2 is None:
        raise CalibrationError("There are no C&W distances here; give a cw_l2 array, or make one with 'smart attack'.")
    distance = np.asarray(part.cw_l2, dtype=np.float64)
    known = np.isfinite(distance)
    failed = None
    if attacked is not None:
        mask = np.asarray(attacked, dtype=np.bool_).reshape(-1)
        if len(mask) != len(distance):
            raise CalibrationError(f"'attacked' has {len(mask):,} entries for {len(distance):,} samples.")
        failed = int((mask & ~known).sum())
    if not known.any():
        raise CalibrationError("No sample has a C&W distance: every entry of cw_l2 is missing.")
    index = np.flatnonzero(known)
    logits = part.logits[index]
    value = scalar_indicator(indicator, logits)
    return Hardness(
        indicator,
        value,
        distance[index],
        logits.argmax(axis=1) == part.labels[index],
        index,
        correlate(value, distance[index], seed, resamples),
        failed,
        int((~known).sum()),
    )


def trend(result: Hardness, bins: int = 10) -> Trend:
    """Quartiles of the distance in at most `bins` bins of the indicator; samples of equal value share a bin."""
    groups = equal_mass_groups(result.value, bins)
    low, median, high = np.stack([np.quantile(result.distance[group], [0.25, 0.5, 0.75]) for group in groups], axis=1)
    return Trend(
        np.array([np.median(result.value[group]) for group in groups]),
        low,
        median,
        high,
        np.array([len(group) for group in groups]),
    )
