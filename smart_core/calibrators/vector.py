"""Vector scaling (Guo et al., 2017): a scale and a bias for each class."""

from __future__ import annotations

from dataclasses import dataclass

from smart_core.calibrators.base import LineStyle
from smart_core.calibrators.linear import LinearCalibrator, Penalty, strength


@dataclass(kw_only=True, eq=False)
class VectorScaling(LinearCalibrator):
    """`q = softmax(w * z + b)`, elementwise, on logits centred row by row, with the least validation NLL.

    Departures: the logits are centred, since a scale per class depends on their level, and from 100 classes on a prior
    keeps w and b near temperature scaling; `reg` replaces it.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits").validation
    >>> sc.VectorScaling().fit(data.logits, data.labels).parameters
    20
    """

    id = "vector"
    label = "Vector"
    summary = "A scale and a bias for each class's logit."
    position = 3
    style = LineStyle("#00875A", "longdash", "triangle-up")
    diagonal = True

    reg: float | None = strength(
        "Penalty on the mean squares of T w - 1 and of b. None: 0 below 100 classes, else a prior fading like 1/N."
    )

    def _set_penalty(self, beta: float) -> Penalty | None:
        return None if self.reg is None else Penalty(diagonal=self.reg, intercept=self.reg)
