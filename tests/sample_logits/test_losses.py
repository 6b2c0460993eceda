"""Training losses against plain loops over samples, and their gradients against finite differences."""

from __future__ import annotations

import math
from collections.abc import Sequence

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


def brier_of(p: Sequence[float], label: int) -> float:
    return sum((p[k] - (label == k)) ** 2 for k in range(4))


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
    if name == "DFL":
        rival = [max([q for q in p[i] if q < true[i]], default=0.0) for i in range(12)]
        return -sum((1 - t + r) ** 5 * math.log(t) for t, r in zip(true, rival, strict=True)) / 12
    if name == "MDCA":
        gaps = [abs(sum(row[k] for row in p) - sum(k == LABELS)) / 12 for k in range(4)]
        return plain + sum(gaps) / 4
    if name == "UWG":
        return -sum(brier_of(p[i], LABELS[i]) ** 2 * math.log(true[i]) for i in range(12)) / 12
    if name == "FLSD-53":
        return -sum((1 - t) ** (5 if t < 0.2 else 3) * math.log(t) for t in true) / 12
    c = [max(row) for row in p]
    e = [float(LOGITS[i].argmax() == LABELS[i]) - c[i] for i in range(12)]
    pairs = sum(e[i] * e[j] * math.exp(-abs(c[i] - c[j]) / 0.4) for i in range(12) for j in range(12))
    return plain + 2 * math.sqrt(pairs) / 12


@pytest.mark.parametrize("name", LOSSES)
def test_loss_is_its_formula(name: str) -> None:
    value = LOSSES[name](torch.from_numpy(LOGITS), torch.from_numpy(LABELS))
    assert value.item() == pytest.approx(by_hand(name), rel=1e-9)


def test_samples_of_both_exponents_are_there() -> None:
    true = [shares(LOGITS[i])[LABELS[i]] for i in range(12)]
    assert min(true) < 0.2 < max(true)


def test_dual_focal_loss_meets_labels_with_and_without_a_smaller_share() -> None:
    ranks = {int((LOGITS[i] < LOGITS[i][LABELS[i]]).sum()) for i in range(12)}
    assert ranks >= {0, 3}


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "UWG"])
def test_gradient(name: str) -> None:
    labels = torch.from_numpy(LABELS)
    logits = torch.from_numpy(LOGITS).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: LOSSES[name](z, labels), (logits,))


def test_uncertainty_weights_scale_the_gradient_of_the_nll_and_have_none() -> None:
    logits = torch.from_numpy(LOGITS).requires_grad_()
    LOSSES["UWG"](logits, torch.from_numpy(LABELS)).backward()
    p = [shares(row) for row in LOGITS]
    expected = [
        [brier_of(p[i], LABELS[i]) ** 2 * (p[i][k] - (LABELS[i] == k)) / 12 for k in range(4)] for i in range(12)
    ]
    assert logits.grad is not None
    np.testing.assert_allclose(logits.grad.numpy(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("right", [True, False])
def test_saturated_logits_keep_value_and_gradient_finite(name: str, right: bool) -> None:
    logits = torch.tensor([[200.0, 0.0, 0.0], [0.0, 200.0, 0.0]], requires_grad=True)
    value = LOSSES[name](logits, torch.tensor([0, 1] if right else [1, 2]))
    value.backward()
    assert torch.isfinite(value)
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
