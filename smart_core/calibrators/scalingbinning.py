"""The scaling-binning calibrator (Kumar, Liang & Ma, 2019) of the top-1 confidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from smart_core.calibrators.base import LineStyle
from smart_core.calibrators.logistic import log_odds, one_outcome
from smart_core.calibrators.platt import platt_coefficients
from smart_core.calibrators.settings import setting
from smart_core.calibrators.toplabel import StairsCalibrator, equal_mass_edges, hits_in_bins
from smart_core.progress import Run
from smart_core.types import FloatArray


@dataclass(kw_only=True, eq=False)
class ScalingBinning(StairsCalibrator):
    """`c(s)`, the mean of the Platt-scaled confidences of the bin of s; the bins hold equally many samples.

    A bin's value is a mean of a smooth function, not of zeros and ones as in a histogram, so it is far less noisy; and
    as there are finitely many values, their calibration error can be measured. Departure: the paper fits the function,
    the bins and the means on three parts of the data; like its code, this uses all samples for each.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits").validation
    >>> len(sc.ScalingBinning(bins=5).fit(data.logits, data.labels).values_)
    5
    """

    id = "scalingbinning"
    label = "Scaling-binning"
    summary = "Platt scaling, averaged over bins of equally many samples."
    position = 23
    style = LineStyle("#C06A2B", "8px,2px,2px,2px", "diamond-wide")
    libraries = ("scipy.optimize",)

    bins: int = setting(15, "Number of bins.", low=1, high=1000)

    def _fit_map(self, u: FloatArray, hits: FloatArray, run: Run) -> None:
        self.notices_ += one_outcome(hits)
        slope, intercept = platt_coefficients(u, hits, run)
        scaled = torch.sigmoid(slope * log_odds(torch.from_numpy(u)) + intercept).numpy()
        # Platt's map is monotone, so bins of equally many of its values are bins of equally many confidences
        edges = equal_mass_edges(np.sort(u), self.bins)
        count, total = hits_in_bins(u, scaled, edges)
        self._store_stairs(edges, total / count)

    @property
    def parameters(self) -> int:
        """Platt's two, the levels and the edges."""
        return 2 + (2 * self.bins - 1 if not hasattr(self, "values_") else self.values_.numel() + self.edges_.numel())
