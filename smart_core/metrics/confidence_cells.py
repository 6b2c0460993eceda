"""The sums of many samples over equal-width bins, from which ECE, its floor and its interval follow.

Above `SUMS_FROM_SAMPLES` samples, one pass over the confidences replaces those of every metric, and the sums of
calibrated labels over a cell are drawn from the normal distribution that they nearly have. A pass takes several groups
of samples at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from smart_core import kernels
from smart_core.metrics.binning import Reliability, bin_edges, bin_index
from smart_core.types import BoolArray, FloatArray, Matrix

SUMS_FROM_SAMPLES = 1 << 18
"""Samples from which sums take the place of the samples."""
PARTS = 8
"""Equal cells of a bin: within one, the spread of the confidence is negligible."""
NORMAL_FROM = 400.0
"""Variance of a cell's number of hits from which it is drawn as normal: its skewness is then at most 0.05."""


@dataclass(frozen=True, eq=False)
class ConfidenceCells:
    """Sums over the bins of one group of samples."""

    sums: NDArray[np.float64]
    """(bins, PARTS, 5): samples, and the sums of p, a, p (1 - p) and (p - a)^2."""

    @property
    def bins(self) -> int:
        """Number of bins."""
        return len(self.sums)

    @cached_property
    def by_bin(self) -> Matrix:
        """(5, bins) the sums of whole bins."""
        return np.asarray(self.sums.sum(axis=1).T)

    @property
    def samples(self) -> int:
        """Number of samples."""
        return round(float(self.by_bin[0].sum()))

    @cached_property
    def table(self) -> Reliability:
        """The reliability table."""
        count, p, a = self.by_bin[:3]
        with np.errstate(invalid="ignore"):
            confidence, accuracy = p / count, a / count
        edges = bin_edges(self.bins).astype(np.float64)
        return Reliability(edges, count.astype(np.int64), confidence, accuracy, confidence - accuracy)

    def calibrated_gaps(self, draws: int, seed: int) -> Matrix:
        """Draws (draws, bins) of the sums of (p - a) / N over each bin, for labels drawn from the confidences."""
        rng = np.random.default_rng(seed)
        count, p = self.sums[:, :, 0], self.sums[:, :, 1]
        variance = self.by_bin[3]
        gaps = rng.standard_normal((draws, self.bins)) * np.sqrt(variance)
        for b in np.flatnonzero((variance < NORMAL_FROM) & (count.sum(axis=1) > 0)):
            used = count[b] > 0
            n, total = count[b][used].astype(np.int64), p[b][used]
            hits = rng.binomial(n, np.clip(total / n, 0.0, 1.0), size=(draws, len(n)))
            gaps[:, b] = (total - hits).sum(axis=1)
        return np.asarray(gaps / self.samples)


def cells_of(
    confidence: FloatArray, correct: BoolArray, bins: int, group: NDArray[np.integer] | None = None, groups: int = 1
) -> list[ConfidenceCells]:
    """The sums of each group; without `group`, all samples are one.

    >>> (found,) = cells_of(np.array([0.3, 0.8, 0.9]), np.array([False, True, False]), 2)
    >>> found.table.count.tolist(), found.table.gap.round(2).tolist()
    ([1, 2], [0.3, 0.35])
    """
    cells = bins * PARTS
    sums = np.zeros((groups, cells, 5))
    member = np.zeros(1, dtype=np.int64) if group is None else np.ascontiguousarray(group)
    if kernels.enabled and kernels.installed():
        from smart_core.kernels.confidence_cells import confidence_sums

        p = np.ascontiguousarray(confidence)
        confidence_sums(p, np.ascontiguousarray(correct), member, bin_edges(cells, p.dtype), sums)
    else:
        index = bin_index(confidence, cells) + cells * (0 if group is None else member)
        p, a = confidence.astype(np.float64), correct.astype(np.float64)
        for place, weights in enumerate((None, p, a, p * (1 - p), (p - a) ** 2)):
            sums[:, :, place] = np.bincount(index, weights, minlength=groups * cells).reshape(groups, cells)
    return [ConfidenceCells(each.reshape(bins, PARTS, 5)) for each in sums]


def binned_sums_if_large(evaluation: object, bins: int) -> ConfidenceCells | None:
    """The sums that an evaluation of many samples keeps, or that stand for one; None for fewer, and for bare arrays."""
    if isinstance(evaluation, ConfidenceCells):
        return evaluation
    known = getattr(evaluation, "confidence_cells", None)
    return None if known is None else known(bins)
