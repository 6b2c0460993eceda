"""Temperature scaling (Guo et al., 2017): one temperature for all samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from smart_core import kernels
from smart_core.calibrators.base import FitData, LineStyle
from smart_core.calibrators.rules import TEMPERATURES
from smart_core.calibrators.settings import setting
from smart_core.calibrators.temperature import TemperatureCalibrator
from smart_core.device import rows_per_chunk, widen
from smart_core.fitting.objectives import OBJECTIVES, Objective
from smart_core.fitting.profile import GAP_FLOOR, Profile, gaps
from smart_core.kernels.threads import share
from smart_core.progress import Run
from smart_core.types import Logits

T_LOW, T_HIGH = 0.05, 20.0
"""The temperatures considered; a validation set without a single error would send T to 0."""

TOLERANCE = 1e-7
"""Width of the final bracket, in log beta."""

PIECES_PER_THREAD = 4
"""A chunk of rows takes about a millisecond, so that a thread pays only for several."""

SUBSAMPLE = 1000
"""Samples whose minimiser is the start of the search over all samples."""


@dataclass(kw_only=True, eq=False)
class TS(TemperatureCalibrator):
    """`q = softmax(z / T)` with the T of least validation NLL, or of another objective.

    The NLL is convex in 1 / T, so its minimum is found to six digits from any start. T is kept within 0.05 to 20; a
    notice says so if the minimum lies outside. Departure: the authors' code takes at most 50 steps of L-BFGS from T =
    1.5.

    >>> import smart_core as sc
    >>> data = sc.simulate(20_000, classes=3, law=lambda margin: 2.0)
    >>> ts = sc.TS().fit(data.logits, data.labels)
    >>> print(f"{float(ts.temperature_):.1f}")
    2.0
    """

    id = "ts"
    label = "TS"
    summary = "One temperature for every sample, the minimiser of the validation NLL."
    position = 1
    family = "One correction for all samples"
    style = LineStyle("#0B72C4", "solid", "square")
    reducible = True
    shapes = (("temperature_", (1,)),)
    rules = (("temperature_", TEMPERATURES),)
    parameters = 1

    objective: str = setting("nll", "What T minimises on validation.", choices=tuple(OBJECTIVES))
    sigma: float = setting(0.05, "Bandwidth of the soft bins (SoftECE objectives).", low=1e-3, high=2.0)
    delta: float = setting(1e-3, "Charbonnier smoothing.", low=1e-8, high=10.0, logarithmic=True)
    bins: int = setting(15, "Number of soft bins.", low=1, high=1000)

    def _fit(self, data: FitData, run: Run) -> None:
        if self.objective == "nll":
            beta = best_beta(data, run)
        else:
            loss = OBJECTIVES[self.objective].bind(sigma=self.sigma, delta=self.delta, bins=self.bins)
            beta = minimise_over_grid(data.profile(run), loss, run)
        temperature = min(max(1.0 / beta, T_LOW), T_HIGH)
        for end in (T_LOW, T_HIGH):
            if math.isclose(temperature, end, rel_tol=1e-5):
                temperature = end
        if temperature in (T_LOW, T_HIGH):
            self.notices_.append(
                f"The best temperature lies outside {T_LOW} to {T_HIGH}; it was held at {temperature:g}."
            )
        self.temperature_ = torch.tensor([temperature], dtype=torch.float32, device=data.logits.device)

    def _temperatures(self, logits: Logits) -> Tensor:
        return self.temperature_.expand(logits.shape[0])

    def numpy_code(self) -> str:
        return "return np.full_like(z[:, 0], TEMPERATURE[0])"


def best_beta(data: FitData, run: Run | None = None) -> float:
    """The beta of least mean NLL, of logits or of reduced rows."""
    if data.reduced is None:
        return minimise_nll(data.logits, data.labels, run)
    profile = data.reduced

    def slope(position: float) -> float:
        """`dNLL/dbeta`, which grows with beta."""
        beta = torch.full_like(profile.label_gap, math.exp(position), requires_grad=True)
        (gradient,) = torch.autograd.grad(widen(profile.nll(beta)).sum(), beta)
        return float(widen(gradient).mean())

    low, high = math.log(1.0 / T_HIGH), math.log(1.0 / T_LOW)
    while high - low > TOLERANCE * 10:
        (run or Run()).tick(0.0, "temperature scaling")
        middle = 0.5 * (low + high)
        low, high = (low, middle) if slope(middle) > 0.0 else (middle, high)
    return float(f"{math.exp(0.5 * (low + high)):.6g}")


def nll_slope(logits: Logits, labels: Tensor, beta: float, run: Run | None = None) -> tuple[float, float]:
    """First and second derivative of the mean NLL in beta, summed in float64 over row chunks.

    `dNLL/dbeta = mean(sum_k d_k softmax(beta d)_k) - mean(d_y)`; the second derivative is the mean variance of
    d under the softmax, hence never negative: the NLL is convex in beta.
    """
    size = rows_per_chunk(logits.shape[1])
    pieces = [slice(start, start + size) for start in range(0, len(logits), size)]
    sums = _compiled_sums if kernels.usable(logits, labels) else _sums

    def piece(rows: slice) -> tuple[float, float]:
        return sums(logits[rows], labels[rows], beta)

    parts = share(piece, pieces, run or Run(), "temperature scaling", each=PIECES_PER_THREAD)
    slope, curvature = (math.fsum(column) / len(logits) for column in zip(*parts, strict=True))
    return slope, curvature


def _sums(logits: Tensor, labels: Tensor, beta: float) -> tuple[float, float]:
    """Both derivatives, summed over one chunk of rows."""
    d = gaps(logits)
    label_gap = widen(d.gather(1, labels.unsqueeze(1))).sum()
    d = d.clamp(min=GAP_FLOOR)
    q = torch.softmax(beta * d, dim=1)
    mean = torch.linalg.vecdot(q, d)
    square = torch.linalg.vecdot(q, d * d)
    return float(widen(mean).sum() - label_gap), float(widen(square - mean * mean).sum())


def _compiled_sums(logits: Tensor, labels: Tensor, beta: float) -> tuple[float, float]:
    """The same in one loop."""
    from smart_core.kernels.partition import nll_sums

    slope, curvature = nll_sums(
        logits.contiguous().numpy(), labels.contiguous().numpy(), np.float32(beta), np.float32(GAP_FLOOR)
    )
    return slope, curvature


def minimise_nll(logits: Logits, labels: Tensor, run: Run | None = None) -> float:
    """The beta in [1/20, 1/0.05] with `dNLL/dbeta = 0`: Newton's steps in log beta, kept inside a bracket.

    The slope grows with beta, so its sign says on which side the root lies, and there is no other local minimum. For
    many samples the search starts at the minimiser of about `SUBSAMPLE` of them, so that fewer steps read them all. The
    result is rounded to six digits: the digits beyond are rounding in the sums and differ between devices.
    """
    position = 0.0
    if len(logits) >= 4 * SUBSAMPLE:
        some = slice(None, None, len(logits) // SUBSAMPLE)
        position = math.log(minimise_nll(Logits(logits[some].contiguous()), labels[some].contiguous(), run))
    low, high = math.log(1.0 / T_HIGH), math.log(1.0 / T_LOW)
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
    return float(f"{math.exp(position):.6g}")


def minimise_over_grid(profile: Profile, loss: Objective, run: Run) -> float:
    """The beta of least loss, which may have many local minima: a grid over log beta, narrowed around its best."""
    low, high = math.log(1.0 / T_HIGH), math.log(1.0 / T_LOW)
    best, rounds, points = 0.0, 4, 33
    for narrowing in range(rounds):
        grid = torch.linspace(low, high, points).tolist()
        values = []
        for number, position in enumerate(grid):
            run.tick((narrowing + number / points) / rounds, "searching for the temperature")
            values.append(float(loss(profile, torch.full_like(profile.correct, math.exp(position)))))
        best = grid[min(range(points), key=values.__getitem__)]
        reach = 1.5 * (high - low) / (points - 1)
        low, high = best - reach, best + reach
    return math.exp(best)
