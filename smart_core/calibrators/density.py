"""Gaussian kernel density in two dimensions, evaluated in log space."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from smart_core.device import rows_per_chunk

LEAST_BANDWIDTH = 1e-6
"""Both coordinates lie in [0, 1]; anything narrower is rounding."""


@dataclass(frozen=True)
class Density:
    """`f(x) = 1/n sum_i prod_j N(x_j; p_ij, h_j^2)` over points (n, 2) with bandwidths h (2,)."""

    points: Tensor
    h: Tensor

    @staticmethod
    def bandwidth(points: Tensor, everyone: Tensor) -> Tensor:
        """The normal reference rule `h_j = 1.06 s_j n^(-1/6)`, s_j the population standard deviation.

        Points without spread in a coordinate borrow that of `everyone`. A coordinate in which nobody varies
        gets bandwidth 1: it then says the same of every group and drops out of their ratio.
        """
        own, common = _spread(points), _spread(everyone)
        s = torch.where(own > LEAST_BANDWIDTH, own, common)
        h = (1.06 * s * max(len(points), 1) ** (-1.0 / 6.0)).clamp(min=LEAST_BANDWIDTH)
        return torch.where(common > LEAST_BANDWIDTH, h, torch.ones_like(h))

    def log_mass(self, queries: Tensor) -> Tensor:
        """`log(n f(x))` up to the constant `log 2 pi`, (N,); chunked: n x N terms are never kept.

        In the queries' precision."""
        points, h = self.points.to(queries.dtype), self.h.to(queries.dtype)
        x, y = (points / h).T.contiguous()
        chunks = (queries / h).split(rows_per_chunk(len(points)))
        return torch.cat([_log_kernel_sum(chunk, x, y) for chunk in chunks]) - torch.log(h).sum()


def _log_kernel_sum(queries: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """`log sum_i exp(-|q - p_i|^2 / 2)` over points with coordinates x and y.

    Terms below e^-80 of the largest count nothing; held there, they do not become subnormal numbers, which
    are ten times slower.
    """
    first, second = queries[:, :1] - x, queries[:, 1:] - y
    exponent = first.mul_(first).addcmul_(second, second).mul_(-0.5)
    largest = exponent.amax(dim=1, keepdim=True)
    total = exponent.sub_(largest).clamp_(min=-80.0).exp_().sum(dim=1)
    return torch.log(total) + largest.squeeze(1)


def _spread(points: Tensor) -> Tensor:
    """Population standard deviation, column by column; zero without points."""
    if len(points) == 0:
        return torch.zeros(points.shape[1], device=points.device, dtype=points.dtype)
    return points.std(dim=0, correction=0)
