"""Dirichlet calibration against an independent optimiser of the same penalised loss."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from smart_core.calibrators.dirichlet import Dirichlet
from tests.calibrators.made_up import draw_labels
from tests.calibrators.optimum import least
from tests.calibrators.problems import over_confident


@pytest.mark.parametrize(
    ("settings", "reg_lambda", "reg_mu"),
    [({}, 1.0, 1.0), ({"reg_lambda": 0.1}, 0.1, 1.0), ({"reg_lambda": 0.01, "reg_mu": 0.5}, 0.01, 0.5)],
)
def test_the_optimum_of_odir(settings: dict[str, float], reg_lambda: float, reg_mu: float):
    problem = over_confident(500, 3, seed=1)
    x = torch.log_softmax(torch.tensor(problem.logits, dtype=torch.float64), dim=1)
    y = torch.from_numpy(problem.labels)
    off = ~torch.eye(3, dtype=torch.bool)

    def loss(theta: torch.Tensor) -> torch.Tensor:
        w, b = theta[:9].view(3, 3), theta[9:]
        penalty = reg_lambda * w[off].square().mean() + reg_mu * b.square().mean()
        return cross_entropy(x @ w.T + b, y) + penalty

    value, theta = least(loss, np.array([*np.eye(3).ravel(), 0.0, 0.0, 0.0]))
    found = Dirichlet(**settings).fit(problem.logits, problem.labels)
    mine = loss(torch.cat([found.weight_.ravel(), found.bias_]).double())
    assert float(mine) == pytest.approx(value, abs=1e-5)
    np.testing.assert_allclose(found.weight_, theta[:9].reshape(3, 3), atol=1e-2)
    np.testing.assert_allclose(found.bias_, theta[9:], atol=1e-2)


def test_probabilities_may_be_given_as_their_logarithms():
    """Log-probabilities are logits of the same rows: the same map is learned."""
    problem = over_confident(300, 4, seed=2)
    logs = torch.log_softmax(torch.from_numpy(problem.logits), dim=1).numpy()
    first = Dirichlet().fit(problem.logits, problem.labels).predict_proba(problem.logits)
    second = Dirichlet().fit(logs, problem.labels).predict_proba(logs)
    np.testing.assert_allclose(first, second, atol=2e-3)


def test_swapped_classes_are_corrected():
    """A full matrix can exchange two classes, which no temperature can."""
    rng = np.random.default_rng(3)
    z = (rng.normal(size=(3000, 3)) * 2).astype(np.float32)
    labels = draw_labels(z[:, [1, 0, 2]], rng)
    rows = Dirichlet(reg_lambda=1e-3).fit(z, labels).predict_proba(z)
    best = z[:, [1, 0, 2]].argmax(axis=1)
    assert (rows.argmax(axis=1) == best).mean() > 0.95
