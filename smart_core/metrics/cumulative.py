"""Calibration without bins from the cumulated residuals: the statistics of Kolmogorov-Smirnov and Kuiper."""

from __future__ import annotations

import numpy as np

from smart_core.metrics.arrays import Values, confidence_and_correct
from smart_core.types import Vector


def cumulative_gap(confidence: Values, correct: Values) -> Vector:
    """Return `C_k = (1/N) sum_{i <= k} (a_i - p_i)` in the order of the confidences, one value per distinct confidence.

    Samples of equal confidence have no order, so C is read after all of them. It starts at 0.

    >>> cumulative_gap([0.9, 0.5, 0.5], [1, 1, 0]).round(4).tolist()
    [0.0, 0.0, 0.0333]
    """
    p, a = confidence_and_correct(confidence, correct)
    values, group = np.unique(p, return_inverse=True)
    residual = np.bincount(group.reshape(-1), weights=a - p, minlength=values.size)
    return np.concatenate([[0.0], np.cumsum(residual) / p.size])


def ks(confidence: Values, correct: Values) -> float:
    """Return the Kolmogorov-Smirnov calibration error max_k |C_k| (Gupta et al. 2021).

    >>> round(ks([0.8] * 10, [1] * 7 + [0] * 3), 12)
    0.1
    """
    return float(np.abs(cumulative_gap(confidence, correct)).max())


def kuiper(confidence: Values, correct: Values) -> float:
    """Return Kuiper's calibration error max_k C_k - min_k C_k (Arrieta-Ibarra et al. 2022), C_0 = 0 included.

    >>> round(kuiper([0.6, 0.9], [1, 0]), 12)
    0.45
    """
    gap = cumulative_gap(confidence, correct)
    return float(gap.max() - gap.min())
