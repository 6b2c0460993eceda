"""Bounds on seconds that hold on another processor, and beside other work on this one."""

from __future__ import annotations

import time

REFERENCE = 0.05
"""Seconds that `_work` takes on the processor on which the promises in docs/trust.md were measured, when it is idle."""


def _work() -> int:
    total = 0
    for number in range(1_000_000):
        total += number & 7
    return total


def slowdown() -> float:
    """How many times slower this machine is right now than the reference, at least 1: multiply bounds by it."""
    start = time.process_time()
    _work()
    return max(1.0, (time.process_time() - start) / REFERENCE)
