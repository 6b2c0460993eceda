"""Every calibrator and every metric on data at the edge: proper numbers, or a refusal in one sentence."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import smart_core as sc
from smart_core.analysis.temperature_curve import temperature_curve
from smart_core.calibrators import get
from smart_core.cli import main
from smart_core.errors import CalibrationError
from smart_core.evaluation import METRICS
from tests.calibrators.fits import ALL, QUICK, fit_again, fitted
from tests.calibrators.problems import Problem
from tests.calibrators.test_battery import assert_probabilities
from tests.data.files import npz
from tests.robustness.degenerate import DEGENERATE

MANY = "30,000 classes"
SQUARE = ("matrix", "dirichlet", "sms")
"""Their map has K^2 entries, and a fit keeps many such arrays: 30,000 classes are refused."""

pytestmark = pytest.mark.counts("degenerate data: a method or all metrics on a set")

problem = cache(lambda name: DEGENERATE[name]())


def assert_one_sentence(error: Exception) -> None:
    said = str(error)
    assert said.isprintable()
    assert said.endswith(".")
    assert "Traceback" not in said
    assert 10 < len(said) < 400


@pytest.mark.parametrize("id", ALL)
@pytest.mark.parametrize("name", DEGENERATE)
def test_calibrators(name: str, id: str) -> None:
    """Fitted on the data and applied to them."""
    data: Problem = problem(name)
    if name == MANY and id in SQUARE:
        with pytest.raises(CalibrationError, match="30,000 classes need a map") as caught:
            fit_again(id, data)
        assert_one_sentence(caught.value)
        return
    calibrator = fit_again(id, data) if name == MANY else fitted(id, data)  # what is large is not kept
    rows = calibrator.predict_proba(data.logits, features=data.features)
    assert_probabilities(rows, data.logits.shape)
    if hasattr(calibrator, "temperatures"):
        temperatures = calibrator.temperatures(data.logits)
        assert np.isfinite(temperatures).all()
        assert (temperatures > 0).all()


FOUR = [name for name in DEGENERATE if name not in (MANY, "two classes")]
"""The data with four classes, which can stand for one another."""


@pytest.mark.parametrize("id", ALL)
def test_fitted_on_one_and_applied_to_another(id: str) -> None:
    """A method fitted on one edge case can be applied to every other one."""
    for name in FOUR:
        data: Problem = problem(name)
        calibrator = fitted(id, data)
        for other in FOUR:
            rows = calibrator.predict_proba(problem(other).logits, features=problem(other).features)
            assert_probabilities(rows, problem(other).logits.shape)


@pytest.mark.parametrize("name", FOUR)
def test_temperature_curves(name: str) -> None:
    """A page says from where to where the temperatures reach: some point must lie where validation samples are."""
    data = logit_set(problem(name))
    smart = get("smart", **QUICK.get("smart", {})).fit(data.validation.logits, data.validation.labels)
    curve = temperature_curve([smart], data.test, validation=data.validation)
    assert np.isfinite(curve.mean).all()
    assert curve.supported.any()


def softmax(logits: np.ndarray) -> np.ndarray:
    exact = logits.astype(np.float64)
    exact = np.exp(exact - exact.max(axis=1, keepdims=True))
    return exact / exact.sum(axis=1, keepdims=True)


TOP_LABEL = ["ece", "adaece", "mce", "ece_l2", "ece_l2_debiased", "smce", "smece", "aurc", "e_aurc",
             "charbonnier_soft_ece"]  # fmt: skip
ROWS = ["classwise_ece", "nll", "brier", "accuracy"]


@pytest.mark.parametrize("name", DEGENERATE)
def test_metrics(name: str) -> None:
    """Finite and in their range: [0, 1], [0, 2] for the Brier score, [0, inf) for the NLL."""
    data: Problem = problem(name)
    rows = softmax(data.logits)
    confidence, correct = sc.metrics.top_label(rows, data.labels)
    for metric in TOP_LABEL:
        value = float(getattr(sc.metrics, metric)(confidence, correct))
        assert math.isfinite(value), metric
        # debiased squares may fall below 0, and a smoothed absolute value lies a little above it
        assert -1e-9 <= value <= 1 + 1e-2 or metric == "ece_l2_debiased", (metric, value)
    for metric in ROWS:
        value = float(getattr(sc.metrics, metric)(rows, data.labels))
        assert math.isfinite(value), metric
        assert 0 <= value <= {"nll": math.inf, "brier": 2.0}.get(metric, 1.0) + 1e-9, (metric, value)


@pytest.mark.parametrize("name", DEGENERATE)
def test_floors(name: str) -> None:
    """Noise floors lie in [0, 1]."""
    data: Problem = problem(name)
    confidence, _ = sc.metrics.top_label(softmax(data.logits), data.labels)
    for metric in ("ece", "adaece", "smece", "smce"):
        floor = sc.metrics.noise_floor(metric, sc.metrics.Samples(confidence), draws=200)
        assert 0 <= floor.mean <= 1, metric
        assert 0 <= floor.q95 <= 1, metric


@pytest.mark.parametrize("name", [name for name in DEGENERATE if name != MANY])
def test_compare(name: str) -> None:
    """The whole leaderboard: rows without a value carry a reason."""
    data: Problem = problem(name)
    result = sc.compare(logit_set(data), methods=["vanilla", "ts", "histogram", "isotonic", "spline", "beta"], seeds=1)
    for id, row in result.results.items():
        if not row.available:
            assert row.reason
            continue
        for metric in METRICS:
            if metric not in row.values:
                continue
            value = row.mean(metric)
            assert math.isfinite(value), (id, metric)
        for metric, ends in row.intervals.items():
            assert math.isfinite(ends.low) and math.isfinite(ends.high), (id, metric)  # noqa: PT018
            assert ends.low <= ends.high + 1e-12, (id, metric)
    assert json.loads(result.to_json())


def logit_set(data: Problem) -> sc.LogitSet:
    """The problem on both sides."""
    return sc.load(both_sides(data), name="edge.npz")


def both_sides(data: Problem) -> bytes:
    return npz(val_logits=data.logits, val_labels=data.labels, test_logits=data.logits, test_labels=data.labels)


@pytest.mark.parametrize("name", DEGENERATE)
def test_command_line(name: str, tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The same through the command: done, or one sentence and the code 2."""
    path = tmp_path / "edge.npz"
    path.write_bytes(both_sides(problem(name)))
    code = main(["compare", str(path), "--methods", "vanilla,ts,isotonic", "--seeds", "1", "--json", "-"])
    printed = capsys.readouterr()
    assert code in (0, 2)
    if code == 2:
        assert printed.err.count("\n") == 1
        assert "Traceback" not in printed.err
        return
    for row in json.loads(printed.out, parse_constant=_refuse_constant)["methods"].values():
        assert row["available"] or row["reason"]


def _refuse_constant(text: str) -> Callable[..., Any]:
    raise AssertionError(f"{text} in the JSON")
