"""Bins of the confidence axis: which bin a sample falls in, and the reliability table over the bins.

Equal-width bins are the intervals (l, u] with edges k/B, the first one closed at 0, so that every sample counts.
Adaptive bins sort the samples and cut them into B chunks of nearly equal size. A cut never parts samples of equal
confidence: all go to the chunk that holds the middle of their ranks, so that the order of the samples does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray

from smart_core.metrics.arrays import MetricError, Values, as_vector, confidence_and_correct
from smart_core.types import FloatArray, IntArray, Vector

MOST_BINS = 1000


def check_bins(bins: int, fewest: int = 2) -> None:
    """Raise an error unless the number of bins is a whole number from `fewest` to 1000."""
    if isinstance(bins, bool) or not isinstance(bins, int | np.integer) or not fewest <= bins <= MOST_BINS:
        raise MetricError(f"The number of bins must be a whole number from {fewest} to {MOST_BINS}, not {bins}.")


def bin_edges(bins: int, dtype: DTypeLike = np.float64) -> FloatArray:
    """Return the edges k/B, k = 0..B, each rounded once to `dtype`.

    The float32 number nearest to 1/5 lies above the float64 one. Comparing in the precision of the confidences keeps a
    float32 confidence of 1/5 in the bin whose upper edge is 1/5.

    >>> bin_edges(4).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    check_bins(bins, fewest=1)
    return (np.arange(bins + 1) / bins).astype(dtype)


def bin_index(confidence: Values, bins: int = 15) -> IntArray:
    """Return the index b of the equal-width bin with b/B < p <= (b+1)/B; p = 0 belongs to bin 0.

    >>> bin_index([0.0, 0.25, 0.26, 1.0], bins=4).tolist()
    [0, 0, 1, 3]
    """
    p = as_vector(confidence, "confidences")
    return np.clip(np.searchsorted(bin_edges(bins, p.dtype), p, side="left") - 1, 0, bins - 1)


def adaptive_index(confidence: FloatArray, bins: int) -> IntArray:
    """Return the index of each sample's adaptive bin."""
    _, group, count = np.unique(confidence, return_inverse=True, return_counts=True)
    return adaptive_chunks(count, bins)[group.reshape(-1)]


def adaptive_chunks(count: IntArray, bins: int) -> IntArray:
    """Return the chunk (as of `np.array_split`) that holds the middle rank of each group of ties of these sizes."""
    ends = np.cumsum(count)
    size, larger = divmod(int(ends[-1]), bins)
    cuts = np.cumsum(size + (np.arange(bins) < larger))
    return np.searchsorted(cuts, ends - 1 - count // 2, side="right")  # the lower of two middle ranks


def equal_mass_groups(values: Vector, bins: int) -> list[NDArray[np.int64]]:
    """The samples' indices in at most `bins` groups of rising value and about equal size.

    A group starts at a value that occurs, so equal values share a group and no group is empty.
    """
    wanted = max(1, min(bins, len(values)))
    starts = np.unique(np.sort(values)[np.arange(wanted) * len(values) // wanted])
    member = np.searchsorted(starts, values, side="right") - 1
    order = np.argsort(member, kind="stable")
    return np.split(order, np.cumsum(np.bincount(member))[:-1])


@dataclass(frozen=True)
class Reliability:
    """Reliability table with one entry per bin; the means of an empty bin are NaN.

    `gap` is confidence minus accuracy: positive where the model is overconfident.
    """

    edges: Vector
    count: IntArray
    confidence: Vector
    accuracy: Vector
    gap: Vector

    @property
    def weight(self) -> Vector:
        """Share of the samples in each bin, n_b / N."""
        return np.asarray(self.count / self.count.sum(), dtype=np.float64)

    @property
    def ece(self) -> float:
        """Expected calibration error, sum_b (n_b / N) |gap_b|."""
        return float(np.nansum(self.weight * np.abs(self.gap)))


def reliability(confidence: Values, correct: Values, bins: int = 15, *, adaptive: bool = False) -> Reliability:
    """Return the number of samples, the mean confidence and the accuracy of each bin.

    The edges of adaptive bins are the smallest confidence, then the largest one up to the end of each chunk.

    >>> table = reliability([0.3, 0.8, 0.9], [0, 1, 0], bins=2)
    >>> table.count.tolist(), table.accuracy.tolist(), table.gap.round(2).tolist()
    ([1, 2], [0.0, 0.5], [0.3, 0.35])
    """
    check_bins(bins)
    if isinstance(table := getattr(confidence, "table", None), Reliability):  # `ConfidenceCells`: summed already
        return table
    p, a = confidence_and_correct(confidence, correct)
    index = adaptive_index(p, bins) if adaptive else bin_index(p, bins)
    count = np.bincount(index, minlength=bins)
    if adaptive:
        last = np.maximum(np.cumsum(count) - 1, 0)
        rising = np.sort(p)
        edges = np.concatenate([rising[:1], rising[last]]).astype(np.float64)
    else:
        edges = bin_edges(bins).astype(np.float64)
    with np.errstate(invalid="ignore"):
        mean_p = np.bincount(index, weights=p, minlength=bins) / count
        mean_a = np.bincount(index, weights=a, minlength=bins) / count
    return Reliability(edges, count, mean_p, mean_a, mean_p - mean_a)
