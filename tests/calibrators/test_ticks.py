"""Every fit checks its cancel token often.

Importing a library for the first time is not counted: what the fits import on demand is imported here.
"""

from __future__ import annotations

import sys
import time
from itertools import pairwise

import pytest

from smart_core.calibrators import get, methods
from smart_core.fitting.indicators import INDICATORS
from tests.calibrators.fits import ALL
from tests.calibrators.problems import Problem, over_confident

for method in methods().values():
    method.prepare()

LONGEST = 0.5
"""Seconds of the fitting thread's own time between two checks; on a fast processor 0.2 is enough."""

SHORT = {"smart": {"epochs": 20}, "iop": {"epochs": 20}, "cts": {"sweeps": 1}, "fc": {"search": "coarse"}}
"""Fewer rounds of the same work."""


class Stopwatch:
    """A token that is never set and records the thread's time at each check."""

    def __init__(self) -> None:
        self.checks = [time.thread_time()]

    def is_set(self) -> bool:
        self.checks.append(time.thread_time())
        return False

    def longest_gap(self) -> float:
        times = [*self.checks, time.thread_time()]
        return max(later - earlier for earlier, later in pairwise(times))


@pytest.fixture(scope="module")
def problem() -> Problem:
    return over_confident(2000, 300, seed=1, width=64)


def watched(id: str, problem: Problem, arguments: dict[str, object], **settings: object) -> Stopwatch:
    calibrator = get(id, **settings)
    watch = Stopwatch()
    calibrator.fit(problem.logits, problem.labels, **arguments, cancel=watch)
    return watch


@pytest.mark.parametrize("id", ALL)
def test_a_fit_checks_for_cancellation_often(id: str, problem: Problem):
    watch = watched(id, problem, problem.fit_arguments(), **SHORT.get(id, {}))
    assert watch.longest_gap() < LONGEST


@pytest.mark.parametrize("id", [id for id, method in methods().items() if method.uses])
def test_a_fit_without_features_checks_for_cancellation_often(id: str, problem: Problem):
    assert watched(id, problem, {}).longest_gap() < LONGEST


@pytest.mark.parametrize("indicator", list(INDICATORS))
def test_a_fit_with_any_indicator_checks_for_cancellation_often(indicator: str, problem: Problem):
    assert watched("smart", problem, {}, epochs=5, indicator=indicator).longest_gap() < LONGEST


@pytest.mark.parametrize("id", [id for id in ALL if id != "vanilla"])
def test_many_rows_are_read_in_chunks(id: str, monkeypatch: pytest.MonkeyPatch):
    """With chunks of a tenth of the set, each pass over it checks ten times or more."""
    small = over_confident(500, 80, seed=2)
    for name, module in list(sys.modules.items()):
        if name.startswith("smart_core.") and hasattr(module, "rows_per_chunk"):
            monkeypatch.setattr(module, "rows_per_chunk", lambda columns: 50)
    with_pieces = watched(id, small, small.fit_arguments(), **SHORT.get(id, {}))
    monkeypatch.undo()
    at_once = watched(id, small, small.fit_arguments(), **SHORT.get(id, {}))
    assert len(with_pieces.checks) >= len(at_once.checks) + 9


def test_every_batch_checks_for_cancellation():
    """Twenty batches per epoch bring twenty checks."""
    small = over_confident(200, 4, seed=3)
    per_epoch = len(watched("smart", small, {}, epochs=10).checks)
    per_batch = len(watched("smart", small, {}, epochs=10, batch_size=10).checks)
    assert per_batch >= per_epoch + 10 * 20
