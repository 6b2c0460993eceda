"""Pointwise bands of the accuracy in a reliability diagram, binned or smoothed, by the Bayesian bootstrap.

The Bayesian bootstrap gives each sample an exponential weight: h hits weigh Gamma(h) together. Half a hit and half a
miss (Jeffreys) are added, so that the band stays open where only hits were seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smart_core.metrics.arrays import Values, confidence_and_correct
from smart_core.metrics.binning import bin_index, check_bins
from smart_core.metrics.smooth_ece import smooth_cells
from smart_core.types import Vector

FEWEST_CELLS, MOST_CELLS = 256, 4096
"""Cells of the confidence axis behind the smoothed band; each bandwidth has at least five, up to the most."""


@dataclass(frozen=True)
class Band:
    """Lower and upper accuracy of each bin, or at each place; NaN where there are (practically) no samples."""

    low: Vector
    high: Vector


def bootstrap_reliability_band(
    confidence: Values, correct: Values, bins: int = 15, resamples: int = 2000, level: float = 0.95, seed: int = 0
) -> Band:
    """Return the band of the accuracy of each equal-width bin; reweighted, it follows Beta(h + 1/2, n - h + 1/2).

    >>> band = bootstrap_reliability_band([0.9] * 20, [1] * 20, bins=2)
    >>> band.low.round(1).tolist(), band.high.round(1).tolist()
    ([nan, 0.9], [nan, 1.0])
    """
    check_bins(bins)
    p, a = confidence_and_correct(confidence, correct)
    index = np.asarray(bin_index(p, bins))
    count = np.bincount(index, minlength=bins)
    hits = np.bincount(index, weights=a, minlength=bins)
    drawn = np.random.default_rng(seed).beta(hits + 0.5, count - hits + 0.5, size=(resamples, bins))
    low, high = np.quantile(np.where(count > 0, drawn, np.nan), [(1 - level) / 2, (1 + level) / 2], axis=0)
    return Band(low, high)


def effective_samples(density: Vector, samples: int, sigma: float) -> Vector:
    """Return the number of samples behind the smoothed accuracy, (sum K)^2 / sum K^2 = N f(t) 2 sqrt(pi) sigma for a
    density f that is even over the width of the kernel.

    >>> effective_samples(np.array([1.0]), 1000, 0.1).round(1).tolist()
    [354.5]
    """
    return np.asarray(samples * density * 2 * np.sqrt(np.pi) * sigma)


def smooth_band(
    confidence: Values,
    correct: Values,
    sigma: float,
    places: int = 257,
    *,
    level: float = 0.95,
    resamples: int = 400,
    seed: int = 0,
) -> Band:
    """Return the band of the accuracy smoothed by the reflected kernel K_sigma, at even places t from 0 to 1.

    Samples share the place of their narrow cell. The added half hit and half miss weigh as much as a sample does at t
    on average, sum K^2 / sum K, where K_sigma^2 is K of sigma / sqrt(2), divided by 2 sqrt(pi) sigma.

    >>> band = smooth_band([0.9] * 20, [1] * 20, sigma=0.1, places=11)
    >>> bool(0.8 < band.low[9] < 0.95 < band.high[9])
    True
    """
    p, a = confidence_and_correct(confidence, correct)
    cells = int(np.clip(2 ** np.ceil(np.log2(5 / sigma)), FEWEST_CELLS, MOST_CELLS))
    width = max(sigma, 2 / cells)  # a kernel narrower than two cells would fall between them
    index = np.minimum((p.astype(np.float64) * cells).astype(np.int64), cells - 1)
    generator = np.random.default_rng(seed)
    t, middle = np.linspace(0, 1, places), (np.arange(cells) + 0.5) / cells

    def at_places(mass: Vector, sigma: float = width) -> Vector:
        return np.array([np.interp(t, middle, row) for row in smooth_cells(mass, sigma) * cells])

    def reweighted(count: Vector) -> Vector:
        mass = np.zeros((resamples, cells))
        mass[:, count > 0] = generator.standard_gamma(count[count > 0], size=(resamples, int((count > 0).sum())))
        return np.maximum(at_places(mass), 0.0) + generator.standard_gamma(0.5, size=(resamples, 1)) * one

    hits, misses = (np.bincount(index, weights=kind, minlength=cells).astype(np.float64) for kind in (a, 1 - a))
    count = (hits + misses)[None]
    density = at_places(count)
    density[density < 1e-9 * p.size] = np.nan
    one = np.maximum(at_places(count, width / np.sqrt(2)), 0.0) / density / (2 * np.sqrt(np.pi) * width)
    weight_of_hits, weight_of_misses = reweighted(hits), reweighted(misses)
    accuracy = weight_of_hits / (weight_of_hits + weight_of_misses)
    low, high = np.quantile(accuracy, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return Band(low, high)
