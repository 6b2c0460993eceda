"""Cached fits: their keys, which fits are not made again, and which are never mixed up."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import pytest

import smart_core as sc
from smart_core.calibrators.base import Calibrator
from smart_core.experiments import method_result
from smart_core.experiments.compare import Comparison, compare
from smart_core.experiments.method_result import MethodResult, evaluate_method, fit_key
from tests.calibrators.problems import over_confident

SETTINGS = {"smart": {"epochs": 8}}


def made(seed: int) -> sc.LogitSet:
    problem = over_confident(500, 4, seed=seed)
    half = slice(0, 250), slice(250, None)
    return sc.LogitSet("made", *(sc.Part(problem.logits[rows], problem.labels[rows]) for rows in half))


@pytest.fixture(scope="module")
def data() -> sc.LogitSet:
    return made(1)


@dataclass
class Fresh:
    """A comparison without a cache, made by a worker thread, and what `on_result` saw of each row."""

    worker: threading.Thread
    seen: list[tuple[str, set[str], set[str], threading.Thread]]
    comparison: Comparison


@pytest.fixture(scope="module")
def fresh(data: sc.LogitSet) -> Fresh:
    seen: list[tuple[str, set[str], set[str], threading.Thread]] = []
    results: list[Comparison] = []

    def look(row: MethodResult) -> None:
        seen.append((row.id, set(row.values), set(row.intervals), threading.current_thread()))

    worker = threading.Thread(
        target=lambda: results.append(compare(data, "vanilla,ts,smart", 2, settings=SETTINGS, on_result=look))
    )
    worker.start()
    worker.join(120)
    return Fresh(worker, seen, results[0])


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """(method, seed) of every fit that is made."""
    made_so_far: list[tuple[str, int]] = []
    original = Calibrator.fit

    def counted(self: Calibrator, *arguments: object, **options: object) -> Calibrator:
        made_so_far.append((self.id, self.seed))
        return original(self, *arguments, **options)

    monkeypatch.setattr(Calibrator, "fit", counted)
    return made_so_far


def test_a_key_depends_on_what_the_fit_depends_on_and_nothing_else(data, monkeypatch: pytest.MonkeyPatch):
    key = fit_key(data, "smart", {"sigma": 0.05}, 0)
    same = [
        fit_key(data, "smart", None, 0),  # 0.05 is the default
        fit_key(data, "smart", {"epochs": 2000, "sigma": np.float64(0.05)}, np.int64(0)),
        fit_key(made(1), "smart", {}, 0),
        fit_key(sc.LogitSet("another name", data.validation, data.test), "smart", {}, 0),
    ]
    assert set(same) == {key}
    others = [
        fit_key(made(2), "smart", None, 0),
        fit_key(data.with_parts(test=data.validation), "smart", None, 0),
        fit_key(data, "pts", None, 0),
        fit_key(data, "smart", {"sigma": 0.06}, 0),
        fit_key(data, "smart", {"device": "cpu"}, 0),
        fit_key(data, "smart", None, 1),
    ]
    assert len({key, *others}) == 7
    monkeypatch.setattr(method_result, "__version__", "999")
    assert fit_key(data, "smart", None, 0) != key
    assert len(key) == 64
    int(key, 16)


def test_one_more_method_fits_only_that_one(data, fresh, fits):
    cache: dict = {}
    first = compare(data, "vanilla,smart", 2, settings=SETTINGS, cache=cache)
    assert fits == [("vanilla", 0), ("smart", 0), ("smart", 1)]
    assert len(cache) == 3
    fits.clear()
    second = compare(data, "vanilla,ts,smart", 2, settings=SETTINGS, cache=cache)
    assert fits == [("ts", 0)]
    without = fresh.comparison
    for id in ("vanilla", "smart"):
        assert second.results[id].values == first.results[id].values == without.results[id].values
        assert second.results[id].intervals == without.results[id].intervals
        assert second.results[id].floor == without.results[id].floor
        assert second.results[id].fit_seconds == first.results[id].fit_seconds
    assert second.tied == without.tied
    fits.clear()
    compare(data, "smart", 3, settings=SETTINGS, cache=cache)
    assert fits == [("smart", 2)]  # the floor of the model itself comes from the cached vanilla


def test_other_settings_and_other_data_are_not_mixed_up(data, fits):
    cache: dict = {}
    evaluate_method("smart", data, 1, settings={"epochs": 8}, cache=cache)
    evaluate_method("smart", data, 1, settings={"epochs": 9}, cache=cache)
    evaluate_method("smart", made(2), 1, settings={"epochs": 8}, cache=cache)
    assert len(fits) == len(cache) == 3


def test_other_bins_need_a_new_evaluation_but_no_fit(data, fresh, fits):
    cache: dict = {}
    evaluate_method("smart", data, 2, settings={"epochs": 8}, cache=cache)
    fits.clear()
    for bins in (10, 15):
        again = evaluate_method("smart", data, 2, settings={"epochs": 8}, bins=bins, cache=cache)
        assert fits == []
        alone = fresh.comparison.results["smart"]
        if bins != 15:
            alone = evaluate_method("smart", data, 2, settings={"epochs": 8}, bins=bins)
            fits.clear()
        assert (again.values, again.intervals, again.floor) == (alone.values, alone.intervals, alone.floor)
        assert again.evaluations[0].cells.bins == bins


def test_a_cancelled_row_keeps_its_finished_seeds_in_the_cache(data, fits):
    token = threading.Event()

    class Stopping(dict):
        def __setitem__(self, key: str, value: object) -> None:
            super().__setitem__(key, value)
            if len(self) == 2:
                token.set()

    cache = Stopping()
    result = compare(data, "smart", 4, settings=SETTINGS, cancel=token, cache=cache)
    assert result.results == {}
    assert not result.complete
    assert fits == [("smart", 0), ("smart", 1)]
    fits.clear()
    row = compare(data, "smart", 4, settings=SETTINGS, cache=cache).results["smart"]
    assert [fit for fit in fits if fit[0] == "smart"] == [("smart", 2), ("smart", 3)]
    assert len(row.values["ece"]) == 4


def test_only_the_first_seed_keeps_its_classwise_sums(data, monkeypatch: pytest.MonkeyPatch):
    cache: dict = {}
    row = evaluate_method("smart", data, 3, settings={"epochs": 3}, cache=cache)
    kept = [evaluation.cells is not None for _, _, evaluation in cache.values()]
    assert kept == [evaluation.cells is not None for evaluation in row.evaluations] == [True, False, False]
    again = evaluate_method("smart", data, 3, settings={"epochs": 3}, cache=cache)
    assert again.values["cece"] == row.values["cece"]
    monkeypatch.setattr("smart_core.experiments.method_result.CELLS_KEPT_UP_TO", data.classes - 1)
    assert evaluate_method("ts", data, 1, cache=cache).evaluations[0].cells is None
    assert evaluate_method("ts", data, 1, cache=cache).evaluations[0].cells is None


def test_on_result_gets_complete_rows_in_the_worker_thread(fresh):
    assert [id for id, *_ in fresh.seen] == ["vanilla", "ts", "smart"]
    for id, values, intervals, thread in fresh.seen:
        assert thread is fresh.worker
        assert values == set(fresh.comparison.results[id].values)
        assert intervals == set(fresh.comparison.results[id].intervals)
