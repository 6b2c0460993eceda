"""Matrix scaling against scikit-learn's multinomial regression and an independent optimiser."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch.nn.functional import cross_entropy

from smart_core.calibrators.matrix import MatrixScaling
from tests.calibrators.optimum import centred64, least
from tests.calibrators.problems import over_confident


def test_it_is_multinomial_logistic_regression():
    problem = over_confident(800, 4, seed=1)
    x = centred64(problem.logits).numpy()
    oracle = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(x, problem.labels)
    rows = MatrixScaling().fit(problem.logits, problem.labels).predict_proba(problem.logits)
    expected = oracle.predict_proba(x)
    at_label = np.arange(800), problem.labels
    assert -np.log(rows[at_label]).mean() == pytest.approx(-np.log(expected[at_label]).mean(), abs=1e-5)
    np.testing.assert_allclose(rows, expected, atol=5e-3)


def test_reg_penalises_the_off_diagonal_and_the_bias():
    problem = over_confident(400, 3, seed=2)
    x, y = centred64(problem.logits), torch.from_numpy(problem.labels)
    off = ~torch.eye(3, dtype=torch.bool)

    def loss(theta: torch.Tensor) -> torch.Tensor:
        w, b = theta[:9].view(3, 3), theta[9:]
        return cross_entropy(x @ w.T + b, y) + 0.5 * (w[off].square().mean() + b.square().mean())

    value, theta = least(loss, np.array([*np.eye(3).ravel(), 0.0, 0.0, 0.0]))
    found = MatrixScaling(reg=0.5).fit(problem.logits, problem.labels)
    mine = loss(torch.cat([found.weight_.ravel(), found.bias_]).double())
    assert float(mine) == pytest.approx(value, abs=1e-5)
    np.testing.assert_allclose(found.weight_, theta[:9].reshape(3, 3), atol=5e-3)
    np.testing.assert_allclose(found.bias_, theta[9:], atol=5e-3)
    assert found.parameters == 12
