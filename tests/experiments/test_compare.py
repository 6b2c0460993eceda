"""The leaderboard: its values, its failures and its ties."""

from __future__ import annotations

import json
import sys
import threading

import numpy as np
import pytest

import smart_core as sc
from smart_core.calibrators.smart import SMART
from smart_core.calibrators.ts import TS
from smart_core.errors import CalibrationError
from smart_core.evaluation import HEADLINE
from smart_core.experiments import method_result
from smart_core.experiments.compare import compare, summarise
from smart_core.experiments.method_result import evaluate_method, point_values, with_intervals
from tests.calibrators.problems import over_confident


@pytest.fixture(scope="module")
def data() -> sc.LogitSet:
    problem = over_confident(1200, 5, seed=1)
    half = slice(0, 600), slice(600, None)
    return sc.LogitSet("made", *(sc.Part(problem.logits[rows], problem.labels[rows]) for rows in half))


@pytest.fixture(scope="module")
def result(data: sc.LogitSet):
    return compare(data, ["vanilla", "ts", "fc", "smart"], seeds=2, settings={"smart": {"epochs": 40}})


def test_json_has_the_published_shape(result):
    content = json.loads(result.to_json())
    sizes = {"classes": 5, "validation": 600, "test": 600}
    assert content["data"] == {"name": "made", "kind": "logits", **sizes, "notices": []}
    assert set(content["floor"]["ece"]) == {"mean", "q95"}
    assert content["methods"]["fc"] == {"available": False, "reason": "needs features and head"}
    smart = content["methods"]["smart"]
    assert smart["available"] is True
    assert smart["parameters"] == 49
    assert smart["keeps_top1"] is True
    names = {"ece", "adaece", "cece", "nll", "brier", "smce", "smece", "accuracy"}
    assert set(smart["metrics"]) == names
    for figures in smart["metrics"].values():
        assert set(figures) == {"mean", "std", "low", "high"}
        assert figures["low"] <= figures["high"]
    assert content["methods"]["ts"]["metrics"]["ece"]["std"] == 0.0
    assert smart["metrics"]["ece"]["std"] > 0.0


def test_values_equal_those_of_separate_fits(data, result):
    ts = TS().fit(data.validation.logits, data.validation.labels)
    rows = ts.predict_proba(data.test.logits)
    confidence, correct = sc.metrics.top_label(rows, data.test.labels)
    assert result.results["ts"].mean("ece") == sc.metrics.ece(confidence, correct)
    seeds = [
        sc.SMART(seed=seed, epochs=40)
        .fit(data.validation.logits, data.validation.labels)
        .predict_proba(data.test.logits)
        for seed in (0, 1)
    ]
    errors = [sc.metrics.ece(*sc.metrics.top_label(rows, data.test.labels)) for rows in seeds]
    assert result.results["smart"].mean("ece") == pytest.approx(np.mean(errors))
    assert result.results["smart"].std("ece") == pytest.approx(np.std(errors, ddof=1))


def test_the_uncalibrated_model_is_worse_than_the_methods_which_are_tied(result):
    assert result.best in ("ts", "smart")
    assert result.tied == {"vanilla": False, "ts": True, "smart": True}


def test_the_frame_has_one_row_per_method(result):
    frame = result.to_frame()
    assert list(frame.index) == ["vanilla", "ts", "fc", "smart"]
    assert frame.loc["smart", "ece"] == result.results["smart"].mean("ece")
    assert np.isnan(frame.loc["fc", "ece"])


def test_a_failing_method_has_its_reason_in_its_row(data, monkeypatch: pytest.MonkeyPatch):
    def broken(self, data, run):
        raise RuntimeError("out of luck")

    monkeypatch.setattr(TS, "_fit", broken)
    result = compare(data, "ts,vanilla", seeds=1)
    assert result.results["ts"].reason == "failed: RuntimeError: out of luck"
    assert result.results["vanilla"].available


