"""IRM against scikit-learn's isotonic regression of all classes at once."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from smart_core.calibrators.irm import IRM
from tests.calibrators.made_up import softmax
from tests.calibrators.problems import over_confident


@pytest.mark.parametrize("classes", [2, 6, 40])
def test_it_is_the_isotonic_fit_of_the_pooled_classes_with_rows_that_sum_to_one(classes: int):
    problem, new = over_confident(300, classes, seed=1), over_confident(300, classes, seed=2)
    irm = IRM().fit(problem.logits, problem.labels)
    p, outcome = softmax(problem.logits.astype(np.float64)), np.eye(classes)[problem.labels]
    rounded = p.astype(np.float32).astype(np.float64)  # scikit-learn merges float32 values closer than 1e-6
    fit = IsotonicRegression(out_of_bounds="clip").fit(rounded.ravel(), outcome.ravel())
    rows = softmax(new.logits.astype(np.float64))
    # as the code of Mix-n-Match has it, but for the sum
    expected = fit.predict(rows.ravel()).reshape(rows.shape) + 1e-9 * rows
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(irm.predict_proba(new.logits), expected, atol=2e-5)


def test_ties_are_pooled():
    """Two distinct probabilities, 3 of 4 and 1 of 4 outcomes: the map has these two levels."""
    logits = np.log(np.array([[0.75, 0.25]] * 4, dtype=np.float32))
    irm = IRM().fit(logits, np.array([0, 0, 0, 1]))
    np.testing.assert_allclose(irm.nodes_.numpy(), [0.25, 0.75], atol=1e-6)
    np.testing.assert_allclose(irm.values_.numpy(), [0.25, 0.75], atol=1e-6)
