"""Small labelled sets for calibrator tests: an over-confident model with features and a head that give its logits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Problem:
    """Logits that are `features @ weight.T + bias`, and labels drawn from softer probabilities than softmax's."""

    logits: NDArray[np.float32]
    labels: NDArray[np.int64]
    features: NDArray[np.float32]
    head: tuple[NDArray[np.float32], NDArray[np.float32]]

    def fit_arguments(self) -> dict[str, object]:
        return {"features": self.features, "head": self.head}


def exact_product(features: NDArray[np.float32], weight: NDArray[np.float32]) -> NDArray[np.float64]:
    """`features @ weight.T` term by term in float64: unlike a matrix product, the same bits on every processor."""
    total = np.zeros((len(features), len(weight)))
    for x, w in zip(features.T.astype(np.float64), weight.T.astype(np.float64), strict=True):
        total += np.outer(x, w)
    return total


def over_confident(n: int, classes: int, seed: int = 0, temperature: float = 2.5, width: int = 8) -> Problem:
    """Features around class centres; labels drawn from softmax(z / temperature), so the truth is known."""
    rng = np.random.default_rng(seed)
    weight = rng.normal(size=(classes, width)).astype(np.float32) * 1.5
    bias = rng.normal(size=classes).astype(np.float32) * 0.1
    features = np.maximum(rng.normal(size=(n, width)) * 1.2 + rng.normal(size=(n, 1)), 0.0).astype(np.float32)
    logits = (exact_product(features, weight) + bias).astype(np.float32)
    scaled = logits.astype(np.float64) / temperature
    probabilities = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    labels = (probabilities.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, classes - 1)
    return Problem(logits, labels.astype(np.int64), features, (weight, bias))
