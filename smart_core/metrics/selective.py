"""Selective prediction: how the error falls when the least confident samples are rejected."""

from __future__ import annotations

import numpy as np

from smart_core.metrics.arrays import Values, confidence_and_correct
from smart_core.types import Vector


def risk_coverage(confidence: Values, correct: Values) -> tuple[Vector, Vector]:
    """Return the coverage k/N and the risk (share of errors among the k most confident samples), k = 1..N.

    Samples of equal confidence have no order. Each counts with the mean error of its group: the expectation of the
    curve over random orders of the tied samples.

    >>> coverage, risk = risk_coverage([0.9, 0.8, 0.8, 0.6], [1, 1, 0, 0])
    >>> coverage.tolist(), risk.round(3).tolist()
    ([0.25, 0.5, 0.75, 1.0], [0.0, 0.25, 0.333, 0.5])
    """
    p, a = confidence_and_correct(confidence, correct)
    order = np.argsort(-p, kind="stable")
    _, group = np.unique(-p[order], return_inverse=True)
    error = np.bincount(group, weights=1 - a[order]) / np.bincount(group)
    kept = np.arange(1, p.size + 1)
    return kept / p.size, np.cumsum(error[group]) / kept


def aurc(confidence: Values, correct: Values) -> float:
    """Return the area under the risk-coverage curve, (1/N) sum_k risk_k.

    >>> aurc([0.9, 0.6], [1, 0])
    0.25
    """
    return float(risk_coverage(confidence, correct)[1].mean())


def auroc(confidence: Values, correct: Values) -> float:
    """Return the area under the ROC curve of the confidence as a detector of correct predictions.

    The probability that a correct prediction is more confident than a wrong one; ties count half. NaN without a correct
    or without a wrong prediction.

    >>> auroc([0.9, 0.8, 0.7], [1, 0, 1])
    0.5
    """
    p, a = confidence_and_correct(confidence, correct)
    right = int(a.sum())
    wrong = a.size - right
    if right == 0 or wrong == 0:
        return float("nan")
    _, group, count = np.unique(p, return_inverse=True, return_counts=True)
    middle_rank = np.cumsum(count) - (count - 1) / 2
    ranks = float(middle_rank[group.reshape(-1)] @ a)
    return (ranks - right * (right + 1) / 2) / (right * wrong)


def e_aurc(confidence: Values, correct: Values) -> float:
    """Return the excess AURC: `aurc` minus that of a perfect ranking, in which every error comes last.

    >>> e_aurc([0.9, 0.6], [1, 0]), e_aurc([0.9, 0.6], [0, 1])
    (0.0, 0.5)
    """
    _, a = confidence_and_correct(confidence, correct)
    return aurc(confidence, correct) - aurc(a, a)
