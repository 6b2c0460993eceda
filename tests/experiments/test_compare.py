"""The leaderboard: what it says, what it leaves out, and what it refuses to call a difference."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest

import smart_core as sc
from smart_core.calibrators.ts import TS
from smart_core.errors import Cancelled
from smart_core.experiments.compare import compare
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
    assert content["data"] == {"name": "made", "classes": 5, "validation": 600, "test": 600, "notices": []}
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


def test_values_are_those_of_a_fit_by_hand(data, result):
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


def test_the_model_itself_is_worse_than_the_repairs_and_they_are_tied(result):
    assert result.best in ("ts", "smart")
    assert result.tied == {"vanilla": False, "ts": True, "smart": True}


def test_frame_has_a_row_a_method(result):
    frame = result.to_frame()
    assert list(frame.index) == ["vanilla", "ts", "fc", "smart"]
    assert frame.loc["smart", "ece"] == result.results["smart"].mean("ece")
    assert np.isnan(frame.loc["fc", "ece"])


def test_a_method_that_fails_explains_itself_and_the_others_go_on(data, monkeypatch: pytest.MonkeyPatch):
    def broken(self, data, run):
        raise RuntimeError("out of luck")

    monkeypatch.setattr(TS, "_fit", broken)
    result = compare(data, "ts,vanilla", seeds=1)
    assert result.results["ts"].reason == "failed: RuntimeError: out of luck"
    assert result.results["vanilla"].available


def test_progress_rows_as_they_come_and_cancel(data):
    seen: list[float] = []
    rows: list[str] = []
    compare(
        data, "vanilla,ts", 1, progress=lambda f, words: seen.append(f), on_result=lambda result: rows.append(result.id)
    )
    assert rows == ["vanilla", "ts"]
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    token = threading.Event()
    token.set()
    with pytest.raises(Cancelled):
        compare(data, "ts", 1, cancel=token)


def test_other_bins_and_another_primary_metric(data):
    result = compare(data, "vanilla,ts", 1, bins=10, metric="cece")
    confidence, correct = sc.metrics.top_label(
        TS().fit(data.validation.logits, data.validation.labels).predict_proba(data.test.logits), data.test.labels
    )
    assert result.results["ts"].mean("ece") == sc.metrics.ece(confidence, correct, 10)
    assert result.metric == "cece"
    assert set(result.tied) == {"vanilla", "ts"}
