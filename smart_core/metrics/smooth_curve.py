"""How far sampling noise moves the kernel-smoothed reliability curve.

With hits H(t) = sum_i a_i K_sigma(t, p_i) and misses M(t) likewise, K_sigma as in `smooth_ece`, the accuracy at t is
H / (H + M). The Bayesian bootstrap gives every sample an exponential weight; samples in one narrow cell of the
confidence axis share their place, and the weight of a cell with h hits is Gamma(h). As in the band of the binned
diagram, half a hit and half a miss are added, here at t itself, so that the band stays open where only hits were seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smart_core.metrics.arrays import Values, confidence_and_correct

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

CELLS_PER_SIGMA = 5
FEWEST_CELLS, MOST_CELLS = 256, 4096


@dataclass(frozen=True)
class SmoothBand:
    """Lower and upper accuracy at places t."""

    t: Vector
    low: Vector
    high: Vector
    level: float


def effective_samples(density: Vector, samples: int, sigma: float) -> Vector:
    """How many samples the smoothed accuracy rests on: (sum K)^2 / sum K^2 = N f(t) 2 sqrt(pi) sigma for a density f
    that is even over the width of the kernel.
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
) -> SmoothBand:
    """Pointwise bootstrap band of the smoothed accuracy at bandwidth `sigma`, at `places` even places from 0 to 1."""
    p, a = confidence_and_correct(confidence, correct)
    cells = int(np.clip(2 ** np.ceil(np.log2(CELLS_PER_SIGMA / sigma)), FEWEST_CELLS, MOST_CELLS))
    index = np.minimum((p.astype(np.float64) * cells).astype(np.int64), cells - 1)
    hits, misses = (np.bincount(index, weights=kind, minlength=cells) for kind in (a, 1 - a))
    used = hits + misses > 0
    t = np.linspace(0, 1, places)
    # a kernel narrower than two cells would fall between them
    kernel = _reflected_kernel(t, (np.flatnonzero(used) + 0.5) / cells, max(sigma, 2 / cells))
    generator = np.random.default_rng(seed)
    with np.errstate(invalid="ignore"):  # 0 / 0 where no sample is in reach: the band is NaN there
        one = (hits + misses)[used] @ kernel**2 / ((hits + misses)[used] @ kernel)
        weight = [
            generator.standard_gamma(kind[used], size=(resamples, used.sum())) @ kernel
            + generator.standard_gamma(0.5, size=(resamples, 1)) * one
            for kind in (hits, misses)
        ]
        accuracy = weight[0] / (weight[0] + weight[1])
    low, high = np.quantile(accuracy, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return SmoothBand(t, low, high, level)


def _reflected_kernel(t: Vector, points: Vector, sigma: float) -> Matrix:
    """sigma K_sigma(t, p) up to a constant factor, (points, places), image by image; images out of reach are left
    out.
    """
    reach = 9 * sigma
    kernel = np.zeros((points.size, t.size))
    for turn in range(-int(reach) - 1, int(reach) + 2):
        for image in (2 * turn + points, 2 * turn - points):
            if image.min() < 1 + reach and image.max() > -reach:
                kernel += np.exp(-0.5 * ((t - image[:, None]) / sigma) ** 2)
    return kernel
