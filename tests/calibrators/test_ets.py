"""Ensemble temperature scaling: the conditions of an optimum, brute force, and simulated truth."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from smart_core.calibrators.ets import ETS, mixture_weights
from smart_core.calibrators.ts import TS
from smart_core.progress import Run
from tests.calibrators.made_up import degenerate, softmax
from tests.calibrators.problems import over_confident


def nll(rows: np.ndarray, labels: np.ndarray) -> float:
    return float(-np.log(np.maximum(rows[np.arange(len(labels)), labels].astype(np.float64), 1e-300)).mean())


@given(
    members=arrays(np.float64, (30, 3), elements=st.floats(1e-6, 1.0)),
)
def test_weights_satisfy_the_conditions_of_the_optimum(members: np.ndarray):
    """On the simplex: `mean(p_k / (p w)) <= 1` for every k."""
    w = mixture_weights(members, Run())
    assert w.sum() == pytest.approx(1.0)
    assert (w >= 0).all()
    ratio = (members / (members @ w)[:, None]).mean(axis=0)
    assert ratio.max() - 1 < 1e-4  # by convexity, the NLL is at most this far above the least


def test_weights_by_brute_force():
    problem = over_confident(500, 5, seed=1)
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(500) < 0.3, rng.integers(0, 5, 500), problem.labels)
    found = ETS(objective="nll").fit(problem.logits, labels)
    temperature = float(TS().fit(problem.logits, labels).temperature_)
    assert float(found.temperature_) == pytest.approx(temperature)
    parts = [softmax(problem.logits / temperature), softmax(problem.logits), np.full((500, 5), 0.2)]
    steps = np.linspace(0, 1, 101)
    best = min(
        nll(a * parts[0] + b * parts[1] + (1 - a - b) * parts[2], labels)
        for a in steps
        for b in steps
        if a + b <= 1 + 1e-12
    )
    mine = nll(found.predict_proba(problem.logits), labels)
    assert mine <= best + 1e-7
    assert mine == pytest.approx(best, abs=1e-3)


def authors_mse(logits: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """T and weights as Mix-n-Match's code finds them: L-BFGS-B and SLSQP on the mean squared error."""
    wide, one_hot = logits.astype(np.float64), np.eye(logits.shape[1])[labels]

    def error(rows: np.ndarray) -> float:
        return float(((rows - one_hot) ** 2).mean())

    t = minimize(lambda t: error(softmax(wide / t)), [1.0], method="L-BFGS-B", bounds=[(0.05, 20.0)], tol=1e-12).x[0]
    parts = [softmax(wide / t), softmax(wide), np.full_like(wide, 1 / wide.shape[1])]
    weights = minimize(
        lambda w: error(sum(a * part for a, part in zip(w, parts, strict=True))),
        [1.0, 0.0, 0.0],
        method="SLSQP",
        bounds=[(0, 1)] * 3,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        tol=1e-12,
    ).x
    return float(t), weights


@pytest.mark.parametrize("classes", [4, 90])
def test_the_squared_error_is_minimised_as_in_the_authors_code(classes: int):
    problem = over_confident(600, classes, seed=2)
    rng = np.random.default_rng(1)
    labels = np.where(rng.random(600) < 0.2, rng.integers(0, classes, 600), problem.labels)
    found = ETS().fit(problem.logits, labels)
    temperature, weights = authors_mse(problem.logits, labels)
    assert float(found.temperature_) == pytest.approx(temperature, rel=2e-3)
    np.testing.assert_allclose(found.weights_.numpy(), weights, atol=5e-3)


def test_label_noise_is_found_as_uniform_weight():
    rng = np.random.default_rng(2)
    problem = over_confident(20_000, 10, seed=3, temperature=1.0)
    noisy = np.where(rng.random(20_000) < 0.25, rng.integers(0, 10, 20_000), problem.labels)
    weights = ETS().fit(problem.logits, noisy).weights_.numpy()
    assert weights[2] == pytest.approx(0.25, abs=0.04)


@pytest.mark.parametrize("name", list(degenerate()))
def test_never_worse_than_temperature_scaling_and_top1_kept(name: str):
    sample = degenerate()[name]
    ets = ETS(objective="nll").fit(sample.logits, sample.labels)
    ts = TS().fit(sample.logits, sample.labels)
    rows = ets.predict_proba(sample.logits)
    assert nll(rows, sample.labels) <= nll(ts.predict_proba(sample.logits), sample.labels) + 1e-5
    np.testing.assert_array_equal(rows.argmax(axis=1), sample.logits.argmax(axis=1))
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, atol=1e-5)


@given(z=arrays(np.float32, (10, 3), elements=st.floats(-(2.0**-20), 2.0**-20, width=32)))
def test_top1_is_kept_where_the_mixture_rounds_to_a_tie(z: np.ndarray):
    ets = ETS()
    ets.classes_, ets.features_used_ = 3, False
    ets.temperature_, ets.weights_ = torch.tensor([15.0]), torch.tensor([0.3, 0.2, 0.5])
    np.testing.assert_array_equal(ets.predict_proba(z).argmax(axis=1), z.argmax(axis=1))
