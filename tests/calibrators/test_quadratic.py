"""Quadratic scaling of two classes against scikit-learn and its authors' package, and through the shared questions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import smart_core as sc
from smart_core.calibrators.inputs import TWO_CLASSES
from smart_core.calibrators.store import calibrator_bytes
from smart_core.errors import CalibrationError
from smart_core.export import as_module, numpy_source, onnx_bytes
from tests.calibrators.made_up import softmax
from tests.calibrators.problems import Problem, over_confident

EQUAL = 1e-6
"""Exported rows against those of the engine."""


@pytest.fixture(scope="module")
def problem() -> Problem:
    return over_confident(800, 2, seed=1)


@pytest.mark.parametrize("square", ["signed", "plain"])
def test_scikit_learn_finds_the_same_optimum(square: str, problem: Problem):
    rows = sc.Quadratic(square=square).fit(problem.logits, problem.labels).predict_proba(problem.logits)
    x = (problem.logits[:, 1] - problem.logits[:, 0]).astype(np.float64)
    features = np.stack([x, x * np.abs(x) if square == "signed" else x * x], axis=1)
    features /= features.std(axis=0)
    peer = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(features, problem.labels)
    np.testing.assert_allclose(rows, peer.predict_proba(features), atol=1e-4)


def test_the_authors_package_gives_the_same(problem: Problem):
    peers = pytest.importorskip("probmetrics.calibrators")
    peer = peers.get_calibrator("quadratic-scaling")
    probabilities = softmax(problem.logits).astype(np.float32)
    peer.fit(probabilities, problem.labels)
    rows = sc.Quadratic(square="plain").fit(problem.logits, problem.labels).predict_proba(problem.logits)
    np.testing.assert_allclose(rows, peer.predict_proba(probabilities), atol=2e-3)  # its optimiser stops early


def test_both_classes_are_treated_alike(problem: Problem):
    fit = sc.Quadratic().fit(problem.logits, problem.labels)
    swapped = sc.Quadratic().fit(problem.logits[:, ::-1].copy(), 1 - problem.labels)
    rows = swapped.predict_proba(problem.logits[:, ::-1].copy())[:, ::-1]
    np.testing.assert_allclose(fit.predict_proba(problem.logits), rows, atol=1e-5)


def test_other_numbers_of_classes_are_refused_in_one_sentence():
    problem = over_confident(100, 3, seed=2)
    with pytest.raises(CalibrationError, match="Quadratic needs two classes"):
        sc.Quadratic().fit(problem.logits, problem.labels)
    assert sc.Quadratic.missing({TWO_CLASSES: False}) == "needs two classes"
    result = sc.compare(sc.simulate_set(200, 200, 3, seed=0), "quadratic,ts", seeds=1)
    assert result.results["quadratic"].reason == "needs two classes"


@pytest.mark.parametrize("labels", ["right", "wrong", "one class"])
def test_what_can_be_separated_gives_probabilities(labels: str, problem: Problem):
    top = problem.logits.argmax(axis=1)
    chosen = {"right": top, "wrong": 1 - top, "one class": np.zeros_like(top)}[labels]
    for logits in (problem.logits, problem.logits * np.float32(1e30), np.zeros_like(problem.logits)):
        rows = sc.Quadratic().fit(logits, chosen).predict_proba(logits)
        assert np.isfinite(rows).all()
        np.testing.assert_allclose(rows.sum(axis=1), 1.0, atol=1e-6)


def test_fifty_samples_saved_and_exported(problem: Problem):
    import onnxruntime
    import torch

    fit = sc.Quadratic().fit(problem.logits[:50], problem.labels[:50])
    rows = fit.predict_proba(problem.logits)
    np.testing.assert_array_equal(sc.load_calibrator(calibrator_bytes(fit)).predict_proba(problem.logits), rows)
    names: dict = {}
    exec(numpy_source(fit), names)
    np.testing.assert_allclose(names["predict_proba"](problem.logits), rows, atol=EQUAL)
    session = onnxruntime.InferenceSession(onnx_bytes(fit))
    (found,) = session.run(None, {"logits": problem.logits})
    np.testing.assert_allclose(found, rows, atol=EQUAL)
    np.testing.assert_allclose(as_module(fit)(torch.from_numpy(problem.logits)), rows, atol=EQUAL)
