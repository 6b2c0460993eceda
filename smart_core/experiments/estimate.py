"""Estimates of computations before they begin: predictions for one core, and how fast this machine is at present."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from smart_core.data.logitset import LogitSet
from smart_core.data.simulate import simulate_set
from smart_core.experiments.cost import evaluation_seconds, fit_seconds, interval_seconds
from smart_core.experiments.running import fit_method, seeds_for, unavailable

REFERENCE_SECONDS = 0.06
"""Duration of the fit that `machine_factor` times, on one quiet core of the reference machine."""


def row_seconds(id: str, data: LogitSet, seeds: int = 5, *, cached: int = 0) -> tuple[float, float]:
    """Predict the seconds of a leaderboard row: of its point values, and of their intervals and noise floors.

    `cached` of the seeds are fitted and evaluated already.
    """
    if unavailable(id, data) is not None:
        return 0.0, 0.0
    number = len(seeds_for(id, seeds))
    one = fit_seconds(id, len(data.validation), data.classes) + evaluation_seconds(id, data)
    return max(number - cached, 0) * one, number * interval_seconds(len(data.test))


def methods_within_budget(seconds: float, ids: Sequence[str], data: LogitSet, seeds: int = 5) -> list[str]:
    """Return the methods in their order as far as they end within these seconds on the reference machine.

    A method that would take too long is left out; quicker ones after it are not.

    >>> import smart_core as sc
    >>> methods_within_budget(1.0, ["vanilla", "ts", "cts"], sc.simulate_set(4000, 4000, 200, seed=0), seeds=1)
    ['vanilla', 'ts']
    """
    chosen, total = [], 0.0
    for id in ids:
        cost = sum(row_seconds(id, data, seeds))
        if total + cost <= seconds:
            chosen.append(id)
            total += cost
    return chosen


def machine_factor() -> float:
    """Measure how many times as long as on the reference machine a fit takes here and now, beside whatever else runs.

    This takes about 0.15 seconds, too short for the scheduler to give other processes their share, so the number of
    processes that compete for the cores counts too, where the system knows it.
    """
    data = _reference_data()
    start, cpu = time.perf_counter(), time.thread_time()
    for seed in range(3):
        fit_method("smart", data, seed=seed)
    wall, cpu = (time.perf_counter() - start) / 3, (time.thread_time() - cpu) / 3
    shared = cpu * max(1.0, (_others_running() + 1.0) / (os.cpu_count() or 1))
    return max(wall, shared) / REFERENCE_SECONDS


def _others_running() -> float:
    """Return how many other threads run or wait for a core: now where Linux counts them, else over the last minute."""
    try:
        counts = []
        for _ in range(10):
            time.sleep(0.005)
            counts.append(int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]) - 1)
        return sum(counts) / len(counts)
    except (OSError, ValueError, IndexError):
        return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


@lru_cache(maxsize=1)
def _reference_data() -> LogitSet:
    data = simulate_set(1000, 2, 10, seed=0)
    fit_method("smart", data)
    return data
