"""Histogram binning (Zadrozny & Elkan, 2001) of the top-1 confidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from smart_core.calibrators.curves import (
    bin_centres,
    equal_mass_edges,
    equal_width_edges,
    hits_in_bins,
    stairs,
)
from smart_core.calibrators.learned import Shape
from smart_core.calibrators.settings import setting
from smart_core.calibrators.toplabel import TopLabelCalibrator
from smart_core.progress import Run


@dataclass(kw_only=True, eq=False)
class Histogram(TopLabelCalibrator):
    """Each bin's confidence becomes the accuracy of the validation samples in it."""

    id = "histogram"
    label = "Histogram"
    summary = "Replaces the top-1 confidence by the validation accuracy of its bin."
    position = 12

    bins: int = setting(15, "Number of bins.", low=1, high=1000)
    scheme: str = setting("mass", "Bins of equal mass (samples) or of equal width.", choices=("mass", "width"))

    def _fit_map(self, doubts: Tensor, correct: Tensor, run: Run) -> None:
        u, hits = doubts.numpy(), correct.numpy()
        # Confidence bins (l, u] are bins [1 - u, 1 - l) of the doubt, which is what `stairs` has.
        edges = equal_mass_edges(np.sort(u), self.bins) if self.scheme == "mass" else equal_width_edges(self.bins)
        count, right = hits_in_bins(u, hits, edges)
        accuracy = right / np.maximum(count, 1.0)
        if self.scheme == "mass" and len(count) < self.bins:
            self.notices_.append(f"Tied confidences leave {len(count)} of the {self.bins} bins asked for.")
        self.edges_ = self._store(edges)
        self.values_ = self._store(np.where(count > 0.0, accuracy, 1.0 - bin_centres(edges)))

    def learned(self) -> dict[str, Shape]:
        return {"edges_": ("n",), "values_": ("n+1",)}

    def _map(self, doubts: Tensor) -> Tensor:
        return stairs(doubts, self.edges_, self.values_)

    @property
    def parameters(self) -> int:
        """The levels, and the edges too where they depend on the data."""
        if not hasattr(self, "values_"):
            return 2 * self.bins - 1 if self.scheme == "mass" else self.bins
        return self.values_.numel() + (self.edges_.numel() if self.scheme == "mass" else 0)
