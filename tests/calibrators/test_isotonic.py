"""Isotonic regression against scikit-learn's own predictions and the min-max formula."""

from __future__ import annotations

import numpy as np
from sklearn.isotonic import IsotonicRegression

from smart_core.calibrators.isotonic import Isotonic
from tests.calibrators.made_up import softmax
from tests.calibrators.problems import over_confident
from tests.tolerance import PROBABILITY, assert_within, float32_bound


def test_predictions_are_scikit_learns():
    problem, fresh = over_confident(700, 8, seed=1), over_confident(2000, 8, seed=2)
    confidence = softmax(problem.logits).max(axis=1)
    correct = problem.logits.argmax(axis=1) == problem.labels
    oracle = IsotonicRegression(out_of_bounds="clip").fit(confidence, correct)
    fresh_confidence = softmax(fresh.logits).max(axis=1)
    expected = oracle.predict(fresh_confidence)
    # complements and nodes are float32; where two nodes lie close, the line between them is steep
    beside = float32_bound(4, 1 - fresh_confidence)
    off = np.ptp([oracle.predict(fresh_confidence + side * beside) for side in (-1, 1)], axis=0)
    rows = Isotonic().fit(problem.logits, problem.labels).predict_proba(fresh.logits)
    found = rows[np.arange(2000), fresh.logits.argmax(axis=1)]
    above = expected > 1 / 8 + 1e-3  # below, the prediction is kept by holding its confidence above 1/K
    assert above.mean() > 0.5
    assert_within(found[above], expected[above], PROBABILITY + off[above])


def test_min_max_formula_on_the_fitted_samples():
    """`g_i = max_(a <= i) min_(b >= i) mean(hits[a..b])` for samples in order of confidence."""
    problem = over_confident(60, 3, seed=3)
    order = np.argsort(softmax(problem.logits).max(axis=1))
    hits = (problem.logits.argmax(axis=1) == problem.labels)[order].astype(float)
    expected = [max(min(hits[a : b + 1].mean() for b in range(i, 60)) for a in range(i + 1)) for i in range(60)]
    rows = Isotonic().fit(problem.logits, problem.labels).predict_proba(problem.logits)
    np.testing.assert_allclose(rows.max(axis=1)[order], np.maximum(expected, 1 / 3), atol=1e-5)


def test_confidences_that_float32_rounds_to_one_are_told_apart():
    """Margins of 18 and 30 both have float32 confidence 1; the first group is wrong half the time."""
    logits = np.array([[18.0, 0.0]] * 20 + [[30.0, 0.0]] * 20, dtype=np.float32)
    labels = np.array([0, 1] * 10 + [0] * 20)
    rows = Isotonic().fit(logits, labels).predict_proba(logits)
    np.testing.assert_allclose(rows[:20, 0], 0.5, atol=1e-5)
    np.testing.assert_allclose(rows[20:, 0], 1.0, atol=1e-5)
