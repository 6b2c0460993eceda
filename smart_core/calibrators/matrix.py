"""Matrix scaling (Guo et al., 2017): a linear map of the logits."""

from __future__ import annotations

from dataclasses import dataclass

from smart_core.calibrators.base import LineStyle
from smart_core.calibrators.linear import LinearCalibrator, Penalty, odir, strength


@dataclass(kw_only=True, eq=False)
class MatrixScaling(LinearCalibrator):
    """`q = softmax(W z + b)` on logits centred row by row, with the least validation NLL.

    Departures: the logits are centred, and from 100 classes on a prior keeps W and b near temperature scaling; `reg`
    replaces it by the off-diagonal and intercept penalties of Kull et al. (2019).

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits").validation
    >>> sc.MatrixScaling().fit(data.logits, data.labels).parameters
    110
    """

    id = "matrix"
    label = "Matrix"
    summary = "A full K x K linear map of the logits, with a bias."
    position = 4
    style = LineStyle("#2E8B3D", "longdashdot", "triangle-up-open")

    reg: float | None = strength(
        "Penalty on the mean squares of W off its diagonal and of b. "
        "None: 0 below 100 classes, else a prior fading like 1/N."
    )

    def _set_penalty(self, beta: float) -> Penalty | None:
        return None if self.reg is None else odir(self.reg, self.reg, beta)
