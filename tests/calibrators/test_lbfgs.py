"""The optimiser of the linear maps against closed forms, SciPy and the textbook's matrices."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
import torch
from scipy.optimize import rosen, rosen_der
from torch import Tensor

from smart_core.calibrators.lbfgs import Loss, inverse_hessian_product, minimise_convex
from tests.calibrators.optimum import least


def keep_quiet(iteration: int) -> None:
    """No progress to report."""


class Counted:
    """A loss with its gradient by autograd, and how often it was asked for."""

    def __init__(self, formula) -> None:
        self.formula = formula
        self.calls = 0

    def __call__(self, theta: Tensor) -> tuple[float, Tensor]:
        self.calls += 1
        leaf = theta.detach().requires_grad_()
        value = self.formula(leaf)
        (gradient,) = torch.autograd.grad(value, leaf)
        return float(value.detach()), gradient


def found(loss: Loss, start: Tensor, curvature: Tensor, max_iterations: int = 500) -> Tensor:
    return minimise_convex(loss, start, curvature, max_iterations, 1e-14, keep_quiet)


def test_a_parabola_whose_curvature_is_known_takes_one_step():
    h = torch.logspace(-3, 3, 20, dtype=torch.float64)
    loss = Counted(lambda t: 0.5 * (h * (t - 1.0) ** 2).sum())
    np.testing.assert_allclose(found(loss, torch.zeros_like(h), h), 1.0, atol=1e-12)
    assert loss.calls == 2


def test_a_coupled_parabola_is_solved():
    rng = np.random.default_rng(0)
    factor = torch.from_numpy(rng.normal(size=(30, 30)))
    hessian = factor @ factor.T + 0.1 * torch.eye(30, dtype=torch.float64)
    right = torch.from_numpy(rng.normal(size=30))
    loss = Counted(lambda t: 0.5 * t @ hessian @ t - right @ t)
    theta = found(loss, torch.zeros(30, dtype=torch.float64), hessian.diagonal())
    np.testing.assert_allclose(theta, torch.linalg.solve(hessian, right), atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_logistic_regression_reaches_the_optimum_of_scipy(dtype: torch.dtype):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 6)) * np.array([0.01, 0.1, 1.0, 1.0, 10.0, 100.0])
    y = (x @ np.array([50.0, -3.0, 1.0, 0.0, 0.1, 0.01]) + rng.logistic(size=400) > 0).astype(float)

    def formula(theta: Tensor) -> Tensor:
        score = torch.from_numpy(x).to(theta.dtype) @ theta
        return (torch.nn.functional.softplus(score) - torch.from_numpy(y).to(theta.dtype) * score).mean()

    curvature = torch.from_numpy(0.25 * (x**2).mean(axis=0)).to(dtype)
    theta = found(Counted(formula), torch.zeros(6, dtype=dtype), curvature)
    scale = np.sqrt((x**2).mean(axis=0))
    value, _ = least(lambda t: formula(t / torch.from_numpy(scale)), np.zeros(6))
    assert float(formula(theta.double())) == pytest.approx(value, abs=1e-6 if dtype == torch.float32 else 1e-10)


def test_the_two_loops_are_the_bfgs_update_of_the_inverse():
    """`H+ = (I - s y'/s.y) H (I - y s'/s.y) + s s'/s.y`, pair by pair, from diag(initial)."""
    generator = torch.Generator().manual_seed(0)
    initial = torch.rand(5, generator=generator, dtype=torch.float64) + 0.5
    inverse, pairs = torch.diag(initial), deque()
    for _ in range(3):
        s, y = torch.randn(2, 5, generator=generator, dtype=torch.float64)
        y = y if s @ y > 0 else -y
        left = torch.eye(5, dtype=torch.float64) - torch.outer(s, y) / (s @ y)
        inverse = left @ inverse @ left.T + torch.outer(s, s) / (s @ y)
        pairs.append((s, y, float(s @ y)))
    g = torch.randn(5, generator=generator, dtype=torch.float64)
    np.testing.assert_allclose(inverse_hessian_product(g, pairs, initial), inverse @ g, atol=1e-12)


def test_it_is_never_worse_than_its_start_and_more_steps_are_better():
    """Even where the loss is not convex and the curvature is far off: Rosenbrock's valley."""

    def loss(theta: Tensor) -> tuple[float, Tensor]:
        return float(rosen(theta.numpy())), torch.from_numpy(rosen_der(theta.numpy()))

    start = torch.tensor([-1.2, 1.0, -0.5, 0.8], dtype=torch.float64)
    values = [
        loss(minimise_convex(loss, start, torch.full_like(start, 1e-3), steps, 1e-14, keep_quiet))[0]
        for steps in (1, 5, 20, 200)
    ]
    assert values == sorted(values, reverse=True)
    assert values[0] < loss(start)[0]
    assert values[-1] < 1e-8


def test_flat_and_overflowing_losses_end_where_they_began():
    start = torch.tensor([1.0, 2.0])
    flat = minimise_convex(lambda t: (3.0, torch.zeros_like(t)), start, torch.zeros(2), 50, 1e-10, keep_quiet)
    assert torch.equal(flat, start)

    def cliff(theta: Tensor) -> tuple[float, Tensor]:
        return (0.0 if torch.equal(theta, start) else float("nan")), torch.ones(2)

    assert torch.equal(minimise_convex(cliff, start, torch.ones(2), 50, 1e-10, keep_quiet), start)


def test_steps_are_counted_and_may_be_stopped():
    h = torch.logspace(0, 3, 10, dtype=torch.float64)
    seen: list[int] = []

    def watch(iteration: int) -> None:
        seen.append(iteration)
        if iteration == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        minimise_convex(Counted(lambda t: torch.logsumexp(h * t, 0) - t.sum()), torch.ones_like(h), h, 50, 1e-14, watch)
    assert seen == sorted(seen)
    assert set(seen) == {0, 1, 2, 3}


def test_rounding_of_the_loss_does_not_stop_it_early():
    """A value that is off by up to 1e-8: the slopes lead on until no difference of two values can tell more."""
    h = torch.logspace(0, 3, 40, dtype=torch.float64)

    def loss(theta: Tensor) -> tuple[float, Tensor]:
        distance = theta - 1.0
        error = 1e-8 * float(torch.sin(1e9 * distance.sum()))
        return 1.0 + 0.5 * float((h * distance**2).sum()) + error, h * distance

    theta = minimise_convex(loss, torch.zeros(40, dtype=torch.float64), torch.ones(40), 300, 1e-14, keep_quiet)
    assert 0.5 * float((h * (theta - 1.0) ** 2).sum()) < 4e-8  # which of the errors it meets is a matter of rounding
