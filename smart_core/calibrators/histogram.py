"""Histogram binning (Zadrozny & Elkan, 2001) of the top-1 confidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smart_core.calibrators.base import LineStyle
from smart_core.calibrators.settings import setting
from smart_core.calibrators.toplabel import StairsCalibrator, bin_centres, equal_mass_edges, hits_in_bins
from smart_core.progress import Run
from smart_core.types import FloatArray


@dataclass(kw_only=True, eq=False)
class Histogram(StairsCalibrator):
    """`c(s) = hits_b / samples_b` for a confidence s in bin b: the bin's validation accuracy.

    Bins are `(l, u]`, of equal mass or equal width; an empty one keeps its centre. Departure: the original bins each
    class's probability and normalises; this bins the top-1 confidence, and the other classes share the rest.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits").validation
    >>> sc.Histogram(bins=5).fit(data.logits, data.labels).parameters  # five levels and four edges
    9
    """

    id = "histogram"
    label = "Histogram"
    summary = "Replaces the top-1 confidence by the validation accuracy of its bin."
    position = 12
    style = LineStyle("#A67400", "dashdot", "cross")

    bins: int = setting(15, "Number of bins.", low=1, high=1000)
    scheme: str = setting("mass", "Bins of equal mass (samples) or of equal width.", choices=("mass", "width"))

    def _fit_map(self, u: FloatArray, hits: FloatArray, run: Run) -> None:
        # Bins (l, u] of the confidence are bins [1 - u, 1 - l) of its complement, the convention of `stairs`.
        equal_width = np.linspace(0.0, 1.0, self.bins + 1)[1:-1].astype(np.float32).astype(np.float64)
        edges = equal_mass_edges(np.sort(u), self.bins) if self.scheme == "mass" else equal_width
        count, right = hits_in_bins(u, hits, edges)
        accuracy = right / np.maximum(count, 1.0)
        if self.scheme == "mass" and len(count) < self.bins:
            self.notices_.append(f"Tied confidences leave {len(count)} of the {self.bins} bins asked for.")
        self._store_stairs(edges, np.where(count > 0.0, accuracy, 1.0 - bin_centres(edges)))

    @property
    def parameters(self) -> int:
        """The levels, and the edges too if they depend on the data."""
        if not hasattr(self, "values_"):
            return 2 * self.bins - 1 if self.scheme == "mass" else self.bins
        return self.values_.numel() + (self.edges_.numel() if self.scheme == "mass" else 0)
