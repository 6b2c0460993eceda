"""Distances of samples to their nearest neighbours among the validation samples, for methods that read features."""

from __future__ import annotations

import torch
from torch import Tensor

from smart_core.device import rows_per_chunk
from smart_core.progress import Run

SAME = 1e-6
"""Squared distance below which a reference row counts as the query itself: about the resolution of float32."""


REUSE = 8
"""Chunks are this many times larger than elsewhere: each reads all reference rows, and a product of few rows waits for
the memory."""


def unit_rows(values: Tensor) -> Tensor:
    """Rows divided by their L2 norm; the largest entry is divided out first, so that huge values do not overflow."""
    tiny = torch.finfo(torch.float32).tiny
    scaled = values / values.abs().amax(dim=1, keepdim=True).clamp(min=tiny)
    return scaled / scaled.norm(dim=1, keepdim=True).clamp(min=tiny)


def nearest_squares(queries: Tensor, reference: Tensor, neighbours: int, run: Run | None = None) -> Tensor:
    """(N, neighbours) squared distances of normalised rows to the nearest reference rows, chunk by chunk.

    A reference row at distance zero is the query itself, and one such row is left out. A validation sample therefore
    has the same neighbours during the fit and when the calibrator is applied to it later. There are at most as many
    neighbours as other reference rows; a single reference row is its own neighbour. The precision is the queries'.
    """
    if len(reference) < 2:
        return torch.zeros(len(queries), 1, device=queries.device, dtype=queries.dtype)
    wanted = min(neighbours, len(reference) - 1)
    reference = reference.to(queries.dtype)
    own = torch.linalg.vecdot(reference, reference)
    size = rows_per_chunk(len(reference) // REUSE)
    parts = [_nearest(queries[:0], reference, own, wanted)]
    for start in range(0, len(queries), size):
        if run is not None:
            run.tick(start / len(queries), "finding neighbours")
        parts.append(_nearest(queries[start : start + size], reference, own, wanted))
    return torch.cat(parts)


def _nearest(queries: Tensor, reference: Tensor, own: Tensor, wanted: int) -> Tensor:
    """`d^2 = |q|^2 + |r|^2 - 2 q.r` of the nearest `wanted`, after dropping the query itself."""
    product = torch.addmm(own, queries, reference.T, beta=-0.5)  # q.r - |r|^2 / 2: largest where d is least
    nearest = product.topk(wanted + 1, dim=1).values
    square = (torch.linalg.vecdot(queries, queries).unsqueeze(1) - 2.0 * nearest).clamp(min=0.0)
    return torch.where(square[:, :1] < SAME, square[:, 1:], square[:, :-1])