def test_progress_and_finished_rows_are_reported_in_order(data):
    seen: list[float] = []
    rows: list[str] = []
    compare(
        data, "vanilla,ts", 1, progress=lambda f, words: seen.append(f), on_result=lambda result: rows.append(result.id)
    )
    assert rows == ["vanilla", "ts"]
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_point_values_are_reported_before_any_interval(data):
    events: list[tuple[str, bool]] = []
    compare(
        data,
        "vanilla,ts",
        2,
        on_values=lambda row: events.append((row.id, "ece" in row.intervals)),
        on_result=lambda row: events.append((row.id, "ece" in row.intervals)),
    )
    assert events == [("vanilla", False), ("ts", False), ("vanilla", True), ("ts", True)]


def test_a_row_in_two_steps_is_the_row_in_one(data):
    one = evaluate_method("smart", data, 2, settings={"epochs": 5})
    two = with_intervals(point_values("smart", data, 2, settings={"epochs": 5}))
    assert one.values == two.values
    assert one.intervals == two.intervals
    assert one.floor == two.floor
    assert set(one.intervals) == set(HEADLINE)


def test_a_cancelled_comparison_keeps_its_finished_rows(data):
    token = threading.Event()
    result = compare(data, "vanilla,ts,smart", 1, cancel=token, on_values=lambda row: row.id == "ts" and token.set())
    assert not result.complete
    assert list(result.results) == ["vanilla", "ts"]
    assert all(row.available for row in result.results.values())
    assert result.best == "ts"
    assert result.tied == {}
    content = json.loads(result.to_json())
    assert content["complete"] is False
    assert "Stopped early" in content["notices"][0]


def test_a_comparison_cancelled_before_its_first_row_is_an_empty_table(data):
    token = threading.Event()
    token.set()
    result = compare(data, "vanilla,ts", 1, cancel=token)
    assert result.to_frame().empty
    assert json.loads(result.to_json())["complete"] is False


def test_a_failing_interval_or_floor_does_not_affect_other_numbers(data, monkeypatch: pytest.MonkeyPatch):
    interval, floor = method_result.interval, method_result.noise_floor

    def interval_but_not_of_nll(name, *arguments, **options):
        if name == "nll":
            raise ZeroDivisionError("no luck")
        return interval(name, *arguments, **options)

    def floor_but_not_of_ece(name, *arguments, **options):
        if name == "ece":
            raise CalibrationError("too odd.")
        return floor(name, *arguments, **options)

    expected = compare(data, "ts", 1)
    monkeypatch.setattr(method_result, "interval", interval_but_not_of_nll)
    monkeypatch.setattr(method_result, "noise_floor", floor_but_not_of_ece)
    result = compare(data, "ts", 1)
    row = result.results["ts"]
    assert row.available
    assert row.values == expected.results["ts"].values
    assert set(expected.results["ts"].intervals) - set(row.intervals) == {"nll"}
    assert set(expected.results["ts"].floor) - set(row.floor) == {"ece"}
    assert "No interval of NLL: failed: ZeroDivisionError: no luck" in row.notices
    assert "No floor of ECE: too odd." in row.notices
    figures = json.loads(result.to_json())["methods"]["ts"]["metrics"]["nll"]
    assert figures["low"] is None
    assert figures["mean"] == expected.results["ts"].mean("nll")
    assert np.isnan(result.to_frame().loc["ts", "nll_low"])


def test_a_failing_seed_is_left_out_with_a_notice(data, monkeypatch: pytest.MonkeyPatch):
    original = SMART._fit

    def not_the_second(self, data, run):
        if self.seed == 1:
            raise RuntimeError("unlucky seed")
        original(self, data, run)

    settings = {"smart": {"epochs": 10}}
    alone = compare(data, "smart", 3, settings=settings).results["smart"]
    monkeypatch.setattr(SMART, "_fit", not_the_second)
    row = compare(data, "smart", 3, settings=settings).results["smart"]
    assert row.values["ece"] == [alone.values["ece"][0], alone.values["ece"][2]]
    assert "Seed 1: failed: RuntimeError: unlucky seed" in row.notices


def test_a_failing_paired_test_does_not_affect_the_rows(data, monkeypatch: pytest.MonkeyPatch):
    def broken(*arguments, **options):
        raise ValueError("no test today")

    monkeypatch.setattr(sys.modules["smart_core.experiments.compare"], "compare_all", broken)
    result = compare(data, "vanilla,ts", 1)
    assert result.best == "ts"
    assert result.tied == {}
    assert result.notices == ["No paired test of ECE: failed: ValueError: no test today"]


