"""No calibration: the model as it is."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from smart_core.calibrators.base import FitData
from smart_core.calibrators.temperature import TemperatureCalibrator
from smart_core.progress import Run
from smart_core.types import Logits


@dataclass(kw_only=True, eq=False)
class Vanilla(TemperatureCalibrator):
    """`q = softmax(z)`: the baseline every repair is judged against."""

    id = "vanilla"
    label = "Vanilla"
    summary = "The model's own softmax, unchanged."
    position = 0

    def _fit(self, data: FitData, run: Run) -> None:
        """Nothing to learn."""

    def _temperatures(self, logits: Logits) -> Tensor:
        return torch.ones(logits.shape[0], device=logits.device, dtype=logits.dtype)

    @property
    def parameters(self) -> int:
        return 0
