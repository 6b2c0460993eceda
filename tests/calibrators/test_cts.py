"""CTS against a plain triple loop, and on real logits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from smart_core.calibrators.cts import CTS, ClassSearch, temperature_grid
from smart_core.calibrators.ts import TS
from smart_core.errors import CalibrationError
from smart_core.metrics import ece
from smart_core.types import Logits
from tests.calibrators.checks import (
    assert_proper_rows,
    assert_same_bits_after_saving,
    cifar10_resnet50,
)
from tests.calibrators.made_up import Sample, degenerate, network, plain_ece, softmax
from tests.tolerance import PROBABILITY, assert_within, binned_bound, float32_bound

DEGENERATE = degenerate()


@pytest.mark.parametrize("classes", [3, 40])
def test_the_compiled_candidates_are_those_of_pytorch(classes: int) -> None:
    sample = network(500, classes, seed=4)
    grid = temperature_grid(0.5, 5.0, 0.1)
    logits, labels = torch.from_numpy(sample.logits), torch.from_numpy(sample.labels)
    search = ClassSearch(Logits(logits), labels, 1.7, grid, 15)
    for k in range(min(classes, 8)):
        others = search._others(k)
        (errors, hits), (expected, counted) = search._compiled_candidates(k, *others), search._candidates(k, *others)
        assert hits == counted
        # a confidence that rounds to the other side of an edge moves its own residual
        off = np.abs(np.array(errors) - expected)
        assert np.quantile(off, 0.9) < 1e-6
        assert off.max() < 5e-3


def best_common_temperature(logits: NDArray[np.floating], labels: NDArray[np.integer]) -> float:
    """The minimiser of the mean NLL, by scipy."""
    z = logits.astype(np.float64)
    rows = np.arange(len(z))

    def nll(u: float) -> float:
        scaled = z * np.exp(u)
        return float(np.mean(logsumexp(scaled, axis=1) - scaled[rows, labels]))

    ends = (np.log(1 / 20), np.log(20))
    found = minimize_scalar(nll, bounds=ends, method="bounded", options={"xatol": 1e-10})
    return float(np.exp(-found.x))


def triple_loop(logits: NDArray[np.floating], labels: NDArray[np.integer]) -> NDArray[np.float64]:
    """Five sweeps x classes x grid with a full float64 softmax for every candidate.

    Where one candidate follows from another, every choice must be clear: float32 would have made it, too.
    """
    z = logits.astype(np.float64)
    t = np.full(z.shape[1], best_common_temperature(logits, labels))

    def judge(temperatures: NDArray[np.float64]) -> tuple[float, float, float]:
        q = softmax(z / temperatures)
        hit = q.argmax(axis=1) == labels
        return plain_ece(q.max(axis=1), hit), hit.mean(), binned_bound(q.max(axis=1), hit, 15)

    error, accuracy, _ = judge(t)
    for _ in range(5):
        for k in np.unique(labels):
            for value in 0.5 + 0.1 * np.arange(46):
                trial = t.copy()
                trial[k] = value
                trial_error, trial_accuracy, off = judge(trial)
                if trial_accuracy < accuracy or value == t[k]:
                    continue
                assert abs(trial_error - error) > 2 * off, "a tie; take another seed"
                if trial_error < error - 1e-7:
                    t, error, accuracy = trial, trial_error, trial_accuracy
    return t


@pytest.mark.parametrize(("count", "classes", "seed"), [(60, 3, 0), (100, 4, 1), (150, 5, 2), (80, 2, 3)])
def test_same_temperatures_as_a_triple_loop(count: int, classes: int, seed: int) -> None:
    sample = network(count, classes, seed=seed)
    fitted = CTS(device="cpu").fit(sample.logits, sample.labels)
    expected = triple_loop(sample.logits, sample.labels)
    assert np.ptp(expected) > 0.05  # the search did something
    np.testing.assert_allclose(fitted.temperatures_.numpy(), expected, rtol=1e-4)


def test_probabilities_divide_each_column() -> None:
    sample = network(90, 4, seed=5)
    fitted = CTS(device="cpu").fit(sample.logits, sample.labels)
    scaled = sample.logits.astype(np.float64) / fitted.temperatures_.numpy()
    # here quotients are rounded before the largest is taken off
    off = PROBABILITY + float32_bound(0.5, np.abs(scaled).max(axis=1, keepdims=True))
    assert_within(fitted.predict_proba(sample.logits), softmax(scaled), off)


def test_validation_error_falls_and_accuracy_does_not() -> None:
    sample = network(800, 10, seed=4)
    q = CTS(device="cpu").fit(sample.logits, sample.labels).predict_proba(sample.logits)
    ts = TS(device="cpu").fit(sample.logits, sample.labels).predict_proba(sample.logits)
    hit = q.argmax(axis=1) == sample.labels
    assert hit.mean() >= (sample.logits.argmax(axis=1) == sample.labels).mean()
    ts_error = ece(ts.max(axis=1), ts.argmax(axis=1) == sample.labels)
    assert ece(q.max(axis=1), hit) < 0.7 * ts_error


def test_real_logits_reach_the_known_error() -> None:
    (z, y), (z_test, y_test) = cifar10_resnet50()
    q = CTS(device="cpu").fit(z, y).predict_proba(z_test)
    confidence, prediction = q.max(dim=1)
    assert 0.0100 < ece(confidence, prediction == y_test.reshape(-1)) < 0.0108


def test_state_stays_that_of_a_full_recomputation() -> None:
    sample = network(200, 6, seed=6)
    logits, labels = Logits(torch.from_numpy(sample.logits)), torch.from_numpy(sample.labels)
    search = ClassSearch(logits, labels, 2.0, [0.5, 1.0, 3.0], 15)
    changed = [search.improve(k) for _ in range(2) for k in range(6)]
    assert any(changed)
    scaled = sample.logits.astype(np.float64) / np.array(search.temperatures)
    # each of the 12 changes takes a column off the sum and adds another
    assert_within(search.log_sum, logsumexp(scaled, axis=1), float32_bound(12, np.abs(scaled).max(axis=1)))
    assert np.array_equal(search.top.numpy(), scaled.argmax(axis=1))
    q = softmax(scaled)
    confidence, hit = q.max(axis=1), q.argmax(axis=1) == sample.labels
    off = binned_bound(confidence, hit, 15, float32_bound(12, np.abs(scaled).max()))
    assert search.ece == pytest.approx(plain_ece(confidence, hit), abs=off)


def test_a_dominating_column_is_not_lost_to_cancellation() -> None:
    logits = Logits(torch.tensor([[60.0, 1.0, 0.5], [80.0, -3.0, -2.0]]))
    search = ClassSearch(logits, torch.tensor([0, 1]), 1.0, [1.0], 15)
    peak, top, log_sum = search._others(0)
    assert top.tolist() == [1, 2]
    assert peak.tolist() == [1.0, -2.0]
    expected = logsumexp(logits[:, 1:].double().numpy(), axis=1)
    np.testing.assert_allclose(log_sum.numpy(), expected, rtol=1e-6)


def test_an_absent_class_keeps_the_common_temperature() -> None:
    sample = DEGENERATE["absent class"]
    fitted = CTS(device="cpu").fit(sample.logits, sample.labels)
    expected = best_common_temperature(sample.logits, sample.labels)
    assert float(fitted.temperatures_[3]) == pytest.approx(expected, rel=1e-4)
    assert any("absent" in notice for notice in fitted.notices_)


@pytest.mark.parametrize("sample", DEGENERATE.values(), ids=DEGENERATE.keys())
def test_degenerate_sets_give_proper_rows(sample: Sample) -> None:
    q = CTS(sweeps=1, device="cpu").fit(sample.logits, sample.labels).predict_proba(sample.logits)
    assert_proper_rows(q)


def test_grid_has_both_ends_and_refuses_a_backward_one() -> None:
    assert temperature_grid(0.5, 5.0, 0.1) == pytest.approx([0.5 + 0.1 * i for i in range(46)])
    with pytest.raises(CalibrationError, match="below"):
        CTS(t_low=3.0, t_high=1.0).fit(np.eye(3), np.arange(3))


def test_a_saved_calibrator_gives_the_same_bits() -> None:
    sample = network(60, 3)
    assert_same_bits_after_saving(CTS(device="cpu").fit(sample.logits, sample.labels), sample)
