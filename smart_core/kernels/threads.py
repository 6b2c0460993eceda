"""Work in fixed pieces, shared between as many threads as PyTorch has: the pieces, and so the bits, stay the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

import torch

from smart_core.progress import Run

Piece = TypeVar("Piece")
Result = TypeVar("Result")

LOOK_EVERY = 0.05
"""Seconds between two looks at progress and cancel while waiting for a piece."""


def share(function: Callable[[Piece], Result], pieces: Sequence[Piece], run: Run, words: str) -> list[Result]:
    """`function` of every piece, in order."""
    return list(share_each(function, pieces, run, words))


def share_each(function: Callable[[Piece], Result], pieces: Sequence[Piece], run: Run, words: str) -> Iterator[Result]:
    """`function` of every piece, in order and as they come; a tick before each, and while waiting.

    The function must let go of the interpreter's lock for threads to help. Where it fails, or the run is cancelled,
    pieces that were not begun are dropped.
    """
    workers = min(torch.get_num_threads(), len(pieces))
    if workers <= 1:
        for number, piece in enumerate(pieces):
            run.tick(number / len(pieces), words)
            yield function(piece)
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting = [pool.submit(function, piece) for piece in pieces]
        try:
            for number, future in enumerate(waiting):
                run.tick(number / len(pieces), words)
                while not wait([future], LOOK_EVERY).done:
                    run.tick(number / len(pieces), words)
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
