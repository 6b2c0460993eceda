"""BBQ against a plain re-computation: loops over models and bins, `lgamma` for every factor."""

from __future__ import annotations

from dataclasses import replace
from math import exp, lgamma

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smart_core.calibrators.bbq import BBQ, average_stairs, bin_counts, log_marginal_likelihood
from tests.calibrators.made_up import softmax
from tests.calibrators.problems import over_confident


def brute_force(scores: np.ndarray, hits: np.ndarray, queries: np.ndarray, prior: float) -> np.ndarray:
    order = np.argsort(scores)
    s, a = scores[order], hits[order]
    n = len(s)
    models = []
    for bins in range(max(1, int(n ** (1 / 3) / 10)), int(min(n / 5, 10 * n ** (1 / 3))) + 1):
        cuts = sorted({n - round(n * b / bins) for b in range(1, bins)} - {0, n})
        edges = [0.0, *((s[c - 1] + s[c]) / 2 for c in cuts), 1.0]
        score, values = 0.0, []
        for low, high, first, last in zip(edges, edges[1:], [0, *cuts], [*cuts, n], strict=False):
            alpha = prior / bins * (low + high) / 2
            beta = prior / bins - alpha
            right, wrong = a[first:last].sum(), (1 - a[first:last]).sum()
            score += lgamma(prior / bins) - lgamma(last - first + prior / bins)
            score += lgamma(right + alpha) - lgamma(alpha) + lgamma(wrong + beta) - lgamma(beta)
            values.append((right + alpha) / (last - first + prior / bins))
        models.append((score, edges, values))
    best = max(score for score, _, _ in models)
    total = sum(exp(score - best) for score, _, _ in models)
    result = np.zeros(len(queries))
    for score, edges, values in models:
        for i, q in enumerate(queries):
            place = sum(q > edge for edge in edges[1:-1])
            result[i] += exp(score - best) / total * values[place]
    return result


@pytest.mark.parametrize("prior", [2.0, 10.0])
def test_the_average_is_the_brute_force_one(prior: float):
    problem, fresh = over_confident(150, 3, seed=1), over_confident(60, 3, seed=2)
    noise = np.random.default_rng(0).normal(size=(150, 3)).astype(np.float32)
    problem = replace(problem, logits=problem.logits + 0.1 * noise)  # no two rows alike
    hits = (problem.logits.argmax(axis=1) == problem.labels).astype(float)
    expected = brute_force(softmax(problem.logits).max(1), hits, softmax(fresh.logits).max(1), prior)
    rows = BBQ(prior=prior).fit(problem.logits, problem.labels).predict_proba(fresh.logits)
    np.testing.assert_allclose(rows.max(axis=1), np.maximum(expected, 1 / 3), atol=1e-4)


def test_bin_counts_follow_the_cube_root():
    assert bin_counts(1) == (1, 1)
    assert bin_counts(50) == (1, 10)
    assert bin_counts(8000) == (2, 200)
    assert bin_counts(125_000) == (5, 500)


def test_marginal_likelihood_of_a_uniform_prior_in_closed_form():
    """With Beta(1, 1): `m! (n - m)! / (n + 1)!`."""
    one = np.array([1.0])
    found = log_marginal_likelihood(np.array([5.0]), np.array([2.0]), one, one)
    assert exp(found) == pytest.approx(2 * 6 / 720)


@given(weight=st.floats(0.01, 0.99), x=st.integers(0, 100).map(lambda i: i / 100 + 0.005))
def test_average_of_two_stairs(weight: float, x: float):
    first = (np.array([0.25, 0.5]), np.array([1.0, 2.0, 4.0]))
    second = (np.array([0.5, 0.75]), np.array([10.0, 20.0, 40.0]))
    edges, values = average_stairs([first, second], np.array([weight, 1 - weight]))
    one = 1.0 if x < 0.25 else 2.0 if x < 0.5 else 4.0
    two = 10.0 if x < 0.5 else 20.0 if x < 0.75 else 40.0
    assert edges.tolist() == [0.25, 0.5, 0.75]
    assert values[int((edges <= x).sum())] == pytest.approx(weight * one + (1 - weight) * two)
