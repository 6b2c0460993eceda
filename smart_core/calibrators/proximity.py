"""How close a sample lies to a reference set: `mean exp(-d^2)` over its nearest neighbours."""

from __future__ import annotations

import torch
from torch import Tensor

from smart_core.device import rows_per_chunk
from smart_core.progress import Run

SAME = 1e-6
"""Squared distance below which a reference row is taken for the query itself: about what float32 resolves."""


def unit_rows(values: Tensor) -> Tensor:
    """Rows divided by their L2 norm; the largest entry is divided out first, lest huge values overflow."""
    tiny = torch.finfo(torch.float32).tiny
    scaled = values / values.abs().amax(dim=1, keepdim=True).clamp(min=tiny)
    return scaled / scaled.norm(dim=1, keepdim=True).clamp(min=tiny)


def proximity(queries: Tensor, reference: Tensor, neighbours: int, run: Run | None = None) -> Tensor:
    """(N,) means of `exp(-d^2)` over the nearest reference rows, for normalised rows; chunk by chunk.

    A reference row at distance zero is the query itself, met again: one such row is left out. A validation
    sample therefore has the same proximity during the fit and when the calibrator is applied to it later. Computed in
    the queries' precision.
    """
    if len(reference) < 2:
        return torch.ones(len(queries), device=queries.device, dtype=queries.dtype)
    wanted = min(neighbours, len(reference) - 1)
    reference = reference.to(queries.dtype)
    own = torch.linalg.vecdot(reference, reference)
    size = rows_per_chunk(len(reference))
    parts = [_mean_kernel(queries[:0], reference, own, wanted)]
    for start in range(0, len(queries), size):
        if run is not None:
            run.tick(start / len(queries), "finding neighbours")
        parts.append(_mean_kernel(queries[start : start + size], reference, own, wanted))
    return torch.cat(parts)


def _mean_kernel(queries: Tensor, reference: Tensor, own: Tensor, wanted: int) -> Tensor:
    """`d^2 = |q|^2 + |r|^2 - 2 q.r`, the nearest `wanted` after dropping the query itself."""
    product = torch.addmm(own, queries, reference.T, beta=-0.5)  # q.r - |r|^2 / 2: largest where d is least
    nearest = product.topk(wanted + 1, dim=1).values
    square = (torch.linalg.vecdot(queries, queries).unsqueeze(1) - 2.0 * nearest).clamp(min=0.0)
    kernel = torch.exp(-square)
    met = square[:, :1] < SAME
    return torch.where(met, kernel[:, 1:], kernel[:, :-1]).mean(dim=1)
