"""The ECE of many candidate confidences at once, on the device, for grid searches.

Bins are those of `smart_core.metrics`: equal width, `(l, u]` with edges rounded to float32, the first closed
at 0. Residuals are added as whole multiples of 2^-30: such sums do not depend on their order, so equal
candidates compare as equal and the device does not matter.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from smart_core.metrics.binning import bin_edges

UNIT = 2.0**30
"""One over the resolution of a residual; sums stay exact for up to 2^33 samples."""


def bin_of(confidence: Tensor, bins: int) -> Tensor:
    """The b with `b/B < p <= (b+1)/B`; p = 0 belongs to bin 0."""
    return torch.bucketize(confidence, torch.from_numpy(bin_edges(bins, np.float32)[1:-1]).to(confidence.device))


def candidate_ece(confidence: Tensor, correct: Tensor, bins: int) -> list[float]:
    """`sum_b |sum_{i in b} (p_i - a_i)| / N` for each row of (F, N) confidences and hits."""
    candidates, count = confidence.shape
    offset = torch.arange(candidates, device=confidence.device).unsqueeze(1) * bins
    cell = bin_of(confidence, bins).add_(offset)
    residual = (confidence - correct.to(confidence.dtype)).mul_(UNIT).round_()
    # |residual| <= 2^30 fits in int32; the detour is several times faster than going straight to int64
    units = residual.to(torch.int32).to(torch.int64)
    sums = torch.zeros(candidates * bins, dtype=torch.int64, device=confidence.device)
    sums.scatter_add_(0, cell.reshape(-1), units.reshape(-1))
    totals = sums.reshape(candidates, bins).abs().sum(dim=1)
    return [total / (UNIT * count) for total in totals.cpu().tolist()]
