"""No calibration: the model's own softmax."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from smart_core.calibrators.base import FitData, LineStyle
from smart_core.calibrators.temperature import TemperatureCalibrator
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
    top_label = True

    def _fit(self, data: FitData, run: Run) -> None:
        """Nothing to learn."""

    def _fit_confidence(self, confidence: Tensor, correct: Tensor, run: Run) -> None:
        """Nothing to learn."""

    def _map_confidence(self, confidence: Tensor) -> Tensor:
        return confidence

    def _temperatures(self, logits: Logits) -> Tensor:
        return torch.ones(logits.shape[0], device=logits.device, dtype=logits.dtype)

    def numpy_code(self) -> str:
        return "return np.ones_like(z[:, 0])" if self.classes_ else "return confidence"
