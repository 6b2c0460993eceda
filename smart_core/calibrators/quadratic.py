"""Quadratic scaling of two classes: logistic regression on the logit difference and its square."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from smart_core.calibrators.base import Calibrator, FitData, LineStyle
from smart_core.calibrators.inputs import TWO_CLASSES
from smart_core.calibrators.lbfgs import minimise_convex
from smart_core.calibrators.rows import map_rows
from smart_core.calibrators.rules import TEMPERATURES, WEIGHTS
from smart_core.calibrators.settings import setting
from smart_core.calibrators.ts import minimise_nll
from smart_core.device import precise
from smart_core.progress import Run
from smart_core.types import Logits, Probabilities

CLIP = 50.0
"""Tempered logit differences are kept within plus and minus this, where the sigmoid is 0 or 1 to 20 digits."""

LEAST_GAIN, MOST_STEPS = 1e-13, 500
"""The optimiser ends when it expects less gain than this, or after so many steps."""


@dataclass(kw_only=True, eq=False)
class Quadratic(Calibrator):
    """`q_1 = sigmoid(a + b x + c s(x))`, x the tempered logit difference of two classes, with the least NLL.

    `x = (z_1 - z_0) / T` with T of temperature scaling, where the fit starts, and `s(x) = sign(x) x^2`, which treats
    both classes alike; `square="plain"` takes `x^2` instead, as Berta et al. (2026) do for class-wise Gaussian scores
    of unequal variance. The loss is convex. It may change the prediction: the map crosses 1/2 where it wants.

    >>> import numpy as np, smart_core as sc
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=5000)
    >>> labels = (rng.random(5000) < 1 / (1 + np.exp(-0.5 - x))).astype(int)
    >>> fit = sc.Quadratic().fit(np.stack([0 * x, x], axis=1), labels)
    >>> bool(abs(fit.coefficients_[0] - 0.5) < 0.15)
    True
    """

    id = "quadratic"
    label = "Quadratic"
    summary = "A quadratic map of the logit difference of two classes."
    position = 20
    family = "One correction for all samples"
    style = LineStyle("#1F7A8C", "3px,1px", "diamond-open")
    needs = (TWO_CLASSES,)
    shapes = (("temperature_", (1,)), ("coefficients_", (3,)))
    rules = (("temperature_", TEMPERATURES), ("coefficients_", WEIGHTS))
    keeps_top1 = False
    parameters = 3

    square: str = setting(
        "signed", "signed: sign(x) x^2, which treats both classes alike; plain: x^2.", choices=("signed", "plain")
    )

    def _fit(self, data: FitData, run: Run) -> None:
        beta = minimise_nll(data.logits, data.labels, run.part(0.0, 0.2))
        self.temperature_ = torch.tensor([1.0 / beta], dtype=torch.float32, device=data.logits.device)
        rows = map_rows(self._terms, data.logits, run, "reading the logits").cpu().double()
        sign = 2.0 * data.labels.cpu().double() - 1.0

        def loss(w: Tensor) -> tuple[float, Tensor]:
            signed = sign * (rows @ w)
            slope = -(sign * torch.sigmoid(-signed)) @ rows / len(rows)
            return -float(logsigmoid(signed).mean()), slope

        curvature = (0.25 * rows.square()).mean(dim=0).clamp(min=1e-12)
        start = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64, device="cpu")
        tick = run.part(0.2, 1.0).tick
        found = minimise_convex(
            loss, start, curvature, MOST_STEPS, LEAST_GAIN, lambda step: tick(step / MOST_STEPS, "L-BFGS")
        )
        self.coefficients_ = found.float().to(data.logits.device)

    def _terms(self, logits: Logits) -> Tensor:
        """(n, 3): 1, x and its square."""
        x = ((precise(logits[:, 1]) - precise(logits[:, 0])) / self.temperature_).clamp(-CLIP, CLIP)
        square = x * x.abs() if self.square == "signed" else x * x
        return torch.stack([torch.ones_like(x), x, square], dim=1)

    def _probabilities(self, logits: Logits, features: Tensor | None) -> Probabilities:
        score = self._terms(logits) @ precise(self.coefficients_)
        q = torch.softmax(torch.stack([torch.zeros_like(score), score], dim=1), dim=1)
        return Probabilities(q.to(logits.dtype))

    def numpy_code(self) -> str:
        square = "x * np.abs(x)" if self.square == "signed" else "x * x"
        return f"""
            wide = z.astype(np.float64)
            x = np.clip((wide[:, 1:] - wide[:, :1]) / TEMPERATURE[0], -{CLIP}, {CLIP})
            a, b, c = COEFFICIENTS.astype(np.float64)
            score = a + b * x + c * {square}
            return softmax(score * np.array([0.0, 1.0])).astype(np.float32)
        """
