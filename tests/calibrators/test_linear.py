"""What the linear maps share: gradients, penalties, inputs, and never being worse than their start."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from smart_core.calibrators import get
from smart_core.calibrators.linear import (
    Penalty,
    centred,
    log_probabilities,
    loss_and_gradient,
    loss_curvature,
    odir,
    prior_around_temperature,
)
from smart_core.errors import Cancelled
from smart_core.types import Logits
from tests.calibrators.made_up import degenerate
from tests.calibrators.problems import over_confident

LINEAR = ["vector", "matrix", "dirichlet"]


def nll(rows: np.ndarray, labels: np.ndarray) -> float:
    return float(-np.log(np.maximum(rows[np.arange(len(labels)), labels].astype(np.float64), 1e-30)).mean())


def plain_loss(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor, b: torch.Tensor, p: Penalty) -> torch.Tensor:
    """The formula of the documentation, with loops for the penalty."""
    classes = len(b)
    full = w if w.ndim == 2 else torch.diag(w)
    loss = torch.nn.functional.cross_entropy(x @ full.T + b, y)
    for i in range(classes):
        loss = loss + p.intercept * b[i] ** 2 / classes + p.diagonal * (full[i, i] - 1) ** 2 / classes
        for j in range(classes):
            if i != j:
                loss = loss + p.off_diagonal * full[i, j] ** 2 / (classes * (classes - 1))
    return loss


@pytest.mark.parametrize("shape", [(4,), (4, 4)])
def test_loss_and_gradient_are_those_of_the_formula(shape: tuple[int, ...]):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(50, 4, generator=generator, dtype=torch.float64)
    y = torch.randint(4, (50,), generator=generator)
    w = torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()
    b = torch.randn(4, generator=generator, dtype=torch.float64).requires_grad_()
    penalty = Penalty(off_diagonal=0.7, diagonal=0.3, intercept=0.2)
    expected = plain_loss(x, y, w, b, penalty)
    expected.backward()
    value, w_gradient, b_gradient = loss_and_gradient(x, y, w.detach(), b.detach(), penalty, lambda: None)
    assert value == pytest.approx(expected.item())
    np.testing.assert_allclose(w_gradient, w.grad, atol=1e-12)
    np.testing.assert_allclose(b_gradient, b.grad, atol=1e-12)


@pytest.mark.parametrize("shape", [(3,), (3, 3)])
def test_curvature_is_half_way_from_hessian_to_squared_gradients(shape: tuple[int, ...]):
    """The Hessian's diagonal and the mean of squared sample gradients estimate the same; the penalty is in both."""
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(20, 3, generator=generator, dtype=torch.float64)
    y = torch.randint(3, (20,), generator=generator)
    theta = torch.randn(int(np.prod(shape)) + 3, generator=generator, dtype=torch.float64)
    penalty = Penalty(off_diagonal=0.7, diagonal=0.3, intercept=0.2)

    def loss(t: torch.Tensor, rows: slice, p: Penalty) -> torch.Tensor:
        return plain_loss(x[rows], y[rows], t[:-3].view(shape), t[-3:], p)

    def hessian(p: Penalty) -> torch.Tensor:
        return torch.autograd.functional.hessian(lambda t: loss(t, slice(None), p), theta).diagonal()

    squares = torch.stack(
        [
            torch.autograd.functional.jacobian(lambda t, n=n: loss(t, slice(n, n + 1), Penalty()), theta) ** 2
            for n in range(20)
        ]
    ).mean(dim=0)
    expected = 0.5 * (hessian(penalty) + squares + hessian(penalty) - hessian(Penalty()))
    parts = loss_curvature(x, y, theta[:-3].view(shape), theta[-3:], penalty, lambda: None)
    np.testing.assert_allclose(torch.cat([part.reshape(-1) for part in parts]), expected, atol=1e-12)


def test_chunks_do_not_change_the_sum(monkeypatch: pytest.MonkeyPatch):
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(37, 3, generator=generator), torch.randint(3, (37,), generator=generator)
    whole = loss_and_gradient(x, y, torch.eye(3), torch.zeros(3), Penalty(), lambda: None)
    monkeypatch.setattr("smart_core.calibrators.linear.rows_per_chunk", lambda columns: 5)
    parts = loss_and_gradient(x, y, torch.eye(3), torch.zeros(3), Penalty(), lambda: None)
    assert parts[0] == pytest.approx(whole[0], abs=1e-6)
    np.testing.assert_allclose(parts[1], whole[1], atol=1e-6)


def test_odir_is_stated_in_units_of_w():
    """V = T W, so a penalty on W^2 is one on V^2 / T^2."""
    assert odir(3.0, 5.0, beta=0.5) == Penalty(off_diagonal=0.75, diagonal=0.0, intercept=5.0)


