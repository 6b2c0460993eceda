"""Sensitivity, ablation, data efficiency, shift, traces and runtime on small sets where the answer is known."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest

import smart_core as sc
from smart_core.errors import CalibrationError
from smart_core.experiments.data_efficiency import sizes_up_to
from smart_core.indicators import INDICATORS
from smart_core.objectives import OBJECTIVES
from tests.calibrators.problems import over_confident

QUICK = {"epochs": 25}


def labelled(n: int, seed: int, group: np.ndarray | None = None, temperature: float = 2.5) -> sc.Part:
    problem = over_confident(n, 5, seed=seed, temperature=temperature)
    return sc.Part(problem.logits, problem.labels, group=group)


@pytest.fixture(scope="module")
def data() -> sc.LogitSet:
    return sc.LogitSet("made", labelled(500, 1), labelled(600, 1, np.array(["fog", "snow"] * 300)))


def ece_of(calibrator, part: sc.Part) -> float:
    return sc.metrics.ece(*sc.metrics.top_label(calibrator.predict_proba(part.logits), part.labels))


def test_sensitivity_cells_are_single_fits(data):
    result = sc.sensitivity(data, sigmas=[0.05, 0.5], deltas=[0.001, 0.1, 1.0], seeds=2, settings=QUICK)
    assert result.mean().shape == (2, 3)
    by_hand = [
        ece_of(
            sc.SMART(sigma=0.5, delta=0.1, seed=seed, **QUICK).fit(data.validation.logits, data.validation.labels),
            data.test,
        )
        for seed in (0, 1)
    ]
    assert result.mean()[1, 1] == pytest.approx(np.mean(by_hand))
    assert result.std()[1, 1] == pytest.approx(np.std(by_hand, ddof=1))
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


def test_a_wrong_metric_or_no_seed_is_said_before_any_work(data):
    for arguments, words in (({"metric": "foo"}, "no metric 'foo'"), ({"seeds": 0}, "at least 1")):
        for study in (sc.sensitivity, sc.compare):
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


def test_shift_judges_groups_and_other_sets(data):
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


def test_shift_without_groups_says_what_to_do():
    bare = sc.LogitSet("bare", labelled(100, 2), labelled(100, 3))
    with pytest.raises(CalibrationError, match="has no groups"):
        sc.shift(bare, ["ts"], 1)
    other = over_confident(50, 4, seed=1)
    with pytest.raises(CalibrationError, match="classes"):
        sc.shift(bare, ["ts"], 1, others={"four": sc.Part(other.logits, other.labels)})


def test_traces_show_each_objective_falling(data):
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


def test_runtime_times_what_can_run(data):
    result = sc.runtime(data, "ts,fc,histogram", repeats=2)
    assert set(result.fit_seconds) == {"ts", "histogram"}
    assert all(len(seconds) == 2 for seconds in result.apply_seconds.values())
    assert list(result.to_frame()["method"]) == ["ts", "histogram"]
