"""Logit clipping against a plain search, and its edges."""

from __future__ import annotations

import numpy as np

from smart_core.calibrators.logitclip import LogitClip
from smart_core.metrics import ece
from tests.calibrators.made_up import softmax
from tests.calibrators.problems import over_confident

PROBLEM = over_confident(500, 6, seed=1)


def clipped_ece(clip: float) -> float:
    """With the model's own prediction, also where clipping ties it with others."""
    rows = softmax(np.clip(PROBLEM.logits, -clip, clip).astype(np.float64))
    prediction = PROBLEM.logits.argmax(axis=1)
    return ece(rows[np.arange(len(rows)), prediction], prediction == PROBLEM.labels)


def test_the_threshold_is_the_best_of_a_dense_grid_or_close_to_it():
    fit = LogitClip().fit(PROBLEM.logits, PROBLEM.labels)
    reach = np.abs(PROBLEM.logits).max()
    best = min(clipped_ece(clip) for clip in np.linspace(0.001, 1, 800) * reach)
    found = clipped_ece(float(fit.clip_))
    assert found <= best + 0.003
    assert found < 0.7 * clipped_ece(np.inf)


def test_rows_are_the_softmax_of_clipped_logits_and_keep_the_prediction():
    fit = LogitClip().fit(PROBLEM.logits, PROBLEM.labels)
    rows = fit.predict_proba(PROBLEM.logits)
    clip = float(fit.clip_)
    np.testing.assert_allclose(rows, softmax(np.clip(PROBLEM.logits, -clip, clip).astype(np.float64)), atol=1e-6)
    np.testing.assert_array_equal(rows.argmax(axis=1), PROBLEM.logits.argmax(axis=1))
    assert (np.sort(PROBLEM.logits, axis=1)[:, -2] > clip).any()  # here two classes tie at the threshold


def test_a_model_that_clipping_cannot_help_is_left_alone():
    """Every prediction is right, so that each lower confidence is a larger error."""
    fit = LogitClip().fit(PROBLEM.logits, PROBLEM.logits.argmax(axis=1))
    assert np.isinf(float(fit.clip_))
    assert "not clipped" in fit.notices_[0]
