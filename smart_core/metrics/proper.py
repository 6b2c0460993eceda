"""Proper scores and accuracy of (N, K) probabilities against integer labels."""

from __future__ import annotations

import numpy as np

from smart_core.metrics.arrays import Values, probabilities_and_labels, top_label

SMALLEST_PROBABILITY = float(np.finfo(np.float64).tiny)
"""Smallest probability inside a logarithm, 2.2e-308: a label given probability 0 costs 708.4 nats, not infinity."""

LARGEST_NLL = float(-np.log(SMALLEST_PROBABILITY))
LARGEST_BRIER = 2.0
"""Largest losses of one sample."""


def nll(probs: Values, labels: Values) -> float:
    """Return the negative log-likelihood -(1/N) sum_i log p_i[y_i] in nats; a probability of 0 counts as 2.2e-308.

    >>> round(nll([[0.5, 0.5], [0.25, 0.75]], [0, 1]), 4)
    0.4904
    """
    matrix, y, _ = probabilities_and_labels(probs, labels)
    p_label = matrix[np.arange(y.size), y].astype(np.float64)
    return float(-np.log(np.maximum(p_label, SMALLEST_PROBABILITY)).mean())


def brier(probs: Values, labels: Values) -> float:
    """Return the Brier score (1/N) sum_i sum_k (p_ik - [y_i = k])^2, summed over the K classes (0 to 2).

    >>> brier([[0.5, 0.5], [0.25, 0.75]], [0, 1])
    0.3125
    """
    matrix, y, _ = probabilities_and_labels(probs, labels)
    p_label = matrix[np.arange(y.size), y].astype(np.float64)
    squares = np.einsum("ik,ik->i", matrix, matrix, dtype=np.float64)
    return float((squares - 2 * p_label + 1).mean())


def improvement(score: float, model_score: float) -> float:
    """Return the post-hoc improvement 1 - S / S_model of a loss, as a share of the uncalibrated model's.

    0 where calibration changed nothing, negative where it made the score worse; NaN for a model without any loss.

    >>> round(improvement(0.20, 0.25), 12)
    0.2
    """
    return 1.0 - score / model_score if model_score > 0.0 else float("nan")


def accuracy(probs: Values, labels: Values) -> float:
    """Return the share of rows whose largest probability is the label's; ties go to the first class.

    >>> accuracy([[0.5, 0.5], [0.25, 0.75]], [1, 1])
    0.5
    """
    return float(top_label(probs, labels)[1].mean())
