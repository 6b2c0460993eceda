"""Progress, cancel and trace."""

from __future__ import annotations

import threading

import pytest

from smart_core.errors import Cancelled
from smart_core.progress import Run, Trace


def test_parts_map_into_the_whole():
    seen: list[float] = []
    run = Run(lambda fraction, words: seen.append(fraction))
    run.part(0.2, 0.6).part(0.5, 1.0).tick(1.0)
    assert seen == [pytest.approx(0.6)]


def test_a_set_token_raises_at_the_next_tick():
    token = threading.Event()
    run = Run(cancel=token).part(0.0, 0.5)
    run.tick(0.1)
    token.set()
    with pytest.raises(Cancelled):
        run.tick(0.2)


def test_trace_keeps_columns_in_step():
    trace = Trace()
    trace.record(objective=1.0, nll=2.0)
    trace.record(objective=0.5, nll=1.5)
    assert trace["objective"] == [1.0, 0.5]
    assert len(trace) == 2
