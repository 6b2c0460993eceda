"""No calibration: the model's own softmax."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from smart_core.calibrators.base import FitData, LineStyle, ReducedColumns
from smart_core.calibrators.temperature import TemperatureCalibrator
from smart_core.fitting.reduced import ReducedProfile
from smart_core.progress import Run
from smart_core.types import Logits


@dataclass(kw_only=True, eq=False)
class Vanilla(TemperatureCalibrator):
    """`q = softmax(z)`: the uncalibrated model, the baseline of every comparison.

    >>> import smart_core as sc
    >>> sc.Vanilla().fit([[0.0, 2.0], [1.0, 0.0]], [1, 0]).predict_proba([[0.0, 0.0]])
    array([[0.5, 0.5]], dtype=float32)
    """

    id = "vanilla"
    label = "Vanilla"
    summary = "The model's own softmax, unchanged."
    position = 0
    family = "One correction for all samples"
    style = LineStyle("#7A7A7A", "solid", "circle")
    reducible = True
    reads_curve = False
    top_label = True

    def _fit(self, data: FitData, run: Run) -> None:
        """Nothing to learn."""

    def _fit_confidence(self, confidence: Tensor, correct: Tensor, run: Run) -> None:
        """Nothing to learn."""

    def _map_confidence(self, confidence: Tensor) -> Tensor:
        return confidence

    def _evaluate_reduced(self, rows: ReducedProfile) -> ReducedColumns:
        """By the columns that are exact at T = 1, which takes a fraction of the time that the curve does."""
        u = rows.complement
        nll = -torch.log1p(-u) - rows.label_gap
        squares = (1.0 - u) ** 2 + rows.others_squared * u**2
        return ReducedColumns(1.0 - u, nll, squares - 2.0 * torch.exp(-nll) + 1.0, torch.ones_like(u))

    def _temperatures(self, logits: Logits) -> Tensor:
        return torch.ones(logits.shape[0], device=logits.device, dtype=logits.dtype)

    def numpy_code(self) -> str:
        return "return np.ones_like(z[:, 0])" if self.classes_ else "return confidence"