def test_paired_tests_can_be_left_to_a_later_call(data):
    whole, rows = compare(data, "vanilla,ts", 1), compare(data, "vanilla,ts", 1, paired_tests=False)
    later = summarise(data, rows.results)
    assert (rows.tied, rows.results["ts"].values) == ({}, whole.results["ts"].values)
    assert whole.tied
    assert (later.best, later.tied, later.floor) == (whole.best, whole.tied, whole.floor)


@pytest.mark.parametrize("metric", ["mce", "aurc", "ece_l2"])
def test_metrics_without_a_paired_test_still_rank(data, metric: str):
    result = compare(data, "vanilla,ts", 1, metric=metric)
    means = {id: row.mean(metric) for id, row in result.results.items()}
    assert result.best == min(means, key=means.get)
    assert result.tied == {}
    assert "no paired test" in result.notices[0]
    assert result.complete


def test_settings_of_an_unknown_method_are_refused(data):
    with pytest.raises(CalibrationError, match="no method 'smrt'"):
        compare(data, "smart", 1, settings={"smrt": {"epochs": 3}})
    with pytest.raises(CalibrationError, match="No method was given"):
        compare(data, "", 1)
    with pytest.raises(CalibrationError, match="No method was given"):
        compare(data, [], 1)


def test_other_bins_and_another_primary_metric(data):
    result = compare(data, "vanilla,ts", 1, bins=10, metric="cece")
    confidence, correct = sc.metrics.top_label(
        TS().fit(data.validation.logits, data.validation.labels).predict_proba(data.test.logits), data.test.labels
    )
    assert result.results["ts"].mean("ece") == sc.metrics.ece(confidence, correct, 10)
    assert result.metric == "cece"
    assert set(result.tied) == {"vanilla", "ts"}


@pytest.mark.parametrize("side", ["validation", "test"])
@pytest.mark.parametrize("id", ["gc", "procal"])
def test_features_of_one_part_only_are_not_used_and_give_a_notice(id: str, side: str):
    problem = over_confident(400, 5, seed=1)
    rows = {"validation": slice(0, 200), "test": slice(200, None)}
    parts = {
        name: sc.Part(problem.logits[half], problem.labels[half], problem.features[half] if name == side else None)
        for name, half in rows.items()
    }
    lopsided = sc.LogitSet("lopsided", parts["validation"], parts["test"])
    bare = sc.LogitSet("bare", *(sc.Part(part.logits, part.labels) for part in parts.values()))
    settings = {"gc": {"partitions": 2, "steps": 5}}
    row, expected = (compare(data, id, 1, settings=settings).results[id] for data in (lopsided, bare))
    assert row.available
    assert row.values == expected.values
    assert row.notices[0] == f"Only the {side} part has features."
    assert any("logits in their place" in notice for notice in row.notices)
    assert not any("Only the" in notice for notice in expected.notices)


def test_more_parameters_than_samples_give_a_notice():
    problem = over_confident(120, 8, seed=1)
    many = sc.GC(partitions=20, steps=2).fit(problem.logits, problem.labels)
    assert "360 parameters from 120 samples; expect overfitting." in many.notices_
    few = sc.GC(partitions=1, steps=2).fit(problem.logits, problem.labels)
    assert not any("overfitting" in notice for notice in few.notices_)


@pytest.mark.parametrize("id", ["matrix", "dirichlet"])
def test_a_row_with_more_parameters_than_samples_has_a_notice(id: str):
    problem = over_confident(120, 12, seed=1)
    parts = {size: sc.Part(problem.logits[:size], problem.labels[:size]) for size in (60, 120)}
    said = compare(sc.LogitSet("made", parts[60], parts[120]), id, 1).results[id].notices
    assert "156 parameters from 60 samples; expect overfitting." in said
    enough = over_confident(200, 12, seed=1)
    assert sc.calibrators.get(id).fit(enough.logits, enough.labels).notices_ == []
