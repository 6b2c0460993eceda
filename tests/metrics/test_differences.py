"""Paired differences and Holm's correction."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from smart_core import metrics
from smart_core.errors import CalibrationError
from smart_core.metrics import Samples, compare_all, holm, paired_difference
from tests.metrics.samples import classwise_cells
from tests.metrics.simulated import softmax


def _evaluation(z: np.ndarray, y: np.ndarray) -> Samples:
    p = softmax(z)
    label = p[np.arange(y.size), y]
    return Samples(
        confidence=p.max(axis=1),
        correct=p.argmax(axis=1) == y,
        nll=-np.log(label),
        brier=(p**2).sum(axis=1) - 2 * label + 1,
        cells=classwise_cells(p, y),
    )


@pytest.fixture(scope="module")
def evaluations() -> dict[str, Samples]:
    generator = np.random.default_rng(0)
    z = 2 * generator.standard_normal((3000, 5))
    q = softmax(z)
    y = np.minimum((generator.random(3000)[:, None] > q.cumsum(axis=1)).sum(axis=1), 4)
    return {name: _evaluation(z * beta, y) for name, beta in (("right", 1.0), ("almost", 1.02), ("far", 2.5))}


@pytest.mark.parametrize("metric", ["ece", "adaece", "smce", "smece", "cece", "nll", "brier"])
def test_a_clear_difference_is_found_and_the_sign_follows_the_order(metric: str, evaluations: dict) -> None:
    found = paired_difference(metric, evaluations["far"], evaluations["right"])
    turned = paired_difference(metric, evaluations["right"], evaluations["far"])
    assert found.low > 0
    assert found.p_value < 0.01
    assert turned.high < 0
    assert turned.mean == pytest.approx(-found.mean)


@pytest.mark.parametrize("metric", ["ece", "adaece", "smce", "smece", "cece", "nll", "brier", "accuracy"])
def test_an_evaluation_does_not_differ_from_itself(metric: str, evaluations: dict) -> None:
    found = paired_difference(metric, evaluations["far"], evaluations["far"])
    assert (found.mean, found.low, found.high, found.p_value) == (0, 0, 0, 1)


def test_difference_of_means_is_close_to_the_paired_t_test(evaluations: dict) -> None:
    a, b = evaluations["almost"], evaluations["right"]
    expected = ttest_rel(a.nll, b.nll)
    found = paired_difference("nll", a, b)
    assert found.mean == pytest.approx((a.nll - b.nll).mean())
    assert found.p_value == pytest.approx(expected.pvalue, abs=0.03)


@pytest.mark.parametrize("metric", ["ece", "cece", "nll", "accuracy"])
def test_compare_all_names_the_best_and_its_ties(metric: str, evaluations: dict) -> None:
    found = compare_all(metric, evaluations)
    if metric == "accuracy":
        assert all(found.tied_with_best.values())  # the temperature leaves the prediction alone
        return
    assert found.best in ("right", "almost")
    assert found.tied_with_best["right"]
    assert found.tied_with_best["almost"]
    assert not found.tied_with_best["far"]
    assert set(found.p_values) == set(evaluations) - {found.best}


def test_one_evaluation_is_its_own_best_and_none_is_refused(evaluations: dict) -> None:
    assert compare_all("ece", {"only": evaluations["far"]}).tied_with_best == {"only": True}
    with pytest.raises(ValueError, match="no evaluations"):
        compare_all("ece", {})


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_rejects_what_the_sequential_procedure_rejects(p_values: list[float]) -> None:
    named = {str(i): p for i, p in enumerate(p_values)}
    rejected, remaining = set(), sorted(named, key=lambda name: named[name])
    while remaining and named[remaining[0]] * len(remaining) <= 0.05:
        rejected.add(remaining.pop(0))
    assert {name for name, p in holm(named).items() if p <= 0.05} == rejected


@pytest.mark.parametrize("metric", ["ece", "adaece", "smce", "smece", "cece", "nll"])
def test_the_difference_is_that_of_the_plug_in_values(metric: str, evaluations: dict) -> None:
    a, b = evaluations["far"], evaluations["almost"]
    if metric == "cece":
        expected = a.cells.ece() - b.cells.ece()
    elif metric == "nll":
        expected = a.nll.mean() - b.nll.mean()
    else:
        value = getattr(metrics, metric)
        expected = value(a.confidence, a.correct) - value(b.confidence, b.correct)
    assert paired_difference(metric, a, b).mean == pytest.approx(expected, abs=1e-9)


def test_what_cannot_be_paired_is_said(evaluations: dict) -> None:
    a = evaluations["far"]
    short = Samples(confidence=a.confidence[:9], correct=a.correct[:9], nll=a.nll[:9], cells=None)
    for metric, message in (("ece", "9 and 3000"), ("nll", "3000 and 9"), ("cece", "needs the classwise sums")):
        with pytest.raises(CalibrationError, match=message):
            paired_difference(metric, a, short)
    with pytest.raises(CalibrationError, match="choose one of"):
        paired_difference("mce", a, a)
    short = Samples(cells=classwise_cells(np.full((9, 5), 0.2), np.zeros(9, dtype=int)))
    with pytest.raises(CalibrationError, match="differ in classes, bins or samples"):
        paired_difference("cece", a, short)


@pytest.mark.long
def test_seventeen_methods_of_fifty_thousand_samples_are_compared_in_seconds() -> None:
    generator = np.random.default_rng(0)
    t = generator.beta(5, 1, 50_000)
    correct = generator.random(t.size) < t
    many = {str(i): Samples(confidence=np.clip(t ** (1 + 0.02 * i), 0.01, 1), correct=correct) for i in range(17)}
    for metric, seconds in (("ece", 3), ("adaece", 4), ("smce", 12), ("smece", 12)):
        start = time.process_time()
        found = compare_all(metric, many)
        spent = time.process_time() - start
        print(f"{metric}: {spent:.1f} s")
        assert found.best in ("0", "1")
        assert spent < seconds


@pytest.mark.parametrize("metric", ["ece", "adaece", "smce", "smece"])
def test_a_handful_of_samples_tells_no_errors_apart(metric: str) -> None:
    """A coin called with 0.95 either way: the errors are equal, and a few throws that agree would show otherwise."""
    for samples in (2, 5, 24):
        heads = np.ones(samples, dtype=bool)
        pair = [Samples(confidence=np.full(samples, p), correct=heads) for p in (0.05, 0.95)]
        found = paired_difference(metric, *pair)
        assert (found.low, found.high, found.p_value) == (-1.0, 1.0, 1.0)
        assert found.mean == pytest.approx(0.9, abs=0.05)
