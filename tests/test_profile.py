"""The profile against the direct softmax in float64, over adversarial logits and the whole range of temperatures."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smart_core.fitting.profile import DIRECT_UP_TO, DirectProfile, TableProfile, build_profile

TEMPERATURES = np.concatenate([np.geomspace(0.1, 20.0, 61), [0.1 * 2 ** (1 / 12), 0.137, 19.99]])


def hard_rows(classes: int, seed: int) -> torch.Tensor:
    """Rows of many shapes: spread, tied, one runner-up, a plateau of rivals, nearly constant, far apart."""
    rng = np.random.default_rng(seed)
    rows = [rng.normal(size=classes) * scale for scale in np.geomspace(1e-3, 60.0, 40)]
    for gap in np.geomspace(1e-3, 80.0, 60):
        plateau = np.zeros(classes)
        plateau[0] = gap
        rival = rng.normal(size=classes) - 100.0
        rival[:2] = [gap, 0.0]
        mixed = rng.normal(size=classes) * 0.3
        mixed[3] += gap
        rows += [plateau, rival, mixed]
    return torch.tensor(np.array(rows), dtype=torch.float32)


def exact(logits: torch.Tensor, labels: torch.Tensor, temperature: float) -> dict[str, torch.Tensor]:
    q = torch.softmax(logits.double() / temperature, dim=1)
    label = q.gather(1, labels[:, None])[:, 0]
    one_hot = torch.nn.functional.one_hot(labels, logits.shape[1])
    log_q = torch.log_softmax(logits.double() / temperature, dim=1)
    smooth = 0.95 * one_hot + 0.05 / logits.shape[1]
    return {
        "confidence": q.amax(dim=1),
        "nll": -torch.log(label),
        "brier": ((q - one_hot) ** 2).sum(dim=1),
        "smoothed": -(smooth * log_q).sum(dim=1),
    }


@pytest.mark.parametrize("classes", [2, 10, 65, 1000, 30_000])
def test_confidence_is_right_everywhere(classes: int):
    rows = hard_rows(max(classes, 4), seed=classes)
    logits = rows[:: 1 if classes < 10_000 else 4, :classes].contiguous()
    labels = torch.arange(len(logits)) % classes
    profile = build_profile(logits, labels)
    assert isinstance(profile, DirectProfile if classes <= DIRECT_UP_TO else TableProfile)
    worst = 0.0
    for temperature in TEMPERATURES:
        beta = torch.full((len(logits),), 1.0 / temperature)
        p = profile.confidence(beta).double()
        assert (p >= 1.0 / classes - 1e-7).all()
        assert (p <= 1.0).all()
        worst = max(worst, float((p - exact(logits, labels, temperature)["confidence"]).abs().max()))
    assert worst < 5e-5, worst


@pytest.mark.parametrize("classes", [10, 300])
def test_losses_follow_from_the_log_partition(classes: int):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(200, classes, generator=generator) * 3.0
    labels = torch.randint(0, classes, (200,), generator=generator)
    profile = build_profile(logits, labels)
    for temperature in (0.2, 1.0, 3.7):
        beta = torch.full((200,), 1.0 / temperature)
        truth = exact(logits, labels, temperature)
        for name, value in {
            "nll": profile.nll(beta),
            "brier": profile.brier(beta),
            "smoothed": profile.smoothed_nll(beta, 0.05),
        }.items():
            torch.testing.assert_close(value.double(), truth[name], rtol=1e-4, atol=2e-4)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.floats(math.log(0.1), math.log(20.0)))
def test_table_agrees_with_direct_sum_for_random_rows(seed: int, log_temperature: float):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(20, 100, generator=generator) * (10.0 ** float(torch.rand(1, generator=generator) * 2))
    labels = torch.randint(0, 100, (20,), generator=generator)
    beta = torch.full((20,), math.exp(-log_temperature))
    expected = exact(logits, labels, math.exp(log_temperature))["confidence"]
    torch.testing.assert_close(build_profile(logits, labels).confidence(beta).double(), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("classes", [7, 90])
def test_gradients(classes: int):
    generator = torch.Generator().manual_seed(1)
    logits = (torch.randn(6, classes, generator=generator) * 2.0).double()
    labels = torch.randint(0, classes, (6,), generator=generator)
    profile = build_profile(logits, labels)
    beta = torch.tensor([0.07, 0.31, 0.9, 1.7, 4.1, 9.3], dtype=torch.float64, requires_grad=True)
    for function in (profile.log_partition, profile.confidence, profile.nll, profile.brier):
        assert torch.autograd.gradcheck(function, beta)


def test_beyond_the_table_gradients_lead_back_inside():
    logits = torch.randn(50, 100, generator=torch.Generator().manual_seed(2)) * 3.0
    profile = build_profile(logits, torch.zeros(50, dtype=torch.long))
    for value in (1e-3, 500.0):
        beta = torch.full((50,), value, requires_grad=True)
        p = profile.confidence(beta)
        assert torch.isfinite(p).all()
        (gradient,) = torch.autograd.grad(profile.log_partition(beta).sum(), beta)
        assert torch.isfinite(gradient).all()
        assert (gradient <= 0.0).all()


def test_a_mini_batch_is_the_same_function():
    logits = torch.randn(40, 100, generator=torch.Generator().manual_seed(3))
    labels = torch.arange(40)
    profile = build_profile(logits, labels)
    index = torch.tensor([3, 17, 31])
    beta = torch.tensor([0.5, 1.0, 2.0])
    torch.testing.assert_close(profile.take(index).nll(beta), build_profile(logits[index], labels[index]).nll(beta))


def test_huge_logits_stay_finite():
    logits = torch.tensor([[1e30, 0.0, -1e30], [5.0, 5.0, 5.0]])
    profile = build_profile(logits, torch.tensor([0, 1]))
    p = profile.confidence(torch.tensor([1.0, 1.0]))
    np.testing.assert_allclose(p, [1.0, 1.0 / 3.0], rtol=1e-6)
