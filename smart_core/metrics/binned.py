"""Binned calibration errors of the top label: ECE, AdaECE, MCE and the L2 forms.

Bin b (see `binning`) has n_b samples, mean confidence conf_b and accuracy acc_b, and gap_b = conf_b - acc_b. All
plug-in forms are biased upwards; `uncertainty` says by how much.
"""

from __future__ import annotations

import numpy as np

from smart_core.metrics.arrays import Values
from smart_core.metrics.binning import reliability


def ece(confidence: Values, correct: Values, bins: int = 15) -> float:
    """Return the expected calibration error sum_b (n_b / N) |gap_b| over equal-width bins.

    >>> round(ece([0.8] * 10, [1] * 7 + [0] * 3), 12)
    0.1
    """
    return reliability(confidence, correct, bins).ece


def adaece(confidence: Values, correct: Values, bins: int = 15) -> float:
    """Return the same sum over adaptive bins: sorted samples in B chunks of nearly equal size, ties never parted.

    >>> round(adaece([0.6, 0.7, 0.8, 0.9], [1, 0, 1, 1], bins=2), 12)
    0.15
    """
    return reliability(confidence, correct, bins, adaptive=True).ece


def mce(confidence: Values, correct: Values, bins: int = 15) -> float:
    """Return the maximum calibration error max_b |gap_b| over the equal-width bins that hold a sample.

    >>> round(mce([0.6, 0.9, 0.9], [1, 1, 0], bins=10), 12)
    0.4
    """
    return float(np.nanmax(np.abs(reliability(confidence, correct, bins).gap)))


def ece_l2(confidence: Values, correct: Values, bins: int = 15) -> float:
    """Return the plug-in L2 calibration error sqrt(sum_b (n_b / N) gap_b^2) over equal-width bins.

    >>> round(ece_l2([0.8] * 10, [1] * 7 + [0] * 3), 12)
    0.1
    """
    table = reliability(confidence, correct, bins)
    return float(np.sqrt(np.nansum(table.weight * table.gap**2)))


def ece_l2_debiased(confidence: Values, correct: Values, bins: int = 15) -> float:
    """Return the debiased L2 calibration error (Kumar, Liang and Ma 2019).

    sqrt(max(0, sum_b (n_b / N) [gap_b^2 - acc_b (1 - acc_b) / (n_b - 1)])): the variance of the accuracy is subtracted
    from each squared gap. A bin with a single sample has no variance estimate and contributes nothing.

    >>> ece_l2_debiased([0.8] * 10, [1] * 7 + [0] * 3)
    0.0
    """
    table = reliability(confidence, correct, bins)
    kept = table.count > 1
    gap, accuracy, count = table.gap[kept], table.accuracy[kept], table.count[kept]
    squared = gap**2 - accuracy * (1 - accuracy) / (count - 1)
    return float(np.sqrt(max(0.0, float(np.sum(table.weight[kept] * squared)))))
