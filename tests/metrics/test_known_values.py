"""Figures of a real CIFAR-10 ResNet-50, known beforehand from an independent computation."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from smart_core import metrics
from tests.conftest import real_data

KNOWN = {
    1.0: {
        "ece": 0.04354,
        "adaece": 0.043376,
        "cece": 0.009080,
        "nll": 0.41212,
        "smce": 0.043385,
        "soft": 0.042388,
    },
    2.4975: {
        "ece": 0.01373,
        "adaece": 0.021445,
        "cece": 0.004540,
        "nll": 0.20381,
        "smce": 0.013369,
        "soft": 0.012454,
    },
}


@cache
def cifar10_logits() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.load(real_data("resnet50_cifar10_ce") / "test.pt", weights_only=True, map_location="cpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", KNOWN)
def test_metrics_to_four_digits(temperature: float, dtype: torch.dtype) -> None:
    logits, labels = cifar10_logits()
    probs = torch.softmax(logits.to(dtype) / temperature, dim=1)
    confidence, correct = metrics.top_label(probs, labels)
    found = {
        "ece": metrics.ece(confidence, correct),
        "adaece": metrics.adaece(confidence, correct),
        "cece": metrics.classwise_ece(probs, labels),
        "nll": metrics.nll(probs, labels),
        "smce": metrics.smce(confidence, correct),
        "soft": metrics.charbonnier_soft_ece(confidence, correct),
    }
    for name, known in KNOWN[temperature].items():
        # four significant digits; rounding the temperature to 1e-4 moves the scaled smCE by up to 2e-4
        assert found[name] == pytest.approx(known, rel=2e-4), name
