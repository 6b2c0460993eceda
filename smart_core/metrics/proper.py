"""Proper scores and accuracy of (N, K) probabilities against integer labels."""

from __future__ import annotations

import numpy as np

from smart_core.metrics.arrays import Values, probabilities_and_labels, top_label

SMALLEST_PROBABILITY = float(np.finfo(np.float64).tiny)
"""Floor of a probability inside a logarithm (2.2e-308): a label given probability 0 costs 708.4 nats, not
infinity.
"""


LARGEST_NLL = float(-np.log(SMALLEST_PROBABILITY))
LARGEST_BRIER = 2.0
"""The largest losses that one sample can cost."""


def nll(probs: Values, labels: Values) -> float:
    """Negative log-likelihood -(1/N) sum_i log p_i[y_i], in nats; probabilities of 0 count as 2.2e-308."""
    matrix, y = probabilities_and_labels(probs, labels)
    p_label = matrix[np.arange(y.size), y].astype(np.float64)
    return float(-np.log(np.maximum(p_label, SMALLEST_PROBABILITY)).mean())


def brier(probs: Values, labels: Values) -> float:
    """Brier score (1/N) sum_i sum_k (p_ik - [y_i = k])^2, summed over the K classes (0 to 2)."""
    matrix, y = probabilities_and_labels(probs, labels)
    p_label = matrix[np.arange(y.size), y].astype(np.float64)
    squares = np.einsum("ik,ik->i", matrix, matrix, dtype=np.float64)
    return float((squares - 2 * p_label + 1).mean())


def accuracy(probs: Values, labels: Values) -> float:
    """Share of rows whose largest probability sits on the label; ties go to the first class."""
    return float(top_label(probs, labels)[1].mean())
