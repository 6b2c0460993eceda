"""Work on many rows in pieces, with a look at progress and cancel before each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from smart_core import kernels
from smart_core.device import rows_per_chunk
from smart_core.progress import Run
from smart_core.types import Logits

WORTH_LOADING = 1 << 20
"""Numbers from which on the compiled check is worth loading the compiler's package."""


def row_chunks(rows: Tensor, run: Run, words: str) -> Iterator[Tensor]:
    """Consecutive rows (n, K), few enough to stay in a processor's cache; a tick before each piece."""
    for chunk in rows.split(rows_per_chunk(rows.shape[1])):
        run.tick(0.0, words)
        yield chunk


def map_rows(function: Callable[[Logits], Tensor], rows: Tensor, run: Run, words: str) -> Tensor:
    """`function(rows)`, for a function that treats each row by itself."""
    return torch.cat([function(Logits(chunk)) for chunk in row_chunks(rows, run, words)])


def all_finite(rows: Tensor) -> bool:
    """Whether no entry is NaN or infinite; piece by piece, which is several times faster than at once."""
    finite = _finite_compiled if rows.numel() >= WORTH_LOADING and kernels.usable(rows) else _finite
    return all(finite(chunk) for chunk in rows.split(rows_per_chunk(rows.shape[1])))


def _finite(chunk: Tensor) -> bool:
    return bool(torch.isfinite(chunk).all())


def _finite_compiled(chunk: Tensor) -> bool:
    from smart_core.kernels.judging import all_finite

    return bool(all_finite(chunk.contiguous().numpy()))
