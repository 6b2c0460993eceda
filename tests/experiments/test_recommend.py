"""The rule that names the method to deploy: on constructed comparisons, and on every bundled sample."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import smart_core as sc
from smart_core.cli import main
from smart_core.data import from_arrays
from smart_core.data.samples import sample_names
from smart_core.evaluation import HEADLINE, Evaluation
from smart_core.experiments.compare import Comparison, summarise
from smart_core.experiments.method_result import MethodResult
from smart_core.experiments.recommend import DECISIVE

SAMPLES = 4000
RNG = np.random.default_rng(0)
HITS = RNG.random(SAMPLES)
"""Uniform numbers that decide which samples a method of a given accuracy gets right."""


def evaluation(confidence: float | np.ndarray, accuracy: float | np.ndarray) -> Evaluation:
    """Two classes; the confidence that is claimed and the accuracy that is true, sample by sample."""
    p = np.broadcast_to(np.asarray(confidence, dtype=np.float64), SAMPLES)
    correct = np.broadcast_to(accuracy, SAMPLES) > HITS
    label = np.where(correct, p, 1 - p)
    prediction = np.zeros(SAMPLES, dtype=np.int64)
    return Evaluation(p, prediction, correct, -np.log(label), 2 * (1 - label) ** 2, np.log(p / (1 - p)))


def row(id: str, evaluated: Evaluation, parameters: int, keeps_top1: bool = True) -> MethodResult:
    values = {name: [np.nan if name == "cece" else evaluated.metric(name)] for name in HEADLINE}
    return MethodResult(id, True, parameters=parameters, keeps_top1=keeps_top1, values=values, evaluations=[evaluated])


def comparison(*rows: MethodResult) -> Comparison:
    data = from_arrays(logits=RNG.normal(size=(20, 2)), labels=np.arange(20) % 2)
    return summarise(data, {one.id: one for one in rows})


def moved(result: MethodResult) -> MethodResult:
    """The same with the other class predicted everywhere."""
    (first,) = result.evaluations
    return replace(result, evaluations=[replace(first, prediction=1 - first.prediction)])


MODEL = row("vanilla", evaluation(0.95, 0.8), 0)
REPAIRED = evaluation(0.8, 0.8)


def test_the_simplest_of_the_tied_methods_that_keep_the_prediction() -> None:
    found = sc.recommend(comparison(MODEL, row("smart", REPAIRED, 49), row("ts", REPAIRED, 1), row("ets", REPAIRED, 3)))
    assert found.method == "ts"
    assert "lowers the ECE from 14.9" in found.reason
    assert "SMART and ETS perform equally well within noise but have more parameters." in found.reason
    assert found.cost == "TS has 1 parameter, fits in under 0.1\u00a0s and keeps every prediction."


def test_the_lowest_ece_with_a_worse_nll_is_left_out() -> None:
    """A map that is right on average and very wrong for the few samples it is certain of."""
    certain = np.where(np.arange(SAMPLES) % 5 == 0, 1 - 1e-12, 0.8 - 0.2 / 4)
    spline = row("spline", evaluation(certain, 0.8), 2)
    off = row("ts", evaluation(0.82, 0.8), 1)
    ranked = comparison(MODEL, spline, off)
    assert "nll" in ranked.against_model("spline").worse
    found = sc.recommend(ranked)
    assert found.method == "ts"
    assert found.warning == "Worse than the model in NLL or Brier score, beyond noise: Spline."
    assert ranked.against_model("spline").warning.startswith("worse NLL")


def test_a_lower_accuracy_is_left_out() -> None:
    ranked = comparison(MODEL, row("cts", evaluation(0.7, 0.7), 10, keeps_top1=False), row("smart", REPAIRED, 49))
    assert "accuracy" in ranked.against_model("cts").worse
    assert sc.recommend(ranked).method == "smart"


def test_a_higher_accuracy_with_better_scores_outweighs_kept_predictions() -> None:
    vector = row("vector", evaluation(0.9, 0.9), 20, keeps_top1=False)
    found = sc.recommend(comparison(MODEL, row("ts", REPAIRED, 1), vector))
    assert found.method == "vector"
    assert "raises the accuracy from 80." in found.gain
    assert "accuracy, NLL and Brier score are all better, beyond noise, than those of TS" in found.choice
    assert "changes 100.0% of the predictions" in sc.recommend(comparison(MODEL, moved(vector))).cost


def test_a_higher_accuracy_is_told_where_the_calibration_error_speaks_against_it() -> None:
    vector = row("vector", evaluation(0.98, 0.9), 20, keeps_top1=False)
    found = sc.recommend(comparison(MODEL, row("ts", REPAIRED, 1), vector))
    assert found.method == "ts"
    assert found.alternative.startswith("If changed predictions are acceptable, Vector raises the accuracy from 80.")
    assert "its ECE is 7." in found.alternative


def test_a_lower_nll_beyond_noise_outweighs_parameters() -> None:
    """Both are calibrated on average; one of them knows which samples are hard."""
    hard = np.arange(SAMPLES) % 2 == 0
    share = np.where(hard, 0.7, 0.9)
    found = sc.recommend(
        comparison(MODEL, row("ts", evaluation(0.8, share), 1), row("smart", evaluation(share, share), 49))
    )
    assert found.method == "smart"
    assert "Of the methods tied by ECE, SMART has the best NLL and Brier score." in found.choice


def test_a_difference_of_no_size_does_not_outweigh_parameters() -> None:
    hard = np.arange(SAMPLES) % 2 == 0
    share = np.where(hard, 0.79, 0.81)
    sharp = row("smart", evaluation(share, 0.8), 49)
    found = sc.recommend(comparison(MODEL, row("ts", REPAIRED, 1), sharp))
    assert abs(sharp.mean("nll") / REPAIRED.metric("nll") - 1) < DECISIVE
    assert found.method == "ts"


def test_an_nll_above_the_models_is_not_recommended_for_its_ece() -> None:
    """Too noisy to be called worse than the model, and worse than another method beyond noise."""
    rare = np.where(np.arange(SAMPLES) < 12, 1 - 1e-15, 0.8)
    histogram = row("histogram", evaluation(rare, np.where(rare > 0.9, 0.0, 0.8)), 0)
    found = sc.recommend(comparison(MODEL, histogram, row("smart", evaluation(0.81, 0.8), 49)))
    assert found.method == "smart"


def test_what_improves_nothing_is_not_recommended_in_the_models_place() -> None:
    calibrated = row("vanilla", REPAIRED, 0)
    vector = row("vector", evaluation(0.9, 0.9), 20, keeps_top1=False)
    assert sc.recommend(comparison(calibrated, row("ts", evaluation(0.801, 0.8), 1), vector)).method == "vector"


def test_nothing_beyond_noise_leaves_the_model_as_it_is() -> None:
    calibrated = row("vanilla", REPAIRED, 0)
    found = sc.recommend(comparison(calibrated, row("ts", evaluation(0.801, 0.8), 1)))
    assert found.method == "vanilla"
    assert "Deploy the model without calibration." in found.reason


def test_nothing_is_recommended_where_no_calibrator_could_be_fitted() -> None:
    refused = MethodResult("ts", False, reason="needs logits")
    ranked = comparison(MODEL, refused)
    assert ranked.recommended is None
    assert ranked.to_dict()["recommended"] is None


def test_a_method_that_is_not_tied_with_the_best_is_not_recommended() -> None:
    found = sc.recommend(comparison(MODEL, row("ts", evaluation(0.88, 0.8), 1), row("smart", REPAIRED, 49)))
    assert found.method == "smart"


def test_a_comparison_without_the_model_is_compared_with_it_all_the_same() -> None:
    data = sc.simulate_set(1000, 2000, 5, seed=0)
    assert sc.recommend(sc.compare(data, "ts,isotonic", seeds=1)).method == "ts"


@pytest.mark.parametrize("name", sample_names())
def test_on_every_sample_the_rule_holds(name: str) -> None:
    ranked = sc.compare(sc.load(f"sample:{name}"), "vanilla,ts,histogram", seeds=1)
    found = sc.recommend(ranked)
    assert not ranked.against_model(found.method).worse
    assert ranked.to_dict()["recommended"] == {"method": found.method, "reason": found.reason}
    assert found.method == "vanilla" or ranked.against_model(found.method).better


def test_the_command_line_says_the_same(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    target = tmp_path / "c.json"
    arguments = ["compare", "sample:digits", "--methods", "vanilla,ts,histogram", "--seeds", "1", "--json", str(target)]
    assert main(arguments) == 0
    told = json.loads(target.read_text())["recommended"]
    found = sc.recommend(sc.compare(sc.load("sample:digits"), "vanilla,ts,histogram", seeds=1))
    assert told == {"method": found.method, "reason": found.reason}
    assert f"Recommended: {found.label}. {found.reason}" in capsys.readouterr().out
