"""Distances of samples to their nearest neighbours among the validation samples, for methods that read features."""

from __future__ import annotations

import torch
from torch import Tensor

from smart_core import kernels
from smart_core.device import rows_per_chunk
from smart_core.progress import Run

SAME = 1e-6
"""Squared distance below which a reference row counts as the query itself: about the resolution of float32."""


REUSE = 8
"""Chunks are this many times larger than elsewhere: each reads all reference rows, and a product of few rows waits for
the memory."""


MANY = 2000
"""Reference rows from which float64 queries look for their nearest ones in float32, at half the cost."""
SPARE = 5
"""Further candidates of that search: float32 resolves squared distances to about 1e-6, so that near ties may swap."""
GATHERED = 1 << 21
"""Numbers of candidates that are copied at once: 16 MB, below which the C library reuses memory between pieces."""


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
    pieces = reference.split(rows_per_chunk(REUSE * reference.shape[1]))  # so that copies of a piece stay in the cache
    own = torch.cat([torch.linalg.vecdot(piece, piece) for piece in (each.to(queries.dtype) for each in pieces)])
    coarse = own.float() if queries.dtype == torch.float64 and len(reference) > MANY else None
    if coarse is None:
        reference = reference.to(queries.dtype)
    size = rows_per_chunk(len(reference) // REUSE)
    parts = [torch.empty(0, wanted, device=queries.device, dtype=queries.dtype)]
    for start in range(0, len(queries), size):
        if run is not None:
            run.tick(start / len(queries), "finding neighbours")
        rows = queries[start : start + size]
        if coarse is None:
            product = torch.addmm(own, rows, reference.T, beta=-0.5)
        else:
            product = _among_candidates(rows, reference, own, coarse, min(wanted + 1 + SPARE, len(reference)))
        parts.append(_nearest(rows, product, wanted))
    return torch.cat(parts)


def _among_candidates(queries: Tensor, reference: Tensor, own: Tensor, coarse: Tensor, count: int) -> Tensor:
    """(N, count) `q.r - |r|^2 / 2` in float64 of the reference rows for which it is largest in float32."""
    found = torch.addmm(coarse, queries.float(), reference.T, beta=-0.5).topk(count, dim=1).indices
    if kernels.usable(reference):
        from smart_core.kernels.nearest import candidate_products

        products = torch.empty(len(queries), count, dtype=torch.float64)
        q, r, norms, place = (each.contiguous().numpy() for each in (queries, reference, own, found))
        candidate_products(q, r, norms, place, products.numpy())
        return products
    size = max(1, GATHERED // (count * reference.shape[1]))
    parts = [
        torch.einsum("nd,nkd->nk", rows, reference[place].to(rows.dtype)) - 0.5 * own[place]
        for rows, place in zip(queries.split(size), found.split(size), strict=True)
    ]
    return torch.cat(parts)


def _nearest(queries: Tensor, product: Tensor, wanted: int) -> Tensor:
    """`d^2 = |q|^2 - 2 (q.r - |r|^2 / 2)` of the nearest `wanted`, after dropping the query itself."""
    nearest = product.topk(wanted + 1, dim=1).values  # largest where d is least
    square = (torch.linalg.vecdot(queries, queries).unsqueeze(1) - 2.0 * nearest).clamp(min=0.0)
    return torch.where(square[:, :1] < SAME, square[:, 1:], square[:, :-1])
