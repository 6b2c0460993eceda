"""Platt scaling and scaling-binning against scikit-learn's regression and the package uncertainty-calibration."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from smart_core.calibrators.platt import Platt
from smart_core.calibrators.scalingbinning import ScalingBinning
from tests.calibrators.made_up import softmax
from tests.calibrators.problems import over_confident

PROBLEM = over_confident(600, 6, seed=1)


def top(logits: np.ndarray) -> np.ndarray:
    return softmax(logits.astype(np.float64)).max(axis=1)


def test_platt_is_an_unpenalised_logistic_regression_of_the_log_odds():
    s = top(PROBLEM.logits)
    odds = np.log(s / (1 - s))[:, None]
    hits = PROBLEM.logits.argmax(axis=1) == PROBLEM.labels
    expected = LogisticRegression(C=1e12, tol=1e-10, max_iter=1000).fit(odds, hits)
    found = Platt().fit(PROBLEM.logits, PROBLEM.labels).coefficients_.numpy()
    np.testing.assert_allclose(found, [expected.coef_[0, 0], expected.intercept_[0]], rtol=1e-3, atol=1e-3)


def test_platt_equals_the_package():
    package = pytest.importorskip("calibration")
    rows = softmax(PROBLEM.logits.astype(np.float64))
    theirs = package.PlattTopCalibrator(len(rows), 15)
    theirs.train_calibration(rows, PROBLEM.labels)
    new = over_confident(500, 6, seed=2).logits
    expected = theirs.calibrate(softmax(new.astype(np.float64)))
    found = Platt().fit(PROBLEM.logits, PROBLEM.labels).predict_proba(new).max(axis=1)
    clear = expected > 0.25  # lower ones are raised to keep the prediction
    np.testing.assert_allclose(found[clear], expected[clear], atol=1e-4)


def test_scaling_binning_equals_the_package():
    """On the validation samples: between two of them an edge may lie anywhere."""
    package = pytest.importorskip("calibration")
    rows = softmax(PROBLEM.logits.astype(np.float64))
    theirs = package.PlattBinnerTopCalibrator(len(rows), 10)
    theirs.train_calibration(rows, PROBLEM.labels)
    expected = theirs.calibrate(rows)
    ours = ScalingBinning(bins=10).fit(PROBLEM.logits, PROBLEM.labels)
    assert len(ours.values_) == 10
    clear = expected > 0.25
    np.testing.assert_allclose(ours.predict_proba(PROBLEM.logits).max(axis=1)[clear], expected[clear], atol=1e-4)


def test_the_levels_average_to_the_accuracy():
    """Platt's intercept makes its mean the share of hits, and bins of equal mass keep a mean."""
    ours = ScalingBinning(bins=6).fit(PROBLEM.logits, PROBLEM.labels)
    hits = PROBLEM.logits.argmax(axis=1) == PROBLEM.labels
    assert float(ours.values_.mean()) == pytest.approx(hits.mean(), abs=1e-4)


@pytest.mark.parametrize("method", [Platt, ScalingBinning])
def test_one_outcome_is_a_notice(method):
    fit = method().fit(PROBLEM.logits, PROBLEM.logits.argmax(axis=1))
    assert "Every validation prediction is right" in fit.notices_[0]
