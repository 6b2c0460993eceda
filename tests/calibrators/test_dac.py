"""DAC against the authors' formula, minimised over a grid, and against temperature scaling."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from smart_core.calibrators.dac import DAC
from smart_core.calibrators.ts import TS
from tests.calibrators.made_up import softmax
from tests.calibrators.problems import over_confident

PROBLEM = over_confident(400, 5, seed=1)


def distances(features: np.ndarray, neighbours: int) -> np.ndarray:
    """Mean squared distances to the nearest other rows, by scikit-learn."""
    unit = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-38)
    found, _ = NearestNeighbors(n_neighbors=neighbours + 1).fit(unit).kneighbors(unit)
    return (found[:, 1:] ** 2).mean(axis=1)


def nll(temperature: np.ndarray, labels: np.ndarray) -> float:
    rows = softmax(PROBLEM.logits.astype(np.float64) / temperature[:, None])
    return float(-np.log(rows[np.arange(len(rows)), labels]).mean())


@pytest.fixture(scope="module")
def labels() -> np.ndarray:
    """Labels of a model whose temperature grows with the distance."""
    features = PROBLEM.features + np.float32(1e-3)  # rows of zeros have no direction
    truth = 0.5 + 30.0 * distances(features, 20)
    rows = softmax(PROBLEM.logits.astype(np.float64) / truth[:, None])
    drawn = np.random.default_rng(0).random((len(rows), 1))
    return (rows.cumsum(axis=1) < drawn).sum(axis=1).clip(0, 4)


def test_the_weights_minimise_the_nll(labels: np.ndarray):
    features = PROBLEM.features + np.float32(1e-3)
    dac = DAC(neighbours=20).fit(PROBLEM.logits, labels, features=features)
    s = distances(features, 20)
    intercept, slope = dac.weights_.double().tolist()
    assert slope > 1.0
    found = nll(np.maximum(intercept + slope * s, 0.05), labels)
    grid = [
        nll(np.maximum(a + b * s, 0.05), labels) for a in np.linspace(-1, 4, 40) for b in np.linspace(0.0, 60.0, 40)
    ]
    assert found <= min(grid) + 1e-4
    ts = TS().fit(PROBLEM.logits, labels)
    assert found < nll(np.full(400, float(ts.temperature_)), labels) - 1e-3


def test_rows_are_divided_by_the_temperature_of_their_distance(labels: np.ndarray):
    features = PROBLEM.features + np.float32(1e-3)
    dac = DAC(neighbours=20).fit(PROBLEM.logits, labels, features=features)
    intercept, slope = dac.weights_.double().tolist()
    temperature = np.maximum(intercept + slope * distances(features, 20), 0.05)
    expected = softmax(PROBLEM.logits.astype(np.float64) / temperature[:, None])
    np.testing.assert_allclose(dac.predict_proba(PROBLEM.logits, features=features), expected, atol=1e-4)


def test_equal_distances_leave_temperature_scaling():
    features = np.eye(4, dtype=np.float32)[np.arange(400) % 4] + np.float32(1e-12)
    dac = DAC(neighbours=1000).fit(PROBLEM.logits, PROBLEM.labels, features=features)
    assert dac.weights_.tolist() == pytest.approx([float(TS().fit(PROBLEM.logits, PROBLEM.labels).temperature_), 0.0])


def test_without_features_it_reads_the_logits_and_says_so():
    dac = DAC().fit(PROBLEM.logits, PROBLEM.labels)
    assert "without features" in dac.notices_[0]
    assert dac.reference_.shape == PROBLEM.logits.shape
