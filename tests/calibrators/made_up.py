"""Small labelled sets for the tests of single methods: ordinary ones, and the kinds that break a fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.calibrators.problems import exact_product

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Sample:
    """Logits that are `features @ weight.T + bias`, and labels."""

    logits: Floats
    labels: Ints
    features: Floats
    weight: Floats
    bias: Floats

    @property
    def head(self) -> tuple[Floats, Floats]:
        return self.weight, self.bias


def network(count: int, classes: int, width: int = 8, seed: int = 0, sharpness: float = 3.0) -> Sample:
    """Non-negative features through a random head; labels drawn at T = `sharpness`: over-confident."""
    rng = np.random.default_rng(seed)
    features = np.maximum(rng.normal(size=(count, width)), 0).astype(np.float32) * 2
    weight = (rng.normal(size=(classes, width)) * 1.5).astype(np.float32)
    bias = rng.normal(size=classes).astype(np.float32)
    logits = (exact_product(features, weight) + bias).astype(np.float32)
    labels = draw_labels(logits / sharpness, rng)
    return Sample(logits, labels, features, weight, bias)


def draw_labels(logits: NDArray[np.floating], rng: np.random.Generator) -> Ints:
    """One label per row from softmax(logits), by Gumbel's trick."""
    return (logits + rng.gumbel(size=logits.shape)).argmax(axis=1).astype(np.int64)


def softmax(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """Row softmax in float64."""
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    powers = np.exp(shifted)
    return powers / powers.sum(axis=1, keepdims=True)


def plain_ece(confidence: NDArray[np.floating], hit: NDArray[np.bool_], bins: int = 15) -> float:
    """ECE by a loop over bins (l, u], the first closed at 0."""
    total = 0.0
    for b in range(bins):
        inside = (confidence > b / bins) & (confidence <= (b + 1) / bins)
        if b == 0:
            inside |= confidence == 0
        total += abs(float((confidence[inside] - hit[inside]).sum()))
    return total / len(confidence)


def _from_logits(logits: NDArray[np.floating], labels: NDArray[np.integer] | list[int]) -> Sample:
    """A set whose features are the logits themselves and whose head is the identity."""
    z = np.asarray(logits, dtype=np.float32)
    eye = np.eye(z.shape[1], dtype=np.float32)
    return Sample(z, np.asarray(labels, dtype=np.int64), z, eye, np.zeros(z.shape[1], dtype=np.float32))


def degenerate() -> dict[str, Sample]:
    """Validation sets at the edge of what a fit can meet."""
    rng = np.random.default_rng(7)
    z = rng.normal(size=(60, 4)) * 3
    top, worst = z.argmax(axis=1), z.argmin(axis=1)
    sure = np.where(np.eye(4)[top] > 0, 400.0, -400.0)
    absent = draw_labels(z, rng)
    some_wrong = np.repeat(top[:6], 10) * (np.arange(60) % 3 > 0)
    return {
        "all correct": _from_logits(z, top),
        "all wrong": _from_logits(z, worst),
        "two samples": _from_logits(z[:2], [int(top[0]), int(worst[1])]),
        "absent class": _from_logits(z, np.where(absent == 3, 0, absent)),
        "constant logits": _from_logits(np.full((50, 3), 1.5), np.arange(50) % 3),
        "certain": _from_logits(sure, np.where(np.arange(60) % 5 == 0, worst, top)),
        "two classes": network(80, 2, seed=1),
        "many classes": network(300, 1000, seed=3),
        "huge": _from_logits(z * 1e30, draw_labels(z, rng)),
        "repeated rows": _from_logits(np.repeat(z[:6], 10, axis=0), some_wrong),
    }
