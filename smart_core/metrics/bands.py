"""Pointwise bands of the accuracy in a reliability diagram, binned or smoothed, by the Bayesian bootstrap.

The Bayesian bootstrap gives each sample an exponential weight, so that the accuracy of h hits in n samples follows
Beta(h, n - h). Half a hit and half a miss (Jeffreys) are added: the band stays open where only hits were seen. A
smoothed accuracy is taken for that of as many samples as it rests on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from smart_core.metrics.arrays import Values, confidence_and_correct, confidences
from smart_core.metrics.binning import bin_index, check_bins
from smart_core.metrics.smooth_ece import SmoothReliability, smooth_reliability
from smart_core.types import Vector


@dataclass(frozen=True)
class Band:
    """Lower and upper accuracy of each bin, or at each place; NaN where there are (practically) no samples."""

    low: Vector
    high: Vector


def accuracy_band(hits: NDArray[Any], count: NDArray[Any]) -> Band:
    """Return the 95% band of accuracies: quantiles of Beta(h + 1/2, n - h + 1/2)."""
    ends = (betaincinv(hits + 0.5, count - hits + 0.5, tail) for tail in (0.025, 0.975))
    return Band(*(np.where(count > 0, end, np.nan) for end in ends))


def bootstrap_reliability_band(confidence: Values, correct: Values, bins: int = 15) -> Band:
    """Return the band of the accuracy of each equal-width bin.

    >>> band = bootstrap_reliability_band([0.9] * 20, [1] * 20, bins=2)
    >>> band.low.round(1).tolist(), band.high.round(1).tolist()
    ([nan, 0.9], [nan, 1.0])
    """
    check_bins(bins)
    p, a = confidence_and_correct(confidence, correct)
    index = np.asarray(bin_index(p, bins))
    count = np.bincount(index, minlength=bins)
    return accuracy_band(np.bincount(index, weights=a, minlength=bins), count)


def effective_samples(confidence: Values, curve: SmoothReliability) -> Vector:
    """Return how many samples the smoothed accuracy rests on at each place t, (sum_i K)^2 / sum_i K^2.

    For the reflected Gaussian K of width sigma, K^2 is that of width sigma / sqrt(2), divided by 2 sqrt(pi) sigma, and
    for each mirror w a product of the kernel and its image, exp(-((t - w)^2 + (p - w)^2) / sigma^2) / (pi sigma^2).

    >>> p = np.linspace(0, 1, 1001)
    >>> effective_samples(p, smooth_reliability(p, p > 0.5, 0.1, places=3)).round().tolist()
    [178.0, 354.0, 178.0]
    """
    p, sigma = confidences(confidence).astype(np.float64), curve.sigma
    narrow = smooth_reliability(p, np.zeros(p.size), sigma / np.sqrt(2), curve.t.size).density
    squares = p.size * narrow / (2 * np.sqrt(np.pi) * sigma)
    for mirror in (0.0, 1.0):
        mass = np.exp(-(((p - mirror) / sigma) ** 2)).sum() / (np.pi * sigma**2)
        squares += mass * np.exp(-(((curve.t - mirror) / sigma) ** 2))
    return np.divide((p.size * curve.density) ** 2, squares, out=np.zeros_like(squares), where=squares > 0)
