"""Loops over rows of logits against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")

from smart_core.kernels.logit_rows import confidences, evaluate_rows, top_two
from smart_core.metrics import classwise_ece
from smart_core.metrics.binning import bin_edges
from tests.tolerance import PROBABILITY, assert_within, float32_bound, on_an_edge


def rows(count: int, classes: int, scale: float, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=(count, classes)) * scale).astype(np.float32)


def softmax(logits: np.ndarray, temperature: np.ndarray) -> np.ndarray:
    scaled = logits.astype(np.float64) / temperature[:, None]
    powers = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("classes", [2, 3, 63, 64, 65, 700])
def test_top_two(classes: int):
    logits = rows(200, classes, 1.0, seed=classes)
    logits[:60] = np.round(logits[:60])  # ties
    logits[60:70] = -7.0
    for i in range(70, 140):
        logits[i, i % classes] = 50.0
    top, second, place = np.empty(200, np.float32), np.empty(200, np.float32), np.empty(200, np.int64)
    top_two(logits, top, second, place)
    ordered = np.sort(logits, axis=1)
    np.testing.assert_array_equal(top, ordered[:, -1])
    np.testing.assert_array_equal(second, ordered[:, -2])
    np.testing.assert_array_equal(place, logits.argmax(axis=1))


@pytest.mark.parametrize("bins", [2, 15, 100])
@pytest.mark.parametrize(("classes", "scale"), [(2, 1.0), (10, 3.0), (200, 1.0), (200, 8.0), (70, 1e30)])
def test_evaluate_rows(classes: int, scale: float, bins: int):
    logits = rows(300, classes, scale, seed=1)
    rng = np.random.default_rng(2)
    labels = rng.integers(0, classes, 300)
    temperature = rng.uniform(0.3, 4.0, 300).astype(np.float32)
    top, place, second = logits.max(axis=1), logits.argmax(axis=1), np.sort(logits, axis=1)[:, -2]
    confidence, alone = np.empty(300, np.float32), np.empty(300, np.float32)
    nll, brier, others = np.empty((3, 300))
    sums = [np.zeros((classes, bins)) for _ in range(4)]
    edges = bin_edges(bins, np.float32)
    for piece in (slice(0, 120), slice(120, 300)):
        evaluate_rows(
            logits[piece], top[piece], second[piece], place[piece], labels[piece], temperature[piece], edges,
            confidence[piece], nll[piece], brier[piece], others[piece], *sums,
        )  # fmt: skip
    q = softmax(logits, temperature)
    # exp of a gap, the sum and its inverse; an error of a gap counts as often as the gaps are long, log K on average
    off = float32_bound(8 + np.log(classes))
    top_q, label = q.max(axis=1), q[np.arange(300), labels]
    assert_within(confidence, top_q, off * top_q)
    assert_within(brier, (q**2).sum(axis=1) - 2 * label + 1, 4 * off)  # up to 4 = 1 + 2 + 1 in absolute value
    gap = (logits[np.arange(300), labels].astype(np.float64) - top) / temperature
    assert_within(nll, -np.log(top_q) - gap, off + float32_bound(4, np.abs(gap)))
    expected = classwise_ece(q.astype(np.float32), labels, bins)
    moved = 2 * np.where(on_an_edge(q, bins), np.maximum(q, np.eye(classes)[labels]), 0.0).sum()
    residual = sums[1] - sums[3]
    assert np.abs(residual).sum() / (300 * classes) == pytest.approx(
        expected, abs=PROBABILITY + moved / (300 * classes)
    )
    confidences(logits, top, temperature, alone)
    assert_within(alone, top_q, off * top_q)
