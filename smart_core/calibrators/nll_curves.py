"""Every sample's NLL as a curve over one shared temperature: tabulated once, then read at any temperature.

With `u = log beta`, `beta = 1/T`, the curves `NLL_i(u)` and their slopes `dNLL_i/du` are kept at evenly
spaced nodes and read by cubic Hermite interpolation, at the same cost for any number of classes. The NLL of a
group of samples is a sum of curves, so the best temperature of every group comes from one matrix product.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from smart_core.calibrators.ts import T_HIGH, T_LOW
from smart_core.profile import Profile
from smart_core.progress import Run

INTERVALS = 64
"""Steps of 0.094 in log beta: an interpolated NLL is then right to about 1e-5."""

LOWEST = math.log(1.0 / T_HIGH)
STEP = (math.log(1.0 / T_LOW) - LOWEST) / INTERVALS


@dataclass(frozen=True)
class NllCurves:
    """Values and slopes, (nodes, N)."""

    value: Tensor
    slope: Tensor

    @classmethod
    def of(cls, profile: Profile, run: Run) -> NllCurves:
        """Tabulate a profile between the temperatures that TS considers."""
        values, slopes = [], []
        for node in range(INTERVALS + 1):
            run.tick(node / INTERVALS, "tabulating the NLL")
            u = torch.full_like(profile.correct, LOWEST + node * STEP).requires_grad_()
            with torch.enable_grad():
                nll = profile.nll(torch.exp(u))
                (slope,) = torch.autograd.grad(nll.sum(), u)
            values.append(nll.detach())
            slopes.append(slope)
        return cls(torch.stack(values), torch.stack(slopes))

    def at(self, u: Tensor) -> Tensor:
        """`NLL_i(u_f)`, (F, N), for shared log inverse temperatures (F,); differentiable in `u`."""
        position = ((u - LOWEST) / STEP).clamp(0.0, float(INTERVALS))
        node = position.detach().floor().clamp(max=INTERVALS - 1).long()
        t = (position - node).unsqueeze(1)
        low, high = self.value[node], self.value[node + 1]
        low_slope, high_slope = self.slope[node] * STEP, self.slope[node + 1] * STEP
        square, cube = t * t, t * t * t
        bend = 3.0 * square - 2.0 * cube
        return low + bend * (high - low) + (cube - 2.0 * square + t) * low_slope + (cube - square) * high_slope

    def best_temperatures(self, members: Tensor) -> Tensor:
        """The T of least NLL for each row of a (F, N) 0/1 membership matrix; 1 for a group without members.

        Group slopes grow with u. Their sign change lies between two nodes, where the cubic through the four
        nearest nodes is bisected. Without a sign change T stays at an end of the range.
        """
        slopes = (members.to(self.slope.dtype) @ self.slope.T).cpu().to(torch.float64)
        crossing = (slopes <= 0.0).sum(dim=1).clamp(1, INTERVALS) - 1
        first = (crossing - 1).clamp(0, INTERVALS - 3)
        near = slopes.gather(1, first.unsqueeze(1) + torch.arange(4, device="cpu"))
        low = (crossing - first).to(torch.float64)
        high = low + 1.0
        for _ in range(40):
            middle = 0.5 * (low + high)
            below = _cubic_through(near, middle) <= 0.0
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        temperature = torch.exp(-(LOWEST + (first + 0.5 * (low + high)) * STEP))
        empty = (members.sum(dim=1) == 0).cpu()
        temperature[empty] = 1.0
        return temperature.to(torch.float32).to(members.device)


def _cubic_through(values: Tensor, x: Tensor) -> Tensor:
    """Lagrange's cubic through (0, v_0), (1, v_1), (2, v_2), (3, v_3), at x; row by row."""
    a, b, c = x - 1.0, x - 2.0, x - 3.0
    v0, v1, v2, v3 = values.unbind(dim=1)
    return (-v0 * a * b * c + 3.0 * v1 * x * b * c - 3.0 * v2 * x * a * c + v3 * x * a * b) / 6.0
