"""Density-aware calibration (Tomani et al., 2023): a temperature that grows with the distance to known samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from smart_core.calibrators.base import Calibrator, FitData, LineStyle, Shape
from smart_core.calibrators.neighbours import nearest_squares, unit_rows
from smart_core.calibrators.rows import map_rows
from smart_core.calibrators.rules import Rule, between
from smart_core.calibrators.settings import setting
from smart_core.calibrators.temperature import lift_top
from smart_core.calibrators.ts import T_LOW, minimise_nll
from smart_core.device import precise
from smart_core.fitting.profile import Profile, build_profile, gaps
from smart_core.progress import Run
from smart_core.types import FloatArray, Logits, Probabilities

SLOPE_LIMIT, INTERCEPT_LIMIT = 1e4, 100.0
"""Bounds of the slope and of the absolute intercept, as in the authors' code."""


@dataclass(kw_only=True, eq=False)
class DAC(Calibrator):
    """`q = softmax(z / T)`, `T = w_0 + w_1 s`, `w_1 >= 0`: s is the mean squared distance to the nearest neighbours.

    Distances are between L2-normalised features. The weights are those of least NLL, found from `w = (T of TS, 0)`; T
    is at least 0.05. Departures: the authors add up the distances of several layers to the neighbours among the
    training samples; this has one layer and looks among the validation samples, where a sample is not its own
    neighbour. Without features it reads the logits.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits").validation
    >>> dac = sc.DAC().fit(data.logits, data.labels, features=data.features)
    >>> bool(dac.weights_[1] >= 0)
    True
    """

    id = "dac"
    label = "DAC"
    summary = "A temperature that grows with the distance to the nearest validation samples."
    position = 26
    whole_rows = "without features it reads the logits"
    family = "With the network's features"
    style = LineStyle("#9C5BB5", "5px,1px", "star-diamond")
    rules = (
        ("reference_", between(-1.001, 1.001)),
        ("weights_", between(-4.1 * SLOPE_LIMIT, 4.1 * SLOPE_LIMIT)),
        ("weights_", Rule(lambda weights: bool(weights[1] >= 0), "end with a slope of at least 0")),
    )
    uses = ("features",)
    traceable = False  # it goes through the reference rows in pieces
    libraries = ("scipy.optimize",)

    neighbours: int = setting(50, "Nearest validation samples in the distance.", low=1, high=10_000)

    def _fit(self, data: FitData, run: Run) -> None:
        self.reference_ = map_rows(unit_rows, self._features_or_logits(data), run, "normalising")
        squares = nearest_squares(self.reference_, self.reference_, self.neighbours, run.part(0.0, 0.6))
        start = 1.0 / minimise_nll(data.logits, data.labels, run.part(0.6, 0.7))
        profile = build_profile(data.logits, data.labels, run.part(0.7, 0.9))
        weights = density_weights(profile, squares.mean(dim=1), start, run.part(0.9, 1.0))
        self.weights_ = torch.as_tensor(weights, dtype=torch.float32, device=data.logits.device)

    def learned(self) -> dict[str, Shape]:
        return {"reference_": ("n+1", "d" if self.features_used_ else self.classes_), "weights_": (2,)}

    def _probabilities(self, logits: Logits, features: Tensor | None) -> Probabilities:
        queries = unit_rows(precise(logits if features is None else features))
        intercept, slope = precise(self.weights_).unbind()
        distance = nearest_squares(queries, self.reference_, self.neighbours).mean(dim=1)
        temperature = (intercept + slope * distance).clamp(min=T_LOW)
        rows = torch.softmax(precise(gaps(logits)) / temperature.unsqueeze(1), dim=1)
        return lift_top(Probabilities(rows.to(logits.dtype)), logits)

    def numpy_code(self) -> str:
        return f"""
            queries = unit_rows({"x" if self.features_used_ else "z"})
            distance = nearest_squares(queries, REFERENCE, {self.neighbours}).mean(axis=1)
            intercept, slope = WEIGHTS.astype(np.float64)
            return tempered_softmax(z, np.maximum(intercept + slope * distance, {T_LOW}))
        """

    def _widest_row(self) -> int:
        return max(self.classes_, len(self.reference_))


def density_weights(profile: Profile, distance: Tensor, start: float, run: Run) -> FloatArray:
    """`(w_0, w_1)` of least NLL, by L-BFGS-B in terms of the standardised distance; never worse than TS."""
    from scipy.optimize import minimize

    mean, spread = float(distance.mean()), float(distance.std(correction=0))
    if spread < 1e-9:
        return np.array([start, 0.0])
    x = (distance - mean) / spread

    def loss(weights: FloatArray) -> tuple[float, FloatArray]:
        run.tick(0.5, "weighing the distance")
        theta = torch.tensor(weights, dtype=x.dtype, device=x.device, requires_grad=True)
        with torch.enable_grad():
            temperature = (theta[0] + theta[1] * x).clamp(min=T_LOW)
            value = profile.nll(1.0 / temperature).mean()
            (slope,) = torch.autograd.grad(value, theta)
        return float(value.detach()), slope.cpu().double().numpy()

    bounds = [(T_LOW, INTERCEPT_LIMIT), (0.0, SLOPE_LIMIT * spread)]
    found = minimize(loss, np.array([start, 0.0]), jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-9}).x
    best = found if loss(found)[0] <= loss(np.array([start, 0.0]))[0] else np.array([start, 0.0])
    return np.array([best[0] - best[1] * mean / spread, best[1] / spread])
