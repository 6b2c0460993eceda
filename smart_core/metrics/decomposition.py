"""Calibration and refinement of the top-1 confidence, taken as a forecast of a correct prediction.

The score of the confidences p is split as S(p) = [S(p) - S(q)] + S(q), where q is their isotonic recalibration on the
same samples (the CORP decomposition of Dimitriadis, Gneiting and Jordan 2021). The first term, calibration, is what a
monotone map of the confidence could gain; the second, refinement, is what none could. Both scores are those of the
binary forecast: log-loss -log p or -log(1 - p), and squared error (p - a)^2. As q is fitted to these very samples,
calibration is biased upwards and refinement downwards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from smart_core.metrics.arrays import Values, confidence_and_correct
from smart_core.metrics.proper import SMALLEST_PROBABILITY
from smart_core.types import Vector


class Parts(NamedTuple):
    """A mean score and its two parts, whose sum it is."""

    calibration: float
    refinement: float


def log_loss_parts(confidence: Values, correct: Values) -> Parts:
    """Return calibration and refinement of the log-loss of the top-1 confidence, in nats.

    >>> parts = log_loss_parts([0.8] * 10, [1] * 5 + [0] * 5)
    >>> round(parts.calibration, 4), round(parts.refinement, 4)
    (0.2231, 0.6931)
    """
    p, a, q = _recalibrated(confidence, correct)
    return _split(_log_loss(p, a), _log_loss(q, a))


def squared_error_parts(confidence: Values, correct: Values) -> Parts:
    """Return calibration and refinement of the squared error of the top-1 confidence.

    >>> parts = squared_error_parts([0.8] * 10, [1] * 5 + [0] * 5)
    >>> round(parts.calibration, 4), round(parts.refinement, 4)
    (0.09, 0.25)
    """
    p, a, q = _recalibrated(confidence, correct)
    return _split(float(np.mean((p - a) ** 2)), float(np.mean((q - a) ** 2)))


def _recalibrated(confidence: Values, correct: Values) -> tuple[Vector, Vector, Vector]:
    """Confidences, hits, and the isotonic fit of the hits; samples of equal confidence count as their mean."""
    from scipy.optimize import isotonic_regression

    p, a = confidence_and_correct(confidence, correct)
    _, group, count = np.unique(p, return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    level = isotonic_regression(np.bincount(group, weights=a) / count, weights=count).x
    return p.astype(np.float64), a, np.asarray(level[group], dtype=np.float64)


def _log_loss(p: Vector, a: Vector) -> float:
    given = np.where(a == 1.0, p, 1.0 - p)
    return float(-np.log(np.maximum(given, SMALLEST_PROBABILITY)).mean())


def _split(score: float, recalibrated: float) -> Parts:
    return Parts(max(0.0, score - recalibrated), recalibrated)
