"""The hand-written Adam against PyTorch's, and the rules of stopping and restoring."""

from __future__ import annotations

import threading

import pytest
import torch

from smart_core import kernels
from smart_core.errors import Cancelled
from smart_core.fitting.training import Adam, Schedule, train
from smart_core.progress import Run
from tests.tolerance import assert_within, float32_bound


@pytest.mark.parametrize("compiled", [True, False])
def test_adam_is_pytorchs_adam(compiled: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kernels, "enabled", compiled)
    torch.manual_seed(0)
    matrix = torch.randn(6, 4)
    mine = torch.randn(4)
    theirs = mine.clone().requires_grad_()
    adam, reference = Adam(mine, lr=0.05), torch.optim.Adam([theirs], lr=0.05)
    for _ in range(50):
        leaf = mine.clone().requires_grad_()
        (gradient,) = torch.autograd.grad((matrix @ leaf - 1.0).pow(2).mean(), leaf)
        adam.step(gradient)
        reference.zero_grad()
        (matrix @ theirs - 1.0).pow(2).mean().backward()
        reference.step()
    assert_within(mine, theirs.detach(), float32_bound(50, theirs.detach().abs().max()))  # a rounding a step


def quadratic(theta: torch.Tensor, index: torch.Tensor | None) -> torch.Tensor:
    return (theta - 3.0).pow(2).sum()


def run_train(schedule: Schedule, loss=quadratic, trace: bool = False, samples: int = 10):
    run = Run(trace=trace)
    theta = train(torch.zeros(2), loss, samples, schedule, torch.Generator().manual_seed(0), run)
    return theta, run.trace


def test_it_finds_the_minimum():
    theta, _ = run_train(Schedule(lr=0.1, epochs=500, min_improvement=0.0))
    torch.testing.assert_close(theta, torch.full((2,), 3.0), atol=1e-3, rtol=0)


def test_patience_counts_epochs_without_progress():
    calls = []

    def flat(theta: torch.Tensor, index: torch.Tensor | None) -> torch.Tensor:
        calls.append(1)
        return (theta * 0.0).sum() + 1.0

    run_train(Schedule(lr=0.1, epochs=1000, patience=7), flat)
    assert len(calls) == 8  # the first epoch is progress, then seven without
    calls.clear()
    run_train(Schedule(lr=0.1, epochs=30, patience=None), flat)
    assert len(calls) == 30


def test_the_state_of_the_last_progress_is_restored():
    values = iter([5.0, 4.0, 9.0, 9.0, 9.0])
    seen: list[torch.Tensor] = []

    def scripted(theta: torch.Tensor, index: torch.Tensor | None) -> torch.Tensor:
        seen.append(theta.detach().clone())
        return theta.sum() * 1.0 + (next(values) - theta.detach().sum())

    theta, _ = run_train(Schedule(lr=0.1, epochs=5), scripted)
    torch.testing.assert_close(theta, seen[1])


def test_mini_batches_cover_every_sample_once():
    seen: list[int] = []

    def loss(theta: torch.Tensor, index: torch.Tensor | None) -> torch.Tensor:
        assert index is not None
        seen.extend(index.tolist())
        return theta.sum() * 0.0

    run_train(Schedule(lr=0.1, epochs=1, batch_size=4), loss, samples=10)
    assert sorted(seen) == list(range(10))


def test_trace_records_every_epoch():
    _, trace = run_train(Schedule(lr=0.1, epochs=20), trace=True)
    assert trace is not None
    assert len(trace["objective"]) == len(trace["gradient_norm"]) == 20
    assert trace["objective"][0] == pytest.approx(18.0)
    assert trace["gradient_norm"][0] == pytest.approx((2 * 36.0) ** 0.5)


def test_cancel_stops_within_the_epoch():
    token, calls = threading.Event(), []

    def cancelled_meanwhile(theta: torch.Tensor, index: torch.Tensor | None) -> torch.Tensor:
        calls.append(1)
        if len(calls) == 5:
            token.set()
        return quadratic(theta, index)

    schedule, generator = Schedule(lr=1e-9, epochs=10**9), torch.Generator().manual_seed(0)
    with pytest.raises(Cancelled):
        train(torch.zeros(2), cancelled_meanwhile, 10, schedule, generator, Run(cancel=token))
    assert len(calls) == 5


def test_a_given_gradient_takes_the_place_of_autograd():
    def written_out(theta: torch.Tensor) -> tuple[float, torch.Tensor]:
        return float((theta - 3.0).pow(2).sum()), 2.0 * (theta - 3.0)

    schedule = Schedule(lr=0.1, epochs=60, patience=20)
    arguments = torch.zeros(2), quadratic, 10, schedule, torch.Generator()
    found, expected = Run(trace=True), Run(trace=True)
    theta = train(*arguments, found, gradient=written_out)
    assert_within(theta, train(*arguments, expected), float32_bound(60, 3.0))  # a rounding an epoch, at most as large
    assert found.trace is not None
    assert expected.trace is not None
    for name, first in (("objective", 18.0), ("gradient_norm", 72.0**0.5)):
        assert_within(found.trace[name], expected.trace[name], float32_bound(60, first), name)
