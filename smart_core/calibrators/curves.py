"""Functions of one variable that calibrators learn: broken lines and stairs, and the bins beneath them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from smart_core.types import FloatArray, IntArray


def broken_line(x: Tensor, nodes: Tensor, values: Tensor) -> Tensor:
    """Linear interpolation of `values` over increasing `nodes`, constant beyond both ends."""
    if nodes.numel() == 1:
        return values.expand(x.shape)
    x = x.contiguous()
    right = torch.searchsorted(nodes, x).clamp(1, nodes.numel() - 1)
    low, high = nodes[right - 1], nodes[right]
    weight = ((x - low) / (high - low)).clamp(0.0, 1.0)
    return values[right - 1] + weight * (values[right] - values[right - 1])


def stairs(x: Tensor, edges: Tensor, values: Tensor) -> Tensor:
    """`values[j]` for x in `[edges[j - 1], edges[j])`: one value more than there are edges."""
    return values[torch.searchsorted(edges, x.contiguous(), right=True)]


def bin_of(x: FloatArray, edges: FloatArray) -> IntArray:
    """The step of `stairs` that each x falls on."""
    return np.searchsorted(edges, x, side="right")


def equal_mass_edges(ordered: FloatArray, bins: int) -> FloatArray:
    """Inner edges, midway between neighbours, that cut increasing values into `bins` parts of like size.

    Equal values are never parted: a cut among them moves to their nearer end, so ties may give fewer bins.
    The values are float32 numbers, and so are the edges: that is how they are kept and compared later.
    """
    cuts = np.round(np.arange(1, bins) * len(ordered) / bins).astype(np.int64)
    cuts = cuts[(cuts > 0) & (cuts < len(ordered))]
    first = np.searchsorted(ordered, ordered[cuts], side="left")
    beyond = np.searchsorted(ordered, ordered[cuts], side="right")
    cuts = np.where(cuts - first <= beyond - cuts, first, beyond)
    cuts = np.unique(cuts[(cuts > 0) & (cuts < len(ordered))])
    below, above = ordered[cuts - 1], ordered[cuts]
    middle = (0.5 * (below + above)).astype(np.float32).astype(np.float64)
    return np.where(middle > below, middle, above)  # neighbouring float32 numbers have no middle


def equal_width_edges(bins: int) -> FloatArray:
    """Inner edges of `bins` parts of [0, 1] of equal width, as float32 numbers."""
    return np.linspace(0.0, 1.0, bins + 1)[1:-1].astype(np.float32).astype(np.float64)


def bin_centres(edges: FloatArray) -> FloatArray:
    """Midpoints of the parts of [0, 1] that the inner edges cut."""
    ends = np.concatenate([[0.0], edges, [1.0]])
    return 0.5 * (ends[:-1] + ends[1:])


def hits_in_bins(x: FloatArray, correct: FloatArray, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Samples and hits in each bin."""
    place = bin_of(x, edges)
    bins = len(edges) + 1
    count = np.bincount(place, minlength=bins).astype(np.float64)
    return count, np.bincount(place, correct, minlength=bins).astype(np.float64)
