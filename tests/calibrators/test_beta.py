"""Beta calibration against scikit-learn's logistic regression and simulated truth."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from smart_core.calibrators.beta import Beta
from tests.calibrators.made_up import softmax


def two_class(count: int, truth: tuple[float, float, float], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two-class logits with the top class first, hits drawn from `sigmoid(a log s - b log(1 - s) + c)`."""
    rng = np.random.default_rng(seed)
    s = rng.uniform(0.5, 0.995, size=count)
    logits = np.column_stack([np.log(s / (1 - s)), np.zeros(count)]).astype(np.float32)
    features = np.column_stack([np.log(s), -np.log(1 - s)])
    a, b, c = truth
    chance = 1 / (1 + np.exp(-(features @ [a, b] + c)))
    return logits, (rng.random(count) > chance).astype(int), features


def test_it_is_unpenalised_logistic_regression_where_the_slopes_are_positive():
    logits, labels, features = two_class(4000, (1.5, 0.8, 0.2), seed=0)
    oracle = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(features, labels == 0)
    assert (oracle.coef_ > 0).all()
    found = Beta().fit(logits, labels).coefficients_.numpy()
    np.testing.assert_allclose(found, [*oracle.coef_[0], oracle.intercept_[0]], rtol=2e-3, atol=2e-3)


def test_the_truth_is_recovered():
    truth = (1.0, 0.5, 0.3)
    logits, labels, features = two_class(60_000, truth, seed=1)
    rows = Beta().fit(logits, labels).predict_proba(logits)
    chance = 1 / (1 + np.exp(-(features @ truth[:2] + truth[2])))
    np.testing.assert_allclose(rows[:, 0], chance, atol=0.02)


def test_a_negative_slope_is_held_at_zero_and_the_rest_refitted():
    """The hits fall with log s: a = 0, and b, c are those of a regression on the other feature alone."""
    logits, labels, features = two_class(4000, (-3.0, 1.0, 0.0), seed=2)
    oracle = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(features[:, 1:], labels == 0)
    found = Beta().fit(logits, labels).coefficients_.numpy()
    assert found[0] == 0.0
    np.testing.assert_allclose(found[1:], [oracle.coef_[0, 0], oracle.intercept_[0]], rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("right", [True, False])
def test_a_single_outcome_leaves_a_notice(right: bool):
    logits, _, _ = two_class(50, (1, 1, 0), seed=3)
    beta = Beta().fit(logits, np.full(50, 0 if right else 1))
    assert ("right" if right else "wrong") in beta.notices_[0]
    top = beta.predict_proba(logits)[:, 0]
    assert (top > 0.99).all() if right else (top < 0.5001).all()


def test_identity_truth_leaves_confidences_alone():
    logits, labels, _ = two_class(60_000, (1.0, 1.0, 0.0), seed=4)
    rows = Beta().fit(logits, labels).predict_proba(logits)
    np.testing.assert_allclose(rows, softmax(logits), atol=0.02)
