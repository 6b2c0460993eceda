"""Sensitivity, ablation, data efficiency, shift, traces and runtime on small sets where the answer is known."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

import smart_core as sc
from smart_core import kernels
from smart_core.errors import CalibrationError
from smart_core.evaluation import METRICS
from smart_core.experiments.data_efficiency import sizes_up_to
from smart_core.experiments.smart_batch import SmartBatch
from smart_core.fitting.indicators import INDICATORS
from smart_core.fitting.objectives import OBJECTIVES
from tests.calibrators.problems import over_confident
from tests.tolerance import binned_bound

QUICK = {"epochs": 25}


def labelled(n: int, seed: int, group: np.ndarray | None = None, temperature: float = 2.5) -> sc.Part:
    problem = over_confident(n, 5, seed=seed, temperature=temperature)
    return sc.Part(problem.logits, problem.labels, group=group)


@pytest.fixture(scope="module")
def data() -> sc.LogitSet:
    return sc.LogitSet("made", labelled(500, 1), labelled(600, 1, np.array(["fog", "snow"] * 300)))


def ece_of(calibrator, part: sc.Part) -> float:
    return sc.metrics.ece(*sc.metrics.top_label(calibrator.predict_proba(part.logits), part.labels))


def ece_off(calibrator, part: sc.Part) -> float:
    """How far the ECE may lie from that of another way to the same confidences."""
    return binned_bound(*sc.metrics.top_label(calibrator.predict_proba(part.logits), part.labels), 15)


def test_sensitivity_cells_are_single_fits(data):
    result = sc.sensitivity(data, sigmas=[0.05, 0.5], deltas=[0.001, 0.1, 1.0], seeds=2, settings=QUICK)
    assert result.mean().shape == (2, 3)
    fits = [
        sc.SMART(sigma=0.5, delta=0.1, seed=seed, **QUICK).fit(data.validation.logits, data.validation.labels)
        for seed in (0, 1)
    ]
    by_hand = [ece_of(fit, data.test) for fit in fits]
    off = max(ece_off(fit, data.test) for fit in fits)
    assert result.mean()[1, 1] == pytest.approx(np.mean(by_hand), abs=off)
    assert result.std()[1, 1] == pytest.approx(np.std(by_hand, ddof=1), abs=2 * off)
    content = json.loads(result.to_json())
    assert {"sigmas", "deltas", "metric", "mean", "std", "seconds"} <= set(content)
    assert np.shape(content["mean"]) == (2, 3)
    assert len(result.to_frame()) == 6


def test_a_cancelled_sensitivity_keeps_its_cells(data):
    token = threading.Event()
    result = sc.sensitivity(
        data, [0.05, 0.1], [0.001, 0.01], 1, settings=QUICK, cancel=token, on_cell=lambda i, j, r: token.set()
    )
    assert not result.complete
    assert np.isfinite(result.mean()).sum() == 1
    assert json.loads(result.to_json())["mean"][1][1] is None


def test_a_wrong_metric_no_seed_or_too_many_bins_is_an_error_before_any_work(data):
    wrong = {"no metric 'foo'": {"metric": "foo"}, "at least 1": {"seeds": 0}, "from 2 to 1000": {"bins": 100_000}}
    for words, arguments in wrong.items():
        for study in (sc.sensitivity, sc.compare, sc.ablation, sc.data_efficiency, sc.shift):
            with pytest.raises(CalibrationError, match=words):
                study(data, **arguments)


def test_ablation_fills_the_papers_two_tables(data):
    result = sc.ablation(data, seeds=1, methods=("ts", "smart"), settings={"smart": QUICK})
    assert result.objectives.mean().shape == (2, len(OBJECTIVES))
    assert result.indicators.mean().shape == (1, len(INDICATORS))
    assert np.isfinite(result.objectives.mean()).all()
    assert np.isfinite(result.indicators.mean()).all()
    ts = sc.TS(objective="brier").fit(data.validation.logits, data.validation.labels)
    column = result.objectives.columns.index("brier")
    assert result.objectives.mean()[0, column] == ece_of(ts, data.test)
    assert len(result.to_frame()) == 2 * len(OBJECTIVES) + len(INDICATORS)
    json.loads(result.to_json())


def test_data_efficiency_fits_on_subsets(data):
    result = sc.data_efficiency(data, ["ts", "isotonic"], sizes=[50, 500], seeds=2)
    assert result.columns == (50, 500)
    everything = sc.TS().fit(data.validation.logits, data.validation.labels)
    assert result.mean()[0, 1] == ece_of(everything, data.test)
    assert result.std()[0, 0] > 0.0  # small subsets differ from seed to seed
    assert sizes_up_to(700) == (50, 100, 200, 500, 700)


def test_shift_evaluates_groups_and_other_sets(data):
    softer = labelled(400, 7, temperature=5.0)
    result = sc.shift(data, ["ts"], seeds=1, others={"harder": softer})
    assert result.rows == ("vanilla", "ts")
    assert result.columns == ("fog", "snow", "harder")
    ts = sc.TS().fit(data.validation.logits, data.validation.labels)
    fog = data.test.groups()["fog"]
    assert result.mean()[1, 0] == ece_of(ts, fog)
    assert result.mean()[1, 2] == ece_of(ts, softer)
    expected = 1.0 - result.mean()[1] / result.mean()[0]
    np.testing.assert_allclose(result.reduction()[1], expected)
    np.testing.assert_allclose(result.reduction()[0], 0.0)


def test_shift_without_groups_is_an_error_with_a_fix():
    bare = sc.LogitSet("bare", labelled(100, 2), labelled(100, 3))
    with pytest.raises(CalibrationError, match="has no groups"):
        sc.shift(bare, ["ts"], 1)
    other = over_confident(50, 4, seed=1)
    with pytest.raises(CalibrationError, match="classes"):
        sc.shift(bare, ["ts"], 1, others={"four": sc.Part(other.logits, other.labels)})


def test_each_objective_decreases_in_its_trace(data):
    result = sc.traces(data, epochs=60)
    assert set(result.runs) == {"NLL", "SoftECE", "Charbonnier-SoftECE"}
    for trace in result.runs.values():
        assert len(trace["objective"]) == 60
        assert trace["objective"][-1] < trace["objective"][0]
    nll = result.runs["NLL"]
    np.testing.assert_allclose(nll["objective"], nll["nll"], rtol=1e-6)
    frame = result.to_frame()
    assert set(frame.columns) == {"epoch", "objective", "gradient_norm", "ece", "nll", "trained_on"}
    assert len(frame) == 180


def test_runtime_measures_the_methods_that_can_run(data):
    result = sc.runtime(data, "ts,fc,histogram", repeats=2)
    assert set(result.fit_seconds) == {"ts", "histogram"}
    assert all(len(seconds) == 2 for seconds in result.apply_seconds.values())
    assert list(result.to_frame()["method"]) == ["ts", "histogram"]
    assert result.reasons == {"fc": "needs features and head"}
    assert json.loads(result.to_json())["reasons"] == result.reasons


def test_methods_may_be_given_as_one_string(data):
    result = sc.ablation(
        data, seeds=1, methods="ts", objectives=["nll"], indicators=["margin"], settings={"smart": QUICK}
    )
    assert result.objectives.rows == ("ts",)
    assert sc.data_efficiency(data, "ts", sizes=[50], seeds=1).rows == ("ts",)
    assert sc.shift(data, "ts", seeds=1).rows == ("vanilla", "ts")
    for study in (sc.ablation, sc.data_efficiency, sc.shift, sc.runtime):
        with pytest.raises(CalibrationError, match="no method 't'"):
            study(data, methods="t")


def test_a_single_value_may_be_given_without_a_list(data):
    result = sc.ablation(data, 1, methods="ts", objectives="nll, brier", indicators="margin", settings={"smart": QUICK})
    assert result.objectives.columns == ("nll", "brier")
    assert result.indicators.columns == ("margin",)
    assert sc.data_efficiency(data, "ts", sizes=50, seeds=1).columns == (50,)
    grid = sc.sensitivity(data, 0.05, np.float32(0.5), 1, settings=QUICK)
    assert (grid.sigmas, grid.deltas) == ((0.05,), (0.5,))
    assert list(sc.traces(data, "nll", epochs=2).runs) == ["NLL"]


def test_invalid_values_are_an_error_before_any_work(data):
    for seeds in (1.5, "2", None, True):
        for study in (sc.sensitivity, sc.compare, sc.ablation, sc.data_efficiency, sc.shift):
            with pytest.raises(CalibrationError, match=r"seeds=.* must be a whole number, at least 1"):
                study(data, seeds=seeds)
    with pytest.raises(CalibrationError, match=r"repeats=1\.5"):
        sc.runtime(data, "ts", repeats=1.5)
    for sizes in (0, [10**9], [50.5], ["a"], "50"):
        with pytest.raises(CalibrationError, match="not a whole number from 1 to"):
            sc.data_efficiency(data, "ts", sizes=sizes)
    for sigmas in ("a", [None], [[0.1]]):
        with pytest.raises(CalibrationError, match=r"sigmas=.* must be numbers"):
            sc.sensitivity(data, sigmas)
    with pytest.raises(CalibrationError, match="objectives=3j is not a list"):
        sc.traces(data, 3j)


class After:
    """A cancel token that sets itself once so many cells (or looks) have been counted."""

    def __init__(self, count: int) -> None:
        self.left = count

    def count(self, *_: object) -> None:
        self.left -= 1

    def is_set(self) -> bool:
        return self.left <= 0


def test_a_cancelled_ablation_keeps_its_cells(data):
    token = After(2)
    result = sc.ablation(
        data,
        1,
        methods="ts,smart",
        objectives=["nll", "mse"],
        settings={"smart": QUICK},
        cancel=token,
        on_cell=token.count,
    )
    assert np.isfinite(result.objectives.mean()).tolist() == [[True, True], [False, False]]
    assert np.isnan(result.indicators.mean()).all()
    assert not result.objectives.complete
    assert not result.indicators.complete


def test_a_cancelled_data_efficiency_keeps_its_cells(data):
    token = After(3)
    result = sc.data_efficiency(data, "ts,beta", sizes=[50, 100], seeds=2, cancel=token, on_cell=token.count)
    assert np.isfinite(result.mean()).tolist() == [[True, True], [True, False]]
    assert not result.complete


def test_a_cancelled_shift_keeps_its_rows(data):
    token = After(1)
    result = sc.shift(data, "ts", seeds=1, cancel=token, on_row=token.count)
    assert np.isfinite(result.mean()).tolist() == [[True, True], [False, False]]
    assert not result.complete


@pytest.mark.parametrize("compiled", [True, False])
def test_a_cell_is_finished_or_empty(data, compiled: bool, monkeypatch: pytest.MonkeyPatch):
    """A mean over the one seed that was finished would stand among means over three."""
    monkeypatch.setattr(kernels, "enabled", compiled)
    token = threading.Event()
    original, judged = METRICS["smce"], []

    def stop_at_the_fifth(evaluation, bins):
        judged.append(1)
        if len(judged) == 5:  # the second seed of the second cell
            token.set()
        return original.value(evaluation, bins)

    monkeypatch.setitem(METRICS, "smce", replace(original, value=stop_at_the_fifth))
    result = sc.sensitivity(data, [0.05, 0.5], [0.001], 3, settings=QUICK, cancel=token)
    assert np.isfinite(result.metrics["ece"]).tolist() == [[[True] * 3], [[False] * 3]]


def test_a_batch_of_fits_equals_single_fits(data, monkeypatch: pytest.MonkeyPatch):
    """Every metric, against fits made and judged one by one; and the threads make no difference, not in a bit."""
    arguments = {"sigmas": [0.05, 0.5], "deltas": [0.001, 1.0], "seeds": 2, "settings": QUICK}
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = sc.sensitivity(data, **arguments)
        torch.set_num_threads(3)
        together = sc.sensitivity(data, **arguments)
    finally:
        torch.set_num_threads(threads)
    monkeypatch.setattr(SmartBatch, "supports", lambda self, method, settings: False)
    singly = sc.sensitivity(data, **arguments)
    for name in METRICS:
        np.testing.assert_array_equal(together.metrics[name], alone.metrics[name])
        np.testing.assert_allclose(together.metrics[name], singly.metrics[name], rtol=1e-4, atol=2e-6, err_msg=name)


def test_a_failing_fit_of_a_batch_only_affects_its_cell(data, monkeypatch: pytest.MonkeyPatch):
    original = sc.SMART._train

    def not_with_one(self, reading, run):
        if (self.sigma, self.seed) == (0.5, 1):
            raise CalibrationError("SMART: not today.")
        original(self, reading, run)

    monkeypatch.setattr(sc.SMART, "_train", not_with_one)
    result = sc.sensitivity(data, [0.05, 0.5], [0.001], 2, settings=QUICK)
    assert result.reasons == {(1, 0, 1): "SMART: not today."}
    assert np.isfinite(result.metrics["ece"]).tolist() == [[[True, True]], [[True, False]]]


def test_cancelled_traces_and_runtime_keep_finished_results(data, monkeypatch: pytest.MonkeyPatch):
    token = threading.Event()
    original = sc.SMART._fit

    def stop_after_softece(self, data, run):
        original(self, data, run)
        if self.objective == "softece":
            token.set()

    monkeypatch.setattr(sc.SMART, "_fit", stop_after_softece)
    result = sc.traces(data, epochs=5, cancel=token)
    assert set(result.runs) == {"NLL"}
    assert not result.complete
    assert json.loads(result.to_json())["complete"] is False
    assert len(result.to_frame()) == 5

    token = threading.Event()
    fit_histogram = sc.Histogram._fit
    monkeypatch.setattr(sc.Histogram, "_fit", lambda self, data, run: (fit_histogram(self, data, run), token.set()))
    times = sc.runtime(data, "ts,histogram,beta", 1, cancel=token)
    assert set(times.fit_seconds) == {"ts"}
    assert not times.complete


def test_a_study_cancelled_at_once_is_empty(data):
    token = threading.Event()
    token.set()
    assert sc.traces(data, cancel=token).to_frame().empty
    assert sc.runtime(data, "ts", cancel=token).to_frame().empty
    assert np.isnan(sc.sensitivity(data, seeds=1, cancel=token).mean()).all()
    assert json.loads(sc.compare(data, cancel=token).to_json())["methods"] == {}


def test_a_fit_that_fails_leaves_its_reason_in_the_cell(data, monkeypatch: pytest.MonkeyPatch):
    original = sc.TS._fit

    def not_with_few(self, data, run):
        if len(data) < 60:
            raise CalibrationError("TS: too few samples.")
        original(self, data, run)

    monkeypatch.setattr(sc.TS, "_fit", not_with_few)
    result = sc.data_efficiency(data, "ts,beta", sizes=[50, 200], seeds=2)
    assert np.isfinite(result.mean()).tolist() == [[False, True], [True, True]]
    assert result.reasons == {(0, 0, 0): "TS: too few samples.", (0, 0, 1): "TS: too few samples."}
    assert result.reason(0, 0) == "TS: too few samples."
    assert result.reason(1, 1) is None
    assert json.loads(result.to_json())["reasons"][0] == {
        "method": "ts", "size": 50, "seed": 0, "reason": "TS: too few samples.",
    }  # fmt: skip
    assert list(result.to_frame()["reason"].notna()) == [True, False, False, False]
    assert result.complete


def test_a_target_without_the_features_of_the_fit_has_a_reason():
    val, test = (over_confident(200, 5, seed=seed) for seed in (1, 2))
    group = np.array(["fog", "snow"] * 100)
    data = sc.LogitSet(
        "made",
        sc.Part(val.logits, val.labels, val.features),
        sc.Part(test.logits, test.labels, test.features, group=group),
    )
    result = sc.shift(data, "procal", 1, others={"bare": sc.Part(test.logits, test.labels)})
    assert np.isfinite(result.mean()).tolist() == [[True, True, True], [True, True, False]]
    assert "features" in result.reason(1, 2)


def test_an_invalid_setting_is_an_error_before_any_work(data):
    seen: list[object] = []
    with pytest.raises(CalibrationError, match="sigma=-1"):
        sc.sensitivity(data, [0.05, -1], [0.001], 1, on_cell=lambda *cell: seen.append(cell))
    with pytest.raises(CalibrationError, match="objective='foo'"):
        sc.ablation(data, 1, objectives=["nll", "foo"], on_cell=lambda *cell: seen.append(cell))
    with pytest.raises(CalibrationError, match="no objective 'foo'"):
        sc.traces(data, ["nll", "foo"])
    assert seen == []
