"""Temperature scaling against scipy, on real logits, and at its limits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from smart_core.calibrators.ts import TS, minimise_nll, nll_slope
from smart_core.fitting.objectives import OBJECTIVES
from tests.calibrators.problems import over_confident
from tests.conftest import real_data


def scipy_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    z = logits.astype(np.float64)

    def nll(log_t: float) -> float:
        scaled = z / np.exp(log_t)
        return float((logsumexp(scaled, axis=1) - scaled[np.arange(len(z)), labels]).mean())

    found = minimize_scalar(nll, bounds=(np.log(0.05), np.log(20.0)), method="bounded", options={"xatol": 1e-9})
    return float(np.exp(found.x))


@pytest.mark.parametrize("classes", [2, 10, 200])
@pytest.mark.parametrize("temperature", [0.4, 1.0, 3.0])
def test_the_minimum_is_scipys(classes: int, temperature: float):
    problem = over_confident(400, classes, seed=classes, temperature=temperature)
    ts = TS().fit(problem.logits, problem.labels)
    expected = scipy_temperature(problem.logits, problem.labels)
    assert float(ts.temperature_) == pytest.approx(expected, rel=1e-4)


def test_slope_is_the_derivative():
    problem = over_confident(100, 5, seed=4)
    z, y = torch.from_numpy(problem.logits).double(), torch.from_numpy(problem.labels)

    def nll(beta: float) -> float:
        return float(torch.nn.functional.cross_entropy(z * beta, y))

    for beta in (0.2, 1.0, 3.0):
        slope, curvature = nll_slope(z, y, beta)
        h = 1e-5
        assert slope == pytest.approx((nll(beta + h) - nll(beta - h)) / (2 * h), abs=1e-7)
        assert curvature == pytest.approx((nll(beta + h) - 2 * nll(beta) + nll(beta - h)) / h**2, rel=1e-3)


@pytest.mark.parametrize("right", [True, False])
def test_without_errors_or_hits_t_is_at_its_limit_with_a_notice(right: bool):
    problem = over_confident(100, 3, seed=5)
    top = problem.logits.argmax(axis=1)
    ts = TS().fit(problem.logits, top if right else (top + 1) % 3)
    assert float(ts.temperature_) == pytest.approx(0.05 if right else 20.0, rel=1e-4)
    assert "held at" in ts.notices_[0]


@pytest.mark.parametrize("objective", list(OBJECTIVES))
def test_no_temperature_of_a_fine_grid_is_better(objective: str):
    from smart_core.fitting.profile import build_profile

    problem = over_confident(500, 5, seed=6)
    ts = TS(objective=objective).fit(problem.logits, problem.labels)
    z, y = torch.from_numpy(problem.logits), torch.from_numpy(problem.labels)
    profile = build_profile(z, y)
    loss = OBJECTIVES[objective].bind(sigma=0.05, delta=1e-3, bins=15)
    values = [float(loss(profile, torch.full((500,), 1.0 / t))) for t in np.geomspace(0.05, 20.0, 400)]
    reached = float(loss(profile, torch.full((500,), 1.0 / float(ts.temperature_))))
    assert reached <= min(values) + 1e-6


def test_the_published_temperature_of_the_cifar10_model():
    folder = real_data("resnet50_cifar10_ce")
    logits, labels = torch.load(folder / "val.pt", weights_only=True, map_location="cpu")
    assert 1.0 / minimise_nll(logits, labels) == pytest.approx(2.4975, abs=1e-3)
