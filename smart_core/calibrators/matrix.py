"""Matrix scaling (Guo et al., 2017): a linear map of the logits."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from smart_core.calibrators.linear import LinearCalibrator, Penalty, centred, odir
from smart_core.calibrators.settings import setting
from smart_core.types import Logits


@dataclass(kw_only=True, eq=False)
class MatrixScaling(LinearCalibrator):
    """`q = softmax(W z + b)` on logits centred row by row, with the least validation NLL."""

    id = "matrix"
    label = "Matrix"
    summary = "A full K x K linear map of the logits, with a bias."
    position = 4

    reg: float | None = setting(
        None,
        "Penalty on the mean squares of W off its diagonal and of b. "
        "None: 0 below 100 classes, else a prior fading like 1/N.",
        low=0.0,
        high=1e9,
        optional=True,
        kind=float,
    )

    def _inputs(self, logits: Logits) -> Tensor:
        return centred(logits)

    def _shape(self, classes: int) -> tuple[int, ...]:
        return (classes, classes)

    def _set_penalty(self, beta: float) -> Penalty | None:
        return None if self.reg is None else odir(self.reg, self.reg, beta)
