"""Structured vector and matrix scaling against an independent optimiser and against their authors' package."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

import smart_core as sc
from smart_core.calibrators import get
from tests.calibrators.made_up import softmax
from tests.calibrators.optimum import least
from tests.calibrators.problems import Problem, over_confident

PEER = 3e-3
"""The package's own optimiser stops this far, in probability, from the minimum."""


def tempered(problem: Problem, temperature: float) -> torch.Tensor:
    """`log((1 - u) softmax(z / T) + u / K)` in float64."""
    share = 1.0 / (len(problem.labels) + 1)
    rows = softmax(problem.logits.astype(np.float64) / temperature)
    return torch.from_numpy(np.log((1.0 - share) * rows + share / rows.shape[1]))


@pytest.mark.parametrize("strength", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("classes", [2, 4])
def test_svs_is_at_the_minimum_of_its_loss(classes: int, strength: float):
    problem = over_confident(300, classes, seed=1)
    found = sc.SVS(lambda_intercept=strength, lambda_diagonal=2.0 * strength).fit(problem.logits, problem.labels)
    x, y = tempered(problem, float(found.temperature_)), torch.from_numpy(problem.labels)
    per_class = classes / 300

    def loss(theta: torch.Tensor) -> torch.Tensor:
        v, b = theta[:classes], theta[classes:]
        penalty = strength * b.square().sum() + 2.0 * strength * (v - 1.0).square().sum()
        return cross_entropy(x * v + b, y) + per_class * penalty

    value, theta = least(loss, np.array([1.0] * classes + [0.0] * classes))
    assert float(loss(torch.cat([found.weight_, found.bias_]).double())) == pytest.approx(value, abs=1e-7)
    np.testing.assert_allclose(torch.cat([found.weight_, found.bias_]), theta, atol=2e-3)


@pytest.mark.parametrize("classes", [2, 5])
def test_sms_is_at_the_minimum_of_its_loss(classes: int):
    problem = over_confident(400, classes, seed=2)
    found = sc.SMS(lambda_off_diagonal=0.3).fit(problem.logits, problem.labels)
    x, y = tempered(problem, float(found.temperature_)), torch.from_numpy(problem.labels)
    off = ~torch.eye(classes, dtype=torch.bool)

    def loss(theta: torch.Tensor) -> torch.Tensor:
        v, b = theta[: classes**2].view(classes, classes), theta[classes**2 :]
        near = b.square().sum() + (v.diagonal() - 1.0).square().sum()
        pairs = classes * (classes - 1)
        return cross_entropy(x @ v.T + b, y) + (classes * near + 0.3 * pairs * v[off].square().sum()) / 400

    value, theta = least(loss, np.array([*np.eye(classes).ravel(), *[0.0] * classes]))
    mine = torch.cat([found.weight_.ravel(), found.bias_])
    assert float(loss(mine.double())) == pytest.approx(value, abs=1e-7)
    np.testing.assert_allclose(mine, theta, atol=2e-3)


@pytest.mark.parametrize(("rows", "classes"), [(200, 2), (600, 6), (1500, 12)])
@pytest.mark.parametrize("id", ["svs", "sms"])
def test_the_authors_package_gives_the_same(id: str, rows: int, classes: int):
    peers = pytest.importorskip("probmetrics.calibrators")
    problem, other = over_confident(rows, classes, seed=3), over_confident(400, classes, seed=4)
    peer = peers.get_calibrator(id)
    peer.fit(softmax(problem.logits).astype(np.float32), problem.labels)
    expected = peer.predict_proba(softmax(other.logits).astype(np.float32))
    mine = get(id).fit(problem.logits, problem.labels).predict_proba(other.logits)
    np.testing.assert_allclose(mine, expected, atol=PEER)


@pytest.mark.parametrize("id", ["svs", "sms"])
def test_a_strong_penalty_leaves_temperature_scaling(id: str):
    problem = over_confident(300, 5, seed=5)
    strengths = [item.name for item in get(id).settings() if item.name.startswith("lambda")]
    rows = get(id, **dict.fromkeys(strengths, 1e6)).fit(problem.logits, problem.labels).predict_proba(problem.logits)
    plain = sc.TS().fit(problem.logits, problem.labels).predict_proba(problem.logits)
    np.testing.assert_allclose(rows, plain, atol=2.0 / 300)  # the share of the uniform distribution is 1 / 301


def test_a_biased_class_is_repaired_where_a_temperature_cannot():
    problem = over_confident(3000, 4, seed=6)
    biased = problem.logits.copy()
    biased[:, 1] += 6.0
    nll = {}
    for id in ("ts", "svs", "sms"):
        rows = get(id).fit(biased, problem.labels).predict_proba(biased)
        nll[id] = -np.log(rows[np.arange(3000), problem.labels]).mean()
    assert nll["svs"] < 0.9 * nll["ts"]
    assert nll["sms"] < 0.9 * nll["ts"]
