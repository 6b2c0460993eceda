"""Isotonic regression (Zadrozny & Elkan, 2002) of the hits on the top-1 confidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from smart_core.calibrators.curves import broken_line
from smart_core.calibrators.learned import Shape
from smart_core.calibrators.toplabel import TopLabelCalibrator
from smart_core.progress import Run
from smart_core.types import FloatArray


@dataclass(kw_only=True, eq=False)
class Isotonic(TopLabelCalibrator):
    """The non-decreasing function of the confidence with the least squared error to the hits."""

    id = "isotonic"
    label = "Isotonic"
    summary = "The best non-decreasing map from the top-1 confidence to accuracy, by pooling violators."
    position = 13
    libraries = ("scipy.optimize",)

    def _fit_map(self, doubts: Tensor, correct: Tensor, run: Run) -> None:
        nodes, values = non_increasing_line(doubts.numpy(), correct.numpy())
        self.nodes_, self.values_ = self._store(nodes), self._store(values)

    def learned(self) -> dict[str, Shape]:
        return {"nodes_": ("n+1",), "values_": ("n+1",)}

    def _map(self, doubts: Tensor) -> Tensor:
        return broken_line(doubts, self.nodes_, self.values_)

    @property
    def parameters(self) -> int:
        """Nodes and values of the fitted line; they depend on the data, so 0 before the fit."""
        return self.nodes_.numel() + self.values_.numel() if hasattr(self, "nodes_") else 0


def non_increasing_line(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Nodes and values of the non-increasing function of least squared error, linear between distinct x.

    Samples of equal x count as their mean. Nodes within a level, where the line is flat on both sides, are left out.
    """
    from scipy.optimize import isotonic_regression

    nodes, place, count = np.unique(x, return_inverse=True, return_counts=True)
    level = isotonic_regression(np.bincount(place, y) / count, weights=count, increasing=False).x
    falls = np.concatenate([[True], level[1:] != level[:-1], [True]])
    kept = falls[:-1] | falls[1:]
    return nodes[kept], level[kept]
