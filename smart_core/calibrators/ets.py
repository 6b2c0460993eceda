"""Ensemble temperature scaling (Zhang, Kailkhura & Han, 2020)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from smart_core.calibrators.base import Calibrator, FitData, LineStyle, ReducedColumns
from smart_core.calibrators.rows import labelled_chunks
from smart_core.calibrators.rules import DISTRIBUTION, TEMPERATURES
from smart_core.calibrators.settings import setting
from smart_core.calibrators.temperature import lift_top
from smart_core.calibrators.ts import T_HIGH, T_LOW, best_beta, minimise_over_grid
from smart_core.device import widen
from smart_core.fitting.objectives import mse
from smart_core.fitting.profile import GAP_FLOOR, gaps
from smart_core.fitting.ragged import class_counts, present
from smart_core.fitting.reduced import ReducedProfile
from smart_core.metrics.proper import SMALLEST_PROBABILITY
from smart_core.progress import Run
from smart_core.types import FloatArray, Logits, Probabilities

LEAST_PROBABILITY = 1e-300
"""Label probabilities that underflow are raised to this, so that no logarithm is infinite."""

NO_WEIGHT = 1e-9
"""Weights below this are the optimiser's rounding and are set to 0."""


@dataclass(kw_only=True, eq=False)
class ETS(Calibrator):
    """`q = w_1 softmax(z / T) + w_2 softmax(z) + w_3 / K`, T and then the weights of least mean squared error.

    The weights lie on the simplex. Their problem is convex and never ends worse than `w = (1, 0, 0)`, which is
    temperature scaling. As in the authors' code, both steps minimise the squared error; `objective="nll"`, which the
    paper also names, ends close to temperature scaling. Departure: T may lie between 0.05 and 20 instead of 5.

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
    reducible = True
    shapes = (("temperature_", (1,)), ("weights_", (3,)))
    rules = (("temperature_", TEMPERATURES), ("weights_", DISTRIBUTION))
    libraries = ("scipy.optimize",)
    whole_rows = None
    parameters = 3  # the temperature and two free weights

    objective: str = setting("mse", "What T and the weights minimise on validation.", choices=("mse", "nll"))

    def _fit(self, data: FitData, run: Run) -> None:
        if self.objective == "nll":
            beta = best_beta(data, run)
            if data.reduced is None:
                members = label_probabilities(data.logits, data.labels, beta, run)
            else:
                members = widen(torch.stack(reduced_members(data.reduced, beta), dim=1)).numpy()
            weights = mixture_weights(np.maximum(members, LEAST_PROBABILITY), run)
        else:
            profile = data.profile(run.part(0.0, 0.3))
            beta = minimise_over_grid(profile, mse, run.part(0.3, 0.5))
            beta = min(max(beta, 1.0 / T_HIGH), 1.0 / T_LOW)
            if data.reduced is None:
                moments = mixture_moments(data.logits, data.labels, beta, run.part(0.5, 0.9))
            else:
                products = reduced_products(data.reduced, beta)
                hits = torch.stack(reduced_members(data.reduced, beta), dim=1)
                moments = widen(products).mean(dim=0).numpy(), widen(hits).mean(dim=0).numpy()
            weights = least_squares_weights(*moments, run)
        device = data.logits.device
        self.temperature_ = torch.tensor([1.0 / beta], dtype=torch.float32, device=device)
        self.weights_ = torch.as_tensor(weights, dtype=torch.float32, device=device)

    def _probabilities(self, logits: Logits, features: Tensor | None) -> Probabilities:
        d = gaps(logits)
        tempered, plain, uniform = self.weights_.unbind()
        mixture = (
            tempered * torch.softmax(d / self.temperature_, dim=1)
            + plain * torch.softmax(d, dim=1)
            + uniform * present(logits) / class_counts(logits)
        )
        return lift_top(Probabilities(mixture), logits)

    def _evaluate_reduced(self, rows: ReducedProfile) -> ReducedColumns:
        beta, weights = 1.0 / float(self.temperature_), self.weights_
        label = torch.stack(reduced_members(rows, beta), dim=1) @ weights
        top = torch.stack(reduced_members(rows, beta, top=True), dim=1) @ weights
        squares = torch.einsum("nab,a,b->n", reduced_products(rows, beta), weights, weights)
        nll = -torch.log(widen(label).clamp(min=SMALLEST_PROBABILITY))
        return ReducedColumns(top, nll, squares - 2.0 * label + 1.0)

    def numpy_code(self) -> str:
        return """
            d = gaps(z).astype(np.float64)
            tempered, plain, uniform = WEIGHTS.astype(np.float64)
            return lift_top(tempered * softmax(d / TEMPERATURE[0]) + plain * softmax(d) + uniform * even_shares(z), z)
        """


def label_probabilities(logits: Logits, labels: Tensor, beta: float, run: Run) -> FloatArray:
    """(N, 3): what the tempered softmax, the softmax and the uniform distribution give to the labels."""
    columns = []
    for chunk, y in labelled_chunks(logits, labels, run.part(0.5, 0.5), "reading label probabilities"):
        d = gaps(chunk).clamp(min=GAP_FLOOR)
        logs = [torch.log_softmax(scale * d, dim=1).gather(1, y).squeeze(1) for scale in (beta, 1.0)]
        columns.append(torch.stack([*logs, -torch.log(class_counts(chunk).squeeze(1))], dim=1))
    log_members = torch.cat(columns).cpu().to(torch.float64).numpy()
    return np.maximum(np.exp(log_members), LEAST_PROBABILITY)


def reduced_members(rows: ReducedProfile, beta: float, top: bool = False) -> list[Tensor]:
    """What the three members give to the label of each reduced row, or to its top class."""
    gap = torch.zeros_like(rows.label_gap) if top else rows.label_gap
    betas = [torch.full_like(gap, value) for value in (beta, 1.0)]
    return [*(torch.exp(b * gap - rows.log_partition(b)) for b in betas), torch.full_like(gap, 1.0 / rows.classes)]


def reduced_products(rows: ReducedProfile, beta: float) -> Tensor:
    """(N, 3, 3): `sum_k p_ak p_bk = exp(g(beta_a + beta_b) - g(beta_a) - g(beta_b))`; 1/K with the uniform member."""
    products = torch.full((len(rows), 3, 3), 1.0 / rows.classes)
    betas = [torch.full_like(rows.label_gap, value) for value in (beta, 1.0)]
    g = [rows.log_partition(b) for b in betas]
    for a in range(2):
        for b in range(2):
            products[:, a, b] = torch.exp(rows.log_partition(betas[a] + betas[b]) - g[a] - g[b])
    return products


def mixture_weights(members: FloatArray, run: Run) -> FloatArray:
    """The w on the simplex that minimises `-mean log(members @ w)`, a convex problem."""

    def loss(w: FloatArray) -> tuple[float, FloatArray]:
        run.tick(0.95, "weighing the ensemble")
        mixture = np.maximum(members @ w, LEAST_PROBABILITY)
        return -float(np.mean(np.log(mixture))), -np.mean(members / mixture[:, None], axis=0)

    return least_on_simplex(loss)


def mixture_moments(logits: Logits, labels: Tensor, beta: float, run: Run) -> tuple[FloatArray, FloatArray]:
    """Coefficients of the squared error of a mixture: the means of `sum_k p_ak p_bk`, (3, 3), and of `p_ay`, (3,)."""
    products, hits = np.zeros((3, 3)), np.zeros(3)
    for chunk, y in labelled_chunks(logits, labels, run, "comparing the members"):
        d = gaps(chunk).clamp(min=GAP_FLOOR)
        rows = [torch.softmax(scale * d, dim=1) for scale in (beta, 1.0)]
        for a, first in enumerate(rows):
            hits[a] += float(widen(first.gather(1, y)).sum())
            for b, second in enumerate(rows[: a + 1]):
                products[a, b] += float(widen(torch.linalg.vecdot(first, second)).sum())
    products, hits = products / len(logits), hits / len(logits)
    products[0, 1] = products[1, 0]
    products[2, :] = products[:, 2] = hits[2] = float((1.0 / widen(class_counts(logits))).mean())
    return products, hits


def least_squares_weights(products: FloatArray, hits: FloatArray, run: Run) -> FloatArray:
    """The w on the simplex that minimises `w' products w - 2 w' hits`, the mean squared error up to a constant."""

    def loss(w: FloatArray) -> tuple[float, FloatArray]:
        run.tick(0.95, "weighing the ensemble")
        return float(w @ products @ w - 2.0 * w @ hits), 2.0 * (products @ w - hits)

    return least_on_simplex(loss)


def least_on_simplex(loss: Callable[[FloatArray], tuple[float, FloatArray]]) -> FloatArray:
    """The three weights of least convex loss, by SLSQP; never worse than all on the first, temperature scaling."""
    from scipy.optimize import minimize

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
