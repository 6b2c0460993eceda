"""Temperature scaling (Guo et al., 2017): one temperature for all samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from smart_core.calibrators.base import FitData, TemperatureCalibrator
from smart_core.calibrators.learned import Shape
from smart_core.calibrators.settings import setting
from smart_core.device import rows_per_chunk, widen
from smart_core.objectives import OBJECTIVES, Objective
from smart_core.profile import GAP_FLOOR, Profile, build_profile, gaps
from smart_core.run import Run
from smart_core.types import Logits

T_LOW, T_HIGH = 0.05, 20.0
"""The temperatures considered; a validation set without a single error would send T to 0."""

TOLERANCE = 1e-7
"""Width of the final bracket in log beta."""


@dataclass(kw_only=True, eq=False)
class TS(TemperatureCalibrator):
    """`q = softmax(z / T)` with the T that minimises the objective, NLL unless set otherwise."""

    id = "ts"
    label = "TS"
    summary = "One temperature for every sample, the minimiser of the validation NLL."
    position = 1

    objective: str = setting("nll", "What T minimises on validation.", choices=tuple(OBJECTIVES))
    sigma: float = setting(0.05, "Bandwidth of the soft bins (SoftECE objectives).", low=1e-3, high=2.0)
    delta: float = setting(1e-3, "Charbonnier smoothing.", low=1e-8, high=10.0, logarithmic=True)
    bins: int = setting(15, "Number of soft bins.", low=1, high=1000)

    def _fit(self, data: FitData, run: Run) -> None:
        if self.objective == "nll":
            beta = minimise_nll(data.logits, data.labels, run)
        else:
            loss = OBJECTIVES[self.objective].bind(sigma=self.sigma, delta=self.delta, bins=self.bins)
            beta = minimise_over_grid(build_profile(data.logits, data.labels, run), loss, run)
        temperature = min(max(1.0 / beta, T_LOW), T_HIGH)
        for end in (T_LOW, T_HIGH):
            if math.isclose(temperature, end, rel_tol=1e-5):
                temperature = end
        if temperature in (T_LOW, T_HIGH):
            self.notices_.append(
                f"The best temperature lies outside {T_LOW} to {T_HIGH}; it was held at {temperature:g}."
            )
        self.temperature_ = torch.tensor([temperature], dtype=torch.float32, device=data.logits.device)

    def learned(self) -> dict[str, Shape]:
        return {"temperature_": (1,)}

    def _temperatures(self, logits: Logits) -> Tensor:
        return self.temperature_.expand(logits.shape[0])

    @property
    def parameters(self) -> int:
        return 1


def nll_slope(logits: Logits, labels: Tensor, beta: float, run: Run | None = None) -> tuple[float, float]:
    """First and second derivative of the mean NLL in beta, summed in float64 over row chunks.

    `dNLL/dbeta = mean(sum_k d_k softmax(beta d)_k) - mean(d_y)`; the second derivative is the mean variance of
    d under the softmax, hence never negative: the NLL is convex in beta.
    """
    slope = curvature = 0.0
    size = rows_per_chunk(logits.shape[1])
    for start in range(0, logits.shape[0], size):
        if run is not None:
            run.tick(0.0, "temperature scaling")
        d = gaps(logits[start : start + size])
        label_gap = widen(d.gather(1, labels[start : start + size].unsqueeze(1))).sum()
        d = d.clamp(min=GAP_FLOOR)
        q = torch.softmax(beta * d, dim=1)
        mean = torch.linalg.vecdot(q, d)
        square = torch.linalg.vecdot(q, d * d)
        slope += float(widen(mean).sum() - label_gap)
        curvature += float(widen(square - mean * mean).sum())
    return slope / len(logits), curvature / len(logits)


def minimise_nll(logits: Logits, labels: Tensor, run: Run | None = None) -> float:
    """The beta in [1/20, 1/0.05] with `dNLL/dbeta = 0`: Newton's steps in log beta, kept inside a bracket.

    The slope grows with beta, so its sign tells on which side the root lies and no local stop is possible.
    """
    low, high = math.log(1.0 / T_HIGH), math.log(1.0 / T_LOW)
    position = 0.0
    for _ in range(100):
        beta = math.exp(position)
        slope, curvature = nll_slope(logits, labels, beta, run)
        if slope > 0.0:
            high = position
        else:
            low = position
        if high - low < TOLERANCE:
            break
        step = slope / (curvature * beta + slope) if curvature * beta + slope > 0.0 else math.inf
        following = position - step
        if not low < following < high:
            following = 0.5 * (low + high)
        if abs(following - position) < TOLERANCE:
            position = following
            break
        position = following
    return math.exp(position)


def minimise_over_grid(profile: Profile, loss: Objective, run: Run, rounds: int = 4, points: int = 33) -> float:
    """The beta of least loss: a grid over log beta, narrowed around its best point, for losses with many dips."""
    low, high = math.log(1.0 / T_HIGH), math.log(1.0 / T_LOW)
    best = 0.0
    for narrowing in range(rounds):
        grid = torch.linspace(low, high, points).tolist()
        values = []
        for number, position in enumerate(grid):
            run.tick((narrowing + number / points) / rounds, "searching for the temperature")
            values.append(float(loss(profile, _constant(profile, math.exp(position)))))
        best = grid[min(range(points), key=values.__getitem__)]
        reach = 1.5 * (high - low) / (points - 1)
        low, high = best - reach, best + reach
    return math.exp(best)


def _constant(profile: Profile, beta: float) -> Tensor:
    return torch.full_like(profile.correct, beta)
