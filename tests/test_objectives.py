"""The six objectives against plain NumPy formulas, and the hand-written gradient against finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smart_core.fitting.objectives import OBJECTIVES, charbonnier_soft_ece, soft_bin_weights, soft_ece
from smart_core.fitting.profile import build_profile

SETTINGS = {"sigma": 0.05, "delta": 1e-3, "bins": 15}


def sample(n: int = 60, classes: int = 5, seed: int = 0, dtype: torch.dtype = torch.float64):
    generator = torch.Generator().manual_seed(seed)
    logits = (torch.randn(n, classes, generator=generator) * 3.0).to(dtype)
    labels = torch.randint(0, classes, (n,), generator=generator)
    beta = torch.rand(n, generator=generator).to(dtype) * 2.0 + 0.1
    return logits, labels, beta


def paper_formula(p: np.ndarray, a: np.ndarray, sigma: float, delta: float, bins: int) -> float:
    """`sum_b pi_b (phi(phat_b - ahat_b) - phi(0))`, in loops, as the paper writes it."""
    centres = [(b + 0.5) / bins for b in range(bins)]
    weights = np.array([[math.exp(-((pi - c) ** 2) / (2 * sigma**2)) for c in centres] for pi in p])
    weights /= weights.sum(axis=1, keepdims=True)
    total = 0.0
    for b in range(bins):
        mass = weights[:, b].sum()
        if mass == 0.0:
            continue
        gap = (weights[:, b] * p).sum() / mass - (weights[:, b] * a).sum() / mass
        total += mass / len(p) * (math.sqrt(gap**2 + delta**2) - delta)
    return total


@pytest.mark.parametrize("sigma", [0.02, 0.05, 0.3])
@pytest.mark.parametrize("delta", [1e-3, 0.1])
def test_charbonnier_is_the_papers_sum_over_bins(sigma: float, delta: float):
    logits, labels, beta = sample()
    profile = build_profile(logits, labels)
    p = torch.softmax(logits * beta[:, None], dim=1).amax(dim=1).numpy()
    expected = paper_formula(p, profile.correct.numpy(), sigma, delta, 15)
    value = charbonnier_soft_ece(profile, beta, sigma=sigma, delta=delta, bins=15)
    assert float(value) == pytest.approx(expected, abs=1e-12)


def test_soft_ece_is_the_limit_of_charbonnier():
    logits, labels, beta = sample()
    profile = build_profile(logits, labels)
    limit = charbonnier_soft_ece(profile, beta, sigma=0.05, delta=1e-12, bins=15)
    torch.testing.assert_close(soft_ece(profile, beta, sigma=0.05, bins=15), limit, atol=1e-9, rtol=0)


@settings(max_examples=25)
@given(st.integers(0, 1000), st.sampled_from([0.02, 0.05, 0.5]), st.sampled_from([1e-3, 1.0]))
def test_hand_written_gradient(seed: int, sigma: float, delta: float):
    logits, labels, beta = sample(12, 4, seed)
    profile = build_profile(logits, labels)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return charbonnier_soft_ece(profile, x, sigma=sigma, delta=delta, bins=15)

    assert torch.autograd.gradcheck(loss, beta.requires_grad_(), atol=1e-6)


@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_every_objective_has_a_right_gradient(name: str):
    logits, labels, beta = sample(10, 4, 5)
    profile = build_profile(logits, labels)
    loss = OBJECTIVES[name].bind(**SETTINGS)
    assert torch.autograd.gradcheck(lambda x: loss(profile, x), beta.requires_grad_(), atol=1e-6)


def test_likelihood_objectives_against_torch():
    logits, labels, _ = sample()
    profile = build_profile(logits, labels)
    beta = torch.full((60,), 0.4, dtype=torch.float64)
    scaled = logits * 0.4
    one_hot = torch.nn.functional.one_hot(labels, 5).double()
    squares = (torch.softmax(scaled, dim=1) - one_hot) ** 2
    expected = {
        "nll": torch.nn.functional.cross_entropy(scaled, labels),
        "ls": torch.nn.functional.cross_entropy(scaled, labels, label_smoothing=0.05),
        "mse": squares.mean(),
        "brier": squares.sum(dim=1).mean(),
    }
    for name, value in expected.items():
        torch.testing.assert_close(OBJECTIVES[name].bind(**SETTINGS)(profile, beta), value)


def test_several_fits_at_once_are_the_fits_one_by_one():
    logits, labels, beta = sample()
    profile = build_profile(logits, labels)
    stacked = torch.stack([beta, beta * 0.5, beta + 1.0])
    for spec in OBJECTIVES.values():
        loss = spec.bind(**SETTINGS)
        torch.testing.assert_close(loss(profile, stacked), torch.stack([loss(profile, row) for row in stacked]))


def test_weights_sum_to_one_even_for_a_narrow_kernel():
    weights = soft_bin_weights(torch.linspace(0, 1, 101), 0.001, 15)
    assert torch.isfinite(weights).all()
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(101))
