"""Work in fixed pieces, shared by as many threads as PyTorch has: the bits do not depend on their number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

import torch

from smart_core.progress import Run

Piece = TypeVar("Piece")
Result = TypeVar("Result")

TICK_EVERY = 0.05
"""Seconds between two ticks while waiting for a piece."""


def share(
    function: Callable[[Piece], Result], pieces: Sequence[Piece], run: Run, words: str, each: int = 1
) -> list[Result]:
    """`function` of every piece, in order."""
    return list(share_each(function, pieces, run, words, each))


def share_each(
    function: Callable[[Piece], Result], pieces: Sequence[Piece], run: Run, words: str, each: int = 1
) -> Iterator[Result]:
    """`function` of every piece, in order, each as soon as it is done; a tick before each, and while waiting.

    A thread is started for at least `each` pieces: on busy cores, starting one takes longer than a short piece.
    Threads help only if the function releases the interpreter's lock. If it fails, or the run is cancelled, pieces that
    were not started are dropped.
    """
    workers = min(torch.get_num_threads(), len(pieces) // each)
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
                while not wait([future], TICK_EVERY).done:
                    run.tick(number / len(pieces), words)
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
