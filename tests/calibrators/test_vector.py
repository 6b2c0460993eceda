"""Vector scaling against an independent optimiser and a planted truth."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from smart_core.calibrators.vector import VectorScaling
from tests.calibrators.made_up import draw_labels, softmax
from tests.calibrators.optimum import centred64, least
from tests.calibrators.problems import over_confident


def test_the_optimum_is_the_independent_one():
    problem = over_confident(600, 4, seed=1)
    x, y = centred64(problem.logits), torch.from_numpy(problem.labels)
    value, theta = least(lambda t: cross_entropy(x * t[:4] + t[4:], y), np.array([1.0] * 4 + [0.0] * 4))
    rows = VectorScaling().fit(problem.logits, problem.labels).predict_proba(problem.logits)
    assert -np.log(rows[np.arange(600), problem.labels]).mean() == pytest.approx(value, abs=1e-5)
    np.testing.assert_allclose(rows, softmax(x.numpy() * theta[:4] + theta[4:]), atol=5e-3)


def test_penalty_is_on_the_distance_from_temperature_scaling():
    problem = over_confident(600, 4, seed=2)
    rows = VectorScaling(reg=1e6).fit(problem.logits, problem.labels).predict_proba(problem.logits)
    from smart_core.calibrators.ts import TS

    tempered = TS().fit(problem.logits, problem.labels).predict_proba(problem.logits)
    np.testing.assert_allclose(rows, tempered, atol=1e-4)


def test_a_planted_scale_and_bias_are_found():
    rng = np.random.default_rng(3)
    z = rng.normal(size=(40_000, 3)) * 3
    z -= z.mean(axis=1, keepdims=True)
    scale, bias = np.array([0.3, 0.6, 0.9]), np.array([0.5, 0.0, -0.5])
    found = VectorScaling().fit(z.astype(np.float32), draw_labels(z * scale + bias, rng))
    np.testing.assert_allclose(found.weight_, scale, atol=0.03)
    np.testing.assert_allclose(found.bias_ - found.bias_.mean(), bias, atol=0.05)
    assert found.parameters == 6
    assert not found.keeps_top1
