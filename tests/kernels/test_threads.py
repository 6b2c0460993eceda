"""Shared work: in order, cancelled in time, and with its errors."""

from __future__ import annotations

import threading
import time

import pytest
import torch

from smart_core.errors import Cancelled
from smart_core.kernels.threads import share, share_each
from smart_core.progress import Run


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_results_keep_their_order(threads: int):
    def slower_first(piece: int) -> int:
        time.sleep(0.01 * (5 - piece))
        return piece * piece

    assert share(slower_first, range(5), Run(), "") == [0, 1, 4, 9, 16]
    assert share(slower_first, [], Run(), "") == []


def test_an_error_comes_out(threads: int):
    def fails(piece: int) -> int:
        if piece == 2:
            raise ValueError("two")
        return piece

    with pytest.raises(ValueError, match="two"):
        share(fails, range(50), Run(), "")


def test_cancel_drops_what_was_not_begun(threads: int):
    token, begun = threading.Event(), []

    def work(piece: int) -> None:
        begun.append(piece)
        time.sleep(0.02)
        if piece == 3:
            token.set()

    with pytest.raises(Cancelled):
        share(work, range(1000), Run(cancel=token), "")
    assert len(begun) < 50


def test_a_consumer_that_stops_stops_the_rest(threads: int):
    begun = []

    def work(piece: int) -> int:
        begun.append(piece)
        time.sleep(0.1 if piece else 0.0)  # long enough for the consumer to get a core on a busy machine
        return piece

    results = share_each(work, range(1000), Run(), "")
    assert next(results) == 0
    results.close()
    assert len(begun) < 50


def test_progress_rises(threads: int):
    seen: list[float] = []
    share(lambda piece: time.sleep(0.02), range(20), Run(lambda fraction, words: seen.append(fraction)), "")
    assert seen == sorted(seen)
    assert len(seen) > 2
