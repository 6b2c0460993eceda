"""Work on many rows chunk by chunk, with a tick of progress and cancellation before each chunk."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from smart_core import kernels
from smart_core.device import rows_per_chunk
from smart_core.progress import Run
from smart_core.types import Logits

WORTH_LOADING = 1 << 20
"""Numbers from which the compiled check pays for loading the compiler's package, if it is not loaded yet."""


def row_chunks(rows: Tensor, run: Run, message: str) -> Iterator[Tensor]:
    """Consecutive rows (n, K), few enough to stay in a processor's cache; a tick before each chunk."""
    for chunk in rows.split(rows_per_chunk(rows.shape[1])):
        run.tick(0.0, message)
        yield chunk


def labelled_chunks(logits: Tensor, labels: Tensor, run: Run, message: str) -> Iterator[tuple[Logits, Tensor]]:
    """The same with the labels (n, 1) of the rows."""
    of_rows = labels.unsqueeze(1).split(rows_per_chunk(logits.shape[1]))
    for chunk, y in zip(row_chunks(logits, run, message), of_rows, strict=True):
        yield Logits(chunk), y


def map_rows(function: Callable[[Logits], Tensor], rows: Tensor, run: Run, message: str) -> Tensor:
    """`function(rows)`, for a function that treats each row by itself."""
    return torch.cat([function(Logits(chunk)) for chunk in row_chunks(rows, run, message)])


def all_finite(rows: Tensor) -> bool:
    """Whether no entry is NaN or infinite; chunk by chunk, which is several times faster than all rows at once."""
    chunks = rows.split(rows_per_chunk(rows.shape[1]))
    pays = rows.numel() >= WORTH_LOADING or "smart_core.kernels.logit_rows" in sys.modules
    if pays and kernels.usable(rows):
        from smart_core.kernels import logit_rows

        return all(logit_rows.all_finite(chunk.contiguous().numpy()) for chunk in chunks)
    return all(bool(torch.isfinite(chunk).all()) for chunk in chunks)