def test_the_prior_fades_like_one_over_n():
    few, many = (prior_around_temperature(torch.ones(samples, 100)) for samples in (1000, 10_000))
    for name in ("off_diagonal", "diagonal", "intercept"):
        assert getattr(few, name) == pytest.approx(10 * getattr(many, name))
    # A diagonal entry one sd (0.1) off costs half a unit of log-likelihood in all: 1/2 = N * nu * 0.01 / K.
    assert 1000 * few.diagonal * 0.1**2 / 100 == pytest.approx(0.5)
    # Inputs three times as large: weights have a third of the spread, biases the same.
    large = prior_around_temperature(torch.full((1000, 100), 3.0))
    assert large.off_diagonal == pytest.approx(9 * few.off_diagonal)
    assert large.diagonal == pytest.approx(9 * few.diagonal)
    assert large.intercept == few.intercept


def test_inputs_see_only_what_softmax_sees():
    z = torch.tensor([[1.0, 2.0, 6.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(centred(Logits(z)), [[-2.0, -1.0, 3.0], [0.0, 0.0, 0.0]], atol=1e-6)
    np.testing.assert_allclose(log_probabilities(Logits(z)), torch.log(torch.softmax(z, 1)), atol=1e-6)


@pytest.mark.parametrize("id", LINEAR)
def test_a_shift_of_a_row_changes_nothing(id: str):
    problem = over_confident(300, 4, seed=1)
    shift = np.random.default_rng(0).integers(-8, 8, size=(300, 1)).astype(np.float32)
    first = get(id).fit(problem.logits, problem.labels)
    second = get(id).fit(problem.logits + shift, problem.labels)
    np.testing.assert_allclose(
        first.predict_proba(problem.logits), second.predict_proba(problem.logits - shift), atol=2e-3
    )


@pytest.mark.parametrize("id", LINEAR)
@pytest.mark.parametrize("name", list(degenerate()))
def test_never_worse_than_temperature_scaling_on_validation(id: str, name: str):
    sample = degenerate()[name]
    rows = get(id).fit(sample.logits, sample.labels).predict_proba(sample.logits)
    assert np.isfinite(rows).all()
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, atol=1e-5)
    start = get("ts").fit(sample.logits, sample.labels).predict_proba(sample.logits)
    assert nll(rows, sample.labels) <= nll(start, sample.labels) + 1e-4


@pytest.mark.parametrize("id", LINEAR)
def test_one_iteration_is_allowed_and_more_is_better(id: str):
    problem = over_confident(400, 5, seed=2)
    labels = np.where(problem.labels == 0, 1, problem.labels)
    losses = [
        nll(get(id, max_iterations=n).fit(problem.logits, labels).predict_proba(problem.logits), labels)
        for n in (1, 50)
    ]
    assert losses[1] < losses[0] - 1e-3


@pytest.mark.parametrize("id", LINEAR)
def test_many_classes_stay_near_temperature_scaling_with_a_notice(id: str):
    both = over_confident(1000, 120, seed=3, width=30)
    fit, judge = slice(0, 500), slice(500, 1000)
    calibrator = get(id).fit(both.logits[fit], both.labels[fit])
    assert calibrator.notices_ == [
        f"{calibrator.parameters:,} parameters from 500 samples; a prior holds them near temperature scaling."
    ]
    start = get("ts").fit(both.logits[fit], both.labels[fit]).predict_proba(both.logits[judge])
    held = nll(calibrator.predict_proba(both.logits[judge]), both.labels[judge])
    assert held < nll(start, both.labels[judge]) + 0.1
    free = get(id, **({"reg_lambda": 0.0, "reg_mu": 0.0} if id == "dirichlet" else {"reg": 0.0}))
    free.fit(both.logits[fit], both.labels[fit])
    assert free.notices_ == [f"{free.parameters:,} parameters from 500 samples; expect overfitting."]
    assert nll(free.predict_proba(both.logits[judge]), both.labels[judge]) > held + 0.3


class StopsLate:
    """A token that is set after it was looked at a number of times."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def is_set(self) -> bool:
        self.looks -= 1
        return self.looks < 0


@pytest.mark.parametrize("id", LINEAR)
def test_cancel_in_the_middle(id: str):
    problem = over_confident(200, 4, seed=4)
    patient = StopsLate(10**6)
    get("ts").fit(problem.logits, problem.labels, cancel=patient)
    past_the_start = 10**6 - patient.looks + 3
    with pytest.raises(Cancelled):
        get(id).fit(problem.logits, problem.labels, cancel=StopsLate(past_the_start))
