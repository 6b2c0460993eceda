"""Proper scores against scikit-learn and closed forms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, log_loss

from smart_core.errors import CalibrationError
from smart_core.metrics.proper import accuracy, brier, nll
from tests.metrics.samples import probabilities


@pytest.mark.parametrize("classes", [2, 5, 50])
def test_scores_agree_with_scikit_learn(classes: int) -> None:
    probs, labels = probabilities(800, classes)
    assert nll(probs, labels) == pytest.approx(log_loss(labels, probs, labels=range(classes)), rel=1e-12)
    assert accuracy(probs, labels) == accuracy_score(labels, probs.argmax(axis=1))
    squares = np.square(probs - np.eye(classes)[labels]).sum(axis=1).mean()
    assert brier(probs, labels) == pytest.approx(squares, rel=1e-12)


def test_impossible_label_costs_a_finite_amount() -> None:
    assert nll([[1.0, 0.0]], [1]) == pytest.approx(1022 * np.log(2))
    assert brier([[1.0, 0.0]], [1]) == 2.0
    assert nll([[1.0, 0.0]], [0]) == 0.0


def test_single_precision_is_summed_in_double() -> None:
    probs, labels = probabilities(500, 4)
    single = probs.astype(np.float32)
    assert brier(single, labels) == pytest.approx(brier(single.astype(np.float64), labels), rel=1e-12)
    assert nll(torch.from_numpy(single), torch.from_numpy(labels)) == pytest.approx(
        log_loss(labels, single.astype(np.float64) / single.astype(np.float64).sum(1, keepdims=True)),
        rel=1e-6,
    )


@pytest.mark.parametrize(
    ("probs", "labels", "message"),
    [
        ([[0.5, 0.5]], [2], r"0\.\.1"),
        ([[0.5, 0.5]], [0, 1], "1 rows of probabilities but 2 labels"),
        ([0.5, 0.5], [0, 1], "shape"),
    ],
)
def test_bad_arguments_are_named(probs: list[list[float]], labels: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nll(probs, labels)


@pytest.mark.parametrize("score", [nll, brier, accuracy])
def test_what_is_no_probability_is_named(score: Callable[..., float]) -> None:
    probs, labels = probabilities(30, 5)
    for wrong, message in (
        (np.log(probs), r"Row 0 .* softmax of logits"),
        (probs * 1.01, r"Row 0 .* sums to 1\.01"),
        (np.where(np.arange(30)[:, None] == 4, np.nan, probs), r"Row 4 .* \(NaN\)"),
    ):
        with pytest.raises(CalibrationError, match=message):
            score(wrong, labels)
    score(probs * 1.0009, labels)  # within what rounding explains
    score(torch.from_numpy(probs).to(torch.bfloat16), labels)
    with pytest.raises(CalibrationError, match="whole numbers"):
        score(probs, labels + 0.5)
