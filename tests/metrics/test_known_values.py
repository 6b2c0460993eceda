"""Figures of real networks: a CIFAR-10 ResNet-50, known beforehand, and the bundled samples, by their definitions."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

import sample_logits
from smart_core import metrics
from tests.calibrators.made_up import plain_ece
from tests.conftest import real_data
from tests.metrics.test_smooth_calibration import HIGHS, programme_of_samples
from tests.tolerance import PROBABILITY, binned_bound

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
    found = figures(torch.softmax(logits.to(dtype) / temperature, dim=1), labels)
    off = by_rounding(torch.softmax(logits.double() / temperature, dim=1), labels) if dtype == torch.float32 else {}
    for name, known in KNOWN[temperature].items():
        # four significant digits; rounding the temperature to 1e-4 moves the scaled smCE by up to 2e-4
        assert found[name] == pytest.approx(known, rel=2e-4, abs=off.get(name, 0.0)), name


def figures(probs: torch.Tensor, labels: torch.Tensor) -> dict[str, float]:
    confidence, correct = metrics.top_label(probs, labels)
    return {
        "ece": metrics.ece(confidence, correct),
        "adaece": metrics.adaece(confidence, correct),
        "cece": metrics.classwise_ece(probs, labels),
        "nll": metrics.nll(probs, labels),
        "smce": metrics.smce(confidence, correct),
        "soft": metrics.charbonnier_soft_ece(confidence, correct),
    }


def by_rounding(probs: torch.Tensor, labels: torch.Tensor) -> dict[str, float]:
    """What probabilities beside an edge add to what float32 takes from the binned errors."""
    top, hit = metrics.top_label(probs, labels)
    own = np.eye(probs.shape[1])[labels.numpy()]
    return {"ece": binned_bound(top, hit, 15), "cece": binned_bound(probs.numpy(), own, 15)}


def definitions(probs: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """The same figures in loops over bins and classes, and smCE by a linear programme."""
    rows = np.arange(len(labels))
    confidence, correct = probs.max(axis=1), probs.argmax(axis=1) == labels
    chunks = np.array_split(np.argsort(confidence, kind="stable"), 15)
    weights = np.exp(-((confidence[:, None] - (np.arange(15) + 0.5) / 15) ** 2) / (2 * 0.05**2))
    weights /= weights.sum(axis=1, keepdims=True)
    mass, residual = weights.sum(axis=0), weights.T @ (confidence - correct)
    return {
        "ece": plain_ece(confidence, correct),
        "adaece": sum(abs((confidence - correct)[chunk].sum()) for chunk in chunks) / len(rows),
        "cece": float(np.mean([plain_ece(probs[:, k], labels == k) for k in range(probs.shape[1])])),
        "nll": float(-np.log(probs[rows, labels]).mean()),
        "smce": programme_of_samples(confidence, correct),
        "soft": float((np.hypot(residual, 1e-3 * mass) - 1e-3 * mass).sum() / len(rows)),
    }


@pytest.mark.parametrize("name", ["digits", "fashion"])
def test_metrics_of_a_bundled_sample_are_their_definitions(name: str) -> None:
    with np.load(sample_logits.path(name)) as bundle:
        logits, labels = torch.from_numpy(bundle["test_logits"]), torch.from_numpy(bundle["test_labels"])
    exact = torch.softmax(logits.double(), dim=1)
    expected = definitions(exact.numpy(), labels.numpy())
    assert figures(exact, labels) == pytest.approx(expected, abs=HIGHS)
    single, off = figures(torch.softmax(logits, dim=1), labels), by_rounding(exact, labels)
    for metric, value in expected.items():  # to four digits in float32, too
        assert single[metric] == pytest.approx(value, rel=2e-4, abs=off.get(metric, PROBABILITY)), metric
