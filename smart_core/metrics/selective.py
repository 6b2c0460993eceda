"""Selective prediction: how the error falls when the least confident samples are turned away."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smart_core.metrics.arrays import Values, confidence_and_correct


def risk_coverage(confidence: Values, correct: Values) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Coverage k/N and risk (share of errors among the k most confident), k = 1..N.

    Samples of equal confidence have no order; each counts with the mean error of its group, which is the
    expectation of the curve over random orders of the tied samples.
    """
    p, a = confidence_and_correct(confidence, correct)
    order = np.argsort(-p, kind="stable")
    _, group = np.unique(-p[order], return_inverse=True)
    error = np.bincount(group, weights=1 - a[order]) / np.bincount(group)
    kept = np.arange(1, p.size + 1)
    return kept / p.size, np.cumsum(error[group]) / kept


def aurc(confidence: Values, correct: Values) -> float:
    """Area under the risk-coverage curve, (1/N) sum_k risk_k (expected over the order of ties)."""
    return float(risk_coverage(confidence, correct)[1].mean())


def e_aurc(confidence: Values, correct: Values) -> float:
    """Excess AURC: `aurc` minus that of a perfect ranking, in which every error comes last."""
    _, a = confidence_and_correct(confidence, correct)
    return aurc(confidence, correct) - aurc(a, a)
