"""Spline calibration against a second construction of the spline, and the figures known for real logits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from smart_core.calibrators.spline import Spline, natural_spline_slope, recalibration
from smart_core.metrics import ece
from tests.calibrators.problems import over_confident
from tests.conftest import real_data


def truncated_power_basis(t: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Natural cubic splines as in Hastie, Tibshirani & Friedman (5.4): 1, t, d_k - d_(K-1)."""

    def d(k: int) -> np.ndarray:
        last = np.maximum(t - knots[-1], 0) ** 3
        return (np.maximum(t - knots[k], 0) ** 3 - last) / (knots[-1] - knots[k])

    columns = [np.ones_like(t), t]
    columns += [d(k) - d(len(knots) - 2) for k in range(len(knots) - 2)]
    return np.column_stack(columns)


def least_squares_spline(t: np.ndarray, y: np.ndarray, knots: int):
    places = np.linspace(0, 1, knots)
    coefficients = np.linalg.lstsq(truncated_power_basis(t, places), y, rcond=None)[0]
    return lambda at: truncated_power_basis(at, places) @ coefficients


@pytest.mark.parametrize("knots", [2, 4, 6, 11])
def test_slope_is_that_of_the_least_squares_natural_spline(knots: int):
    rng = np.random.default_rng(0)
    t = np.arange(1, 301) / 300
    y = np.sin(5 * t) + 0.1 * rng.normal(size=300)
    spline = least_squares_spline(t, y, knots)
    step = 1e-5
    numeric = (spline(t + step) - spline(t - step)) / (2 * step)
    inside = t < 1 - 2 * step
    found = natural_spline_slope(t, y, knots)
    np.testing.assert_allclose(found[inside], numeric[inside], atol=1e-4)


def test_recalibration_by_hand_on_untied_scores():
    rng = np.random.default_rng(1)
    scores = np.sort(rng.uniform(0.3, 1.0, size=200))
    hits = (rng.random(200) < scores**2).astype(float)
    t = np.arange(1, 201) / 200
    spline = least_squares_spline(t, np.cumsum(hits - scores) / 200, 6)
    expected = scores + (spline(t) - spline(t - 1e-6)) / 1e-6
    shuffled = rng.permutation(200)
    complements, found = recalibration((1 - scores)[shuffled], hits[shuffled], 6)
    np.testing.assert_allclose(1 - complements[::-1], scores)
    np.testing.assert_allclose(found[::-1], expected, atol=1e-3)


def test_tied_scores_get_their_common_accuracy():
    """With a single score the gap is a straight line: every confidence becomes the accuracy."""
    logits = np.tile(np.array([[2.0, 0.0, 0.0]], dtype=np.float32), (40, 1))
    labels = np.array([0] * 25 + [1] * 15)
    rows = Spline(top1="keep").fit(logits, labels).predict_proba(logits)
    np.testing.assert_allclose(rows[:, 0], 25 / 40, atol=1e-5)


def test_the_order_of_tied_samples_does_not_matter():
    rng = np.random.default_rng(2)
    logits = rng.integers(0, 4, size=(120, 3)).astype(np.float32)
    labels = rng.integers(0, 3, size=120)
    order = rng.permutation(120)
    first = Spline().fit(logits, labels).predict_proba(logits)
    second = Spline().fit(logits[order], labels[order]).predict_proba(logits)
    np.testing.assert_allclose(first, second, atol=1e-5)


def test_retake_rescales_in_proportion_and_may_move_the_prediction():
    problem = over_confident(800, 5, seed=3, temperature=6.0)
    retake, keep = (Spline(top1=top1).fit(problem.logits, problem.labels) for top1 in ("retake", "keep"))
    assert not retake.keeps_top1
    assert keep.keeps_top1
    top = problem.logits.argmax(axis=1)
    rows = retake.predict_proba(problem.logits)
    assert (rows.argmax(axis=1) != top).any()
    assert (keep.predict_proba(problem.logits).argmax(axis=1) == top).all()
    others = np.exp(problem.logits - problem.logits.max(axis=1, keepdims=True)).astype(np.float64)
    c = rows[np.arange(800), top]
    others[np.arange(800), top] = 0
    expected = others / others.sum(axis=1, keepdims=True) * (1 - c)[:, None]
    expected[np.arange(800), top] = c
    np.testing.assert_allclose(rows, expected, atol=1e-5)


def test_fewer_samples_than_knots_leave_a_notice():
    spline = Spline().fit(np.eye(3, dtype=np.float32) * 2, np.array([0, 1, 1]))
    assert spline.notices_ == ["3 samples allow 3 knots, not 6."]


@pytest.mark.parametrize(("top1", "expected"), [("retake", 1.52), ("keep", 1.43)])
def test_known_figures_on_cifar10_logits(top1: str, expected: float):
    folder = real_data("resnet50_cifar10_ce")
    z_val, y_val = torch.load(folder / "val.pt", map_location="cpu")
    z_test, y_test = torch.load(folder / "test.pt", map_location="cpu")
    confidence, prediction = Spline(top1=top1).fit(z_val, y_val).predict_proba(z_test).max(dim=1)
    assert 100 * ece(confidence, (prediction == y_test).float()) == pytest.approx(expected, abs=0.01)
