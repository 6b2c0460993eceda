"""Isotonic regression (Zadrozny & Elkan, 2002) of the hits on the top-1 confidence."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from smart_core.calibrators.curves import broken_line
from smart_core.calibrators.toplabel import TopLabelCalibrator
from smart_core.run import Run


@dataclass(kw_only=True, eq=False)
class Isotonic(TopLabelCalibrator):
    """The non-decreasing function of the confidence with the least squared error to the hits."""

    id = "isotonic"
    label = "Isotonic"
    summary = "The best non-decreasing map from the top-1 confidence to accuracy, by pooling violators."
    position = 13
    learned = ("nodes_", "values_")

    def _fit_map(self, doubts: Tensor, correct: Tensor, run: Run) -> None:
        from sklearn.isotonic import IsotonicRegression

        regression = IsotonicRegression(y_min=0.0, y_max=1.0, increasing=False, out_of_bounds="clip")
        regression.fit(doubts.numpy(), correct.numpy())
        self.nodes_ = self._store(regression.X_thresholds_)
        self.values_ = self._store(regression.y_thresholds_)

    def _map(self, doubts: Tensor) -> Tensor:
        return broken_line(doubts, self.nodes_, self.values_)

    @property
    def parameters(self) -> int:
        """Nodes and values of the fitted line; they depend on the data, so 0 before the fit."""
        return self.nodes_.numel() + self.values_.numel() if hasattr(self, "nodes_") else 0
