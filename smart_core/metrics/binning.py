"""Bins of the confidence axis: which bin a sample falls in, and the reliability table over the bins.

Equal-width bins are the intervals (l, u] with edges k/B, the first one closed at 0, so that every sample
counts. Adaptive bins sort the samples and cut them into B chunks of nearly equal size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray

from smart_core.metrics.arrays import Values, as_vector, confidence_and_correct
from smart_core.types import FloatArray, IntArray


def bin_edges(bins: int, dtype: DTypeLike = np.float64) -> FloatArray:
    """Edges k/B, k = 0..B, each rounded once to `dtype`.

    A float32 confidence that was meant to be 1/5 is the float32 nearest to 1/5, which lies above the
    float64 one; comparing in the precision of the confidences keeps it in the bin whose upper edge is 1/5.
    """
    if bins < 1:
        raise ValueError(f"the number of bins must be at least 1, got {bins}")
    return (np.arange(bins + 1) / bins).astype(dtype)


def bin_index(confidence: Values, bins: int = 15) -> IntArray:
    """Index b of the equal-width bin with b/B < p <= (b+1)/B; p = 0 belongs to bin 0."""
    p = as_vector(confidence)
    return np.clip(np.searchsorted(bin_edges(bins, p.dtype), p, side="left") - 1, 0, bins - 1)


def adaptive_order(confidence: FloatArray, bins: int) -> tuple[IntArray, IntArray]:
    """Stable sort order of the confidences, and the chunk number of each sorted sample (`np.array_split`
    sizes).
    """
    if bins < 1:
        raise ValueError(f"the number of bins must be at least 1, got {bins}")
    size, larger = divmod(confidence.size, bins)
    sizes = size + (np.arange(bins) < larger)
    return np.argsort(confidence, kind="stable"), np.repeat(np.arange(bins), sizes)


@dataclass(frozen=True)
class Reliability:
    """Reliability table; one entry a bin, NaN for the means of an empty bin.

    `gap` is confidence minus accuracy: positive where the model is over-confident.
    """

    edges: NDArray[np.float64]
    count: IntArray
    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    gap: NDArray[np.float64]

    @property
    def weight(self) -> NDArray[np.float64]:
        """Share of the samples in each bin, n_b / N."""
        return np.asarray(self.count / self.count.sum(), dtype=np.float64)


def reliability(confidence: Values, correct: Values, bins: int = 15, *, adaptive: bool = False) -> Reliability:
    """Count, mean confidence and accuracy of every bin.

    Edges of adaptive bins are the smallest confidence and then the largest one of each chunk.
    """
    p, a = confidence_and_correct(confidence, correct)
    if adaptive:
        order, index = adaptive_order(p, bins)
        p, a = p[order], a[order]
        last = np.cumsum(np.bincount(index, minlength=bins)) - 1
        edges = np.concatenate([p[:1], p[last]]).astype(np.float64)
    else:
        index, edges = bin_index(p, bins), bin_edges(bins).astype(np.float64)
    count = np.bincount(index, minlength=bins)
    with np.errstate(invalid="ignore"):
        mean_p = np.bincount(index, weights=p, minlength=bins) / count
        mean_a = np.bincount(index, weights=a, minlength=bins) / count
    return Reliability(edges, count, mean_p, mean_a, mean_p - mean_a)
