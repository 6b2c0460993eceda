"""Binned calibration errors of the top label: ECE and its two signs, AdaECE, ECE-sweep, MCE and the L2 forms.

Bin b (see `binning`) has n_b samples, mean confidence conf_b and accuracy acc_b, and gap_b = conf_b - acc_b. All
plug-in forms are biased upwards; `uncertainty` says by how much.
"""

from __future__ import annotations

import numpy as np

from smart_core.metrics.arrays import Values, confidence_and_correct
from smart_core.metrics.binning import MOST_BINS, adaptive_chunks, reliability


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


def over_confidence(confidence: Values, correct: Values, bins: int = 15) -> float:
    """Return the part of the ECE from overconfident bins, sum_b (n_b / N) max(gap_b, 0).

    >>> round(over_confidence([0.9, 0.6], [0, 1], bins=2), 12), round(over_confidence([0.9, 0.4], [0, 1], bins=2), 12)
    (0.25, 0.45)
    """
    table = reliability(confidence, correct, bins)
    return float(np.nansum(table.weight * np.maximum(table.gap, 0.0)))


def under_confidence(confidence: Values, correct: Values, bins: int = 15) -> float:
    """Return the part of the ECE from underconfident bins, sum_b (n_b / N) max(-gap_b, 0); both parts add up to it.

    >>> round(under_confidence([0.9, 0.4], [0, 1], bins=2), 12)
    0.3
    """
    table = reliability(confidence, correct, bins)
    return float(np.nansum(table.weight * np.maximum(-table.gap, 0.0)))


def ece_sweep(confidence: Values, correct: Values) -> float:
    """Return the ECE over B bins of equally many samples, B the last before the accuracies stop rising with the bins.

    The monotonic sweep of Roelofs et al. (2022), L1: B grows from 1 until a bin is less accurate than the one before
    it, at most to 1000. Bins are those of `adaece`, so samples of equal confidence stay together.

    >>> round(ece_sweep([0.6, 0.7, 0.8, 0.9], [0, 1, 1, 1]), 12)
    0.3
    """
    p, a = confidence_and_correct(confidence, correct)
    points, group, count = np.unique(p, return_inverse=True, return_counts=True)
    hits, total = np.bincount(group.reshape(-1), a), points * count
    found = 0.0
    for bins in range(1, min(p.size, MOST_BINS) + 1):
        _, starts = np.unique(adaptive_chunks(count, bins), return_index=True)
        right, sure, size = (np.add.reduceat(values, starts) for values in (hits, total, count))
        if (np.diff(right / size) < 0).any():
            break
        found = float(np.abs(right - sure).sum() / p.size)
    return found


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
