"""Estimates: what is predicted to take longer does, and the recommended set keeps its time."""

from __future__ import annotations

from pathlib import Path

import pytest

import smart_core as sc
from pages.shared.jobs import MAX_GROWTH, Job
from pages.shared.leaderboard import RECOMMENDED, RECOMMENDED_SECONDS
from smart_core.calibrators import methods
from smart_core.experiments.cost import fit_seconds
from smart_core.experiments.estimate import _others_running, machine_factor, methods_within_budget, row_seconds
from smart_core.progress import Run


@pytest.mark.parametrize("id", list(methods()))
def test_more_samples_and_classes_never_cost_less(id: str) -> None:
    small, wide, long = (fit_seconds(id, *size) for size in ((100, 10), (100, 1000), (10_000, 10)))
    assert 0 < small <= min(wide, long)


def test_the_recommended_set_leaves_out_what_takes_too_long() -> None:
    small, large = (sc.simulate_set(8, 8, classes, seed=0) for classes in (3, 5))
    assert methods_within_budget(RECOMMENDED_SECONDS, RECOMMENDED, small) == list(RECOMMENDED)
    cost = sum(row_seconds("cts", large, 5))
    assert "cts" not in methods_within_budget(0.9 * cost, ["cts"], large)
    assert methods_within_budget(1.1 * cost, ["cts"], large) == ["cts"]


def test_a_fit_that_is_cached_costs_only_its_intervals() -> None:
    data = sc.simulate_set(50, 50, 3, seed=0)
    values, intervals = row_seconds("smart", data, 3)
    assert row_seconds("smart", data, 3, cached=3) == (0.0, intervals)
    assert row_seconds("smart", data, 3, cached=2)[0] == pytest.approx(values / 3)
    assert row_seconds("fc", data, 3) == (0.0, 0.0)  # it cannot run without features


def test_the_machine_is_measured() -> None:
    assert machine_factor() > 0


def test_threads_that_compete_are_counted_now_where_the_system_lists_them(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter(range(1, 11))  # each counts the one that asks
    monkeypatch.setattr(Path, "read_text", lambda path: f"9.00 9.00 9.00 {next(counts)}/400 12345")
    assert _others_running() == pytest.approx(4.5)
    monkeypatch.setattr(Path, "read_text", lambda path: "")
    monkeypatch.setattr("os.getloadavg", lambda: (3.0, 2.0, 1.0), raising=False)
    assert _others_running() == 3.0


def test_progress_follows_the_weights() -> None:
    seen: list[float] = []
    for item, part in Run(lambda fraction, _: seen.append(fraction)).each("ab", [3.0, 1.0]):
        part.tick(1.0, item)
    assert seen == [0.75, 1.0]


def test_an_estimate_follows_the_pace_and_grows_by_at_most_half(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job("fit", "compare", "hash", estimate=10.0, state="running", started=0.0)
    now = [0.0]
    monkeypatch.setattr("pages.shared.jobs.time.monotonic", lambda: now[0])
    assert job.remaining() == 10.0
    now[0], job.fraction = 2.0, 0.5  # twice as fast as promised and more
    assert job.remaining() == pytest.approx(2.0)
    now[0], job.fraction = 10.0, 0.2  # five times as slow
    assert job.remaining() == pytest.approx(MAX_GROWTH * 10.0 - 10.0)
    now[0] = 16.0
    assert job.remaining() is None  # nothing more is promised
