"""Ensemble temperature scaling (Zhang, Kailkhura & Han, 2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from smart_core.calibrators.base import Calibrator, FitData, LineStyle, Shape
from smart_core.calibrators.rows import row_chunks
from smart_core.calibrators.rules import DISTRIBUTION, TEMPERATURES
from smart_core.calibrators.temperature import lift_top
from smart_core.calibrators.ts import minimise_nll
from smart_core.device import rows_per_chunk
from smart_core.fitting.profile import GAP_FLOOR, gaps
from smart_core.progress import Run
from smart_core.types import FloatArray, Logits, Probabilities

LEAST_PROBABILITY = 1e-300
"""Label probabilities that underflow are raised to this, so that no logarithm is infinite."""

NO_WEIGHT = 1e-9
"""Weights below this are the optimiser's rounding and are set to 0."""


@dataclass(kw_only=True, eq=False)
class ETS(Calibrator):
    """`q = w_1 softmax(z / T) + w_2 softmax(z) + w_3 / K`, T of temperature scaling, weights of least NLL.

    The weights lie on the simplex. Their problem is convex and never ends worse than `w = (1, 0, 0)`, which is
    temperature scaling. Departure: the authors' code fits T and the weights on the mean squared error.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits").validation
    >>> ets = sc.ETS().fit(data.logits, data.labels)
    >>> round(float(ets.weights_.sum()), 6)
    1.0
    """

    id = "ets"
    label = "ETS"
    summary = "A mixture of the tempered softmax, the softmax itself and the uniform distribution."
    position = 2
    family = "One correction for all samples"
    style = LineStyle("#3B82D0", "dash", "square-open")
    rules = (("temperature_", TEMPERATURES), ("weights_", DISTRIBUTION))
    libraries = ("scipy.optimize",)
    parameters = 3  # the temperature and two free weights

    def _fit(self, data: FitData, run: Run) -> None:
        beta = minimise_nll(data.logits, data.labels, run)
        members = label_probabilities(data.logits, data.labels, beta, run)
        weights = mixture_weights(members, run)
        device = data.logits.device
        self.temperature_ = torch.tensor([1.0 / beta], dtype=torch.float32, device=device)
        self.weights_ = torch.as_tensor(weights, dtype=torch.float32, device=device)

    def learned(self) -> dict[str, Shape]:
        return {"temperature_": (1,), "weights_": (3,)}

    def _probabilities(self, logits: Logits, features: Tensor | None) -> Probabilities:
        d = gaps(logits)
        tempered, plain, uniform = self.weights_.unbind()
        mixture = (
            tempered * torch.softmax(d / self.temperature_, dim=1)
            + plain * torch.softmax(d, dim=1)
            + uniform / logits.shape[1]
        )
        return lift_top(Probabilities(mixture), logits)

    def numpy_code(self) -> str:
        return """
            d = gaps(z).astype(np.float64)
            tempered, plain, uniform = WEIGHTS.astype(np.float64)
            return lift_top(tempered * softmax(d / TEMPERATURE[0]) + plain * softmax(d) + uniform / CLASSES, z)
        """


def label_probabilities(logits: Logits, labels: Tensor, beta: float, run: Run) -> FloatArray:
    """(N, 3): what the tempered softmax, the softmax and the uniform distribution give to the labels."""
    columns = []
    chunks = row_chunks(logits, run.part(0.5, 0.5), "reading label probabilities")
    for chunk, y in zip(chunks, labels.unsqueeze(1).split(rows_per_chunk(logits.shape[1])), strict=True):
        d = gaps(chunk).clamp(min=GAP_FLOOR)
        logs = [torch.log_softmax(scale * d, dim=1).gather(1, y).squeeze(1) for scale in (beta, 1.0)]
        columns.append(torch.stack([*logs, torch.full_like(logs[0], -math.log(logits.shape[1]))], dim=1))
    log_members = torch.cat(columns).cpu().to(torch.float64).numpy()
    return np.maximum(np.exp(log_members), LEAST_PROBABILITY)


def mixture_weights(members: FloatArray, run: Run) -> FloatArray:
    """The w on the simplex that minimises `-mean log(members @ w)`, a convex problem, by SLSQP.

    Never worse than all weight on the first member, which is temperature scaling.
    """
    from scipy.optimize import minimize

    def loss(w: FloatArray) -> tuple[float, FloatArray]:
        run.tick(0.8, "weighing the ensemble")
        mixture = np.maximum(members @ w, LEAST_PROBABILITY)
        return -float(np.mean(np.log(mixture))), -np.mean(members / mixture[:, None], axis=0)

    found = minimize(
        loss,
        np.array([0.9, 0.05, 0.05]),
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * 3,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": np.ones_like},
        options={"maxiter": 500, "ftol": 1e-14},
    ).x
    found = np.where(found < NO_WEIGHT, 0.0, found)
    candidates = [found / found.sum(), np.array([1.0, 0.0, 0.0])]
    return min(candidates, key=lambda w: loss(w)[0])
