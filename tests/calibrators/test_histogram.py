"""Histogram binning against netcal and against plain chunks of the sorted samples."""

from __future__ import annotations

import numpy as np
from netcal.binning import HistogramBinning

from smart_core.calibrators.histogram import Histogram
from tests.calibrators.made_up import softmax
from tests.calibrators.problems import over_confident


def top(logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return softmax(logits).max(axis=1), (logits.argmax(axis=1) == labels).astype(int)


def test_equal_width_is_netcals():
    problem, fresh = over_confident(900, 2, seed=1), over_confident(300, 2, seed=2)
    confidence, correct = top(problem.logits, problem.labels)
    oracle = HistogramBinning(bins=12).fit(confidence, correct)
    expected = oracle.transform(top(fresh.logits, fresh.labels)[0])
    found = Histogram(bins=12, scheme="width").fit(problem.logits, problem.labels)
    rows = found.predict_proba(fresh.logits)
    # The prediction's own probability, held above one half because the prediction is kept.
    np.testing.assert_allclose(rows.max(axis=1), np.maximum(expected, 0.5), atol=1e-5)


def test_equal_mass_gives_each_chunk_its_accuracy():
    problem = over_confident(700, 4, seed=3)
    confidence, correct = top(problem.logits, problem.labels)
    expected = np.empty(700)
    for chunk in np.split(np.argsort(confidence), 10):
        expected[chunk] = correct[chunk].mean()
    rows = Histogram(bins=10).fit(problem.logits, problem.labels).predict_proba(problem.logits)
    np.testing.assert_allclose(rows.max(axis=1), np.maximum(expected, 0.25), atol=1e-5)


def test_an_edge_belongs_to_the_bin_below():
    """Confidence bins are (l, u]: a confidence of exactly one half is in the lower of two."""
    logits = np.array([[0.0, 0.0], [0.0, 0.0], [9.0, 0.0], [9.0, 0.0]], dtype=np.float32)
    found = Histogram(bins=2, scheme="width").fit(logits, np.array([0, 1, 0, 0]))
    np.testing.assert_allclose(found.predict_proba(logits).max(axis=1), [0.5, 0.5, 1, 1], atol=1e-5)


def test_an_empty_bin_takes_its_centre():
    sure = np.tile(np.array([[20.0, 0.0]], dtype=np.float32), (10, 1))
    found = Histogram(bins=5, scheme="width").fit(sure, np.zeros(10, dtype=int))
    unsure = np.log(np.array([[0.7, 0.3]], dtype=np.float32))
    np.testing.assert_allclose(found.predict_proba(unsure), [[0.7, 0.3]], atol=1e-6)


def test_ties_leave_fewer_bins_and_that_is_said():
    logits = np.repeat(np.array([[1.0, 0.0], [3.0, 0.0]], dtype=np.float32), 20, axis=0)
    found = Histogram().fit(logits, np.zeros(40, dtype=int))
    assert found.notices_ == ["Tied confidences leave 2 of the 15 bins asked for."]
    assert found.parameters == 3  # two levels and the edge between them
