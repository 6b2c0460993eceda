"""Vector scaling (Guo et al., 2017): a scale and a shift for each class."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from smart_core.calibrators.linear import LinearCalibrator, Penalty, centred
from smart_core.calibrators.settings import setting
from smart_core.types import Logits


@dataclass(kw_only=True, eq=False)
class VectorScaling(LinearCalibrator):
    """`q = softmax(w * z + b)`, elementwise, on logits centred row by row, with the least validation NLL."""

    id = "vector"
    label = "Vector"
    summary = "A scale and a bias for each class's logit."
    position = 3

    reg: float | None = setting(
        None,
        "Penalty on the mean squares of T w - 1 and of b. None: 0 below 100 classes, else a prior fading like 1/N.",
        low=0.0,
        high=1e9,
        optional=True,
        kind=float,
    )

    def _inputs(self, logits: Logits) -> Tensor:
        return centred(logits)

    def _shape(self, classes: int) -> tuple[int, ...]:
        return (classes,)

    def _set_penalty(self, beta: float) -> Penalty | None:
        return None if self.reg is None else Penalty(diagonal=self.reg, intercept=self.reg)
