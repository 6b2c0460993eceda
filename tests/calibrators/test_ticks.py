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
from tests.calibrators.problems import Problem, over_confident

for method in methods().values():
    method.prepare()

LONGEST = 0.5
"""Seconds of the fitting thread's own time between two looks: 0.2 where this was written, more on a slow processor."""

SHORT = {"smart": {"epochs": 20}, "cts": {"sweeps": 1}, "fc": {"search": "coarse"}}
"""Fewer rounds of the same work."""


class Stopwatch:
    """A token that is never set and keeps the thread's time at each look."""

    def __init__(self) -> None:
        self.looks = [time.thread_time()]

    def is_set(self) -> bool:
        self.looks.append(time.thread_time())
        return False

    def longest_gap(self) -> float:
        times = [*self.looks, time.thread_time()]
        return max(later - earlier for earlier, later in pairwise(times))


@pytest.fixture(scope="module")
def problem() -> Problem:
    return over_confident(2000, 300, seed=1, width=64)


def watched(id: str, problem: Problem, arguments: dict[str, object], **settings: object) -> Stopwatch:
    calibrator = get(id, **settings)
    watch = Stopwatch()
    calibrator.fit(problem.logits, problem.labels, **arguments, cancel=watch)
    return watch


@pytest.mark.parametrize("id", list(methods()))
def test_a_fit_never_looks_away_for_long(id: str, problem: Problem):
    watch = watched(id, problem, problem.fit_arguments(), **SHORT.get(id, {}))
    assert watch.longest_gap() < LONGEST


@pytest.mark.parametrize("id", [id for id, method in methods().items() if method.uses])
def test_nor_where_it_reads_the_logits_for_want_of_features(id: str, problem: Problem):
    assert watched(id, problem, {}).longest_gap() < LONGEST


@pytest.mark.parametrize("indicator", list(INDICATORS))
def test_nor_with_any_indicator(indicator: str, problem: Problem):
    assert watched("smart", problem, {}, epochs=5, indicator=indicator).longest_gap() < LONGEST


@pytest.mark.parametrize("id", [id for id in methods() if id != "vanilla"])
def test_a_tall_problem_is_read_in_pieces(id: str, monkeypatch: pytest.MonkeyPatch):
    """With pieces a tenth as long as the set, each pass over it looks ten times or more."""
    small = over_confident(500, 80, seed=2)
    for name, module in list(sys.modules.items()):
        if name.startswith("smart_core.") and hasattr(module, "rows_per_chunk"):
            monkeypatch.setattr(module, "rows_per_chunk", lambda columns: 50)
    with_pieces = watched(id, small, small.fit_arguments(), **SHORT.get(id, {}))
    monkeypatch.undo()
    at_once = watched(id, small, small.fit_arguments(), **SHORT.get(id, {}))
    assert len(with_pieces.looks) >= len(at_once.looks) + 9


def test_a_batch_is_as_good_as_an_epoch_for_looking():
    """Twenty batches an epoch bring twenty looks."""
    small = over_confident(200, 4, seed=3)
    per_epoch = len(watched("smart", small, {}, epochs=10).looks)
    per_batch = len(watched("smart", small, {}, epochs=10, batch_size=10).looks)
    assert per_batch >= per_epoch + 10 * 20
