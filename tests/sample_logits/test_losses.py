"""Training losses against plain loops over samples, and their gradients against finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sample_logits.losses import LOSSES

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(0, 2, (12, 4))
LABELS = RNG.integers(0, 4, 12)


def shares(row: np.ndarray) -> list[float]:
    total = sum(math.exp(value) for value in row)
    return [math.exp(value) / total for value in row]


def by_hand(name: str) -> float:
    """The formula, one sample at a time."""
    p = [shares(row) for row in LOGITS]
    true = [p[i][LABELS[i]] for i in range(12)]
    plain = -sum(math.log(t) for t in true) / 12
    if name == "NLL":
        return plain
    if name == "Brier":
        return sum((p[i][k] - (LABELS[i] == k)) ** 2 for i in range(12) for k in range(4)) / 12
    if name == "LS-0.05":
        target = [[0.95 * (LABELS[i] == k) + 0.05 / 4 for k in range(4)] for i in range(12)]
        return -sum(target[i][k] * math.log(p[i][k]) for i in range(12) for k in range(4)) / 12
    if name == "FL-3":
        return -sum((1 - t) ** 3 * math.log(t) for t in true) / 12
    if name == "FLSD-53":
        return -sum((1 - t) ** (5 if t < 0.2 else 3) * math.log(t) for t in true) / 12
    c = [max(row) for row in p]
    e = [float(LOGITS[i].argmax() == LABELS[i]) - c[i] for i in range(12)]
    pairs = sum(e[i] * e[j] * math.exp(-abs(c[i] - c[j]) / 0.4) for i in range(12) for j in range(12))
    return plain + 2 * math.sqrt(pairs) / 12


@pytest.mark.parametrize("name", ["NLL", "Brier", "MMCE", "LS-0.05", "FLSD-53", "FL-3"])
def test_loss_is_its_formula(name: str) -> None:
    value = LOSSES[name](torch.from_numpy(LOGITS), torch.from_numpy(LABELS))
    assert value.item() == pytest.approx(by_hand(name), rel=1e-9)


def test_samples_of_both_exponents_are_there() -> None:
    true = [shares(LOGITS[i])[LABELS[i]] for i in range(12)]
    assert min(true) < 0.2 < max(true)


@pytest.mark.parametrize("name", LOSSES)
def test_gradient(name: str) -> None:
    labels = torch.from_numpy(LABELS)
    logits = torch.from_numpy(LOGITS).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: LOSSES[name](z, labels), (logits,))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("right", [True, False])
def test_saturated_logits_keep_value_and_gradient_finite(name: str, right: bool) -> None:
    logits = torch.tensor([[200.0, 0.0, 0.0], [0.0, 200.0, 0.0]], requires_grad=True)
    value = LOSSES[name](logits, torch.tensor([0, 1] if right else [1, 2]))
    value.backward()
    assert torch.isfinite(value)
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
