"""SmoothECE (Blasiok and Nakkiran 2023) with the reflected Gaussian kernel on [0, 1].

K_sigma(t, p) = sum over k of g_sigma(t - p + 2k) + g_sigma(t + p + 2k), g_sigma the Gaussian density: all
images of p in the mirrors at 0 and 1, so that mass at p = 0 or p = 1 is counted in full. With r = a - p,

    smECE_sigma = integral over t in [0, 1] of |(1/N) sum_i r_i K_sigma(t, p_i)| ,

and SmoothECE is its value at the one sigma with smECE_sigma = sigma.

The cosines cos(m pi t) are the eigenfunctions of this kernel, with eigenvalues exp(-(m pi sigma)^2 / 2): smoothing is a
cosine transform of the residuals, a product, and the transform back. Samples enter the grid by linear splitting, an
error of (grid step / sigma)^2, at most 0.03%. Simulated sets are smoothed many at once, as masses in equal cells of
[0, 1] (`smooth_cells`, `smece_batch`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smart_core.metrics.arrays import MetricError, Values, residuals
from smart_core.metrics.smooth_calibration import residual_mass
from smart_core.types import Vector

NODES_PER_SIGMA = 64
COARSEST, FINEST = 1 << 12, 1 << 20
REACH = 8.0
"""Widths sigma beyond which a Gaussian counts as 0: it is 1e-14 there."""


@dataclass(frozen=True)
class SmoothReliability:
    """Kernel-smoothed accuracy and density of the confidences at places t, and the bandwidth used.

    The accuracy is NaN where there are practically no samples.
    """

    t: Vector
    accuracy: Vector
    density: Vector
    sigma: float


def _cells(sigma: float) -> int:
    """Return the number of grid cells, a power of two, that resolves a kernel of this width."""
    wanted = NODES_PER_SIGMA / max(sigma, NODES_PER_SIGMA / FINEST)
    return max(COARSEST, 1 << int(np.ceil(np.log2(wanted))))


def _split_to_grid(points: Vector, mass: Vector, cells: int) -> Vector:
    """Return the mass at the nodes j / cells, j = 0..cells: that of each point is split between its two neighbours."""
    base = np.minimum((points * cells).astype(np.int64), cells - 1)
    right = (points * cells - base) * mass
    both = np.bincount(base, weights=mass - right, minlength=cells + 1)
    return np.asarray(both + np.bincount(base + 1, weights=right, minlength=cells + 1), dtype=np.float64)


def _spectrum(points: Vector, mass: Vector, cells: int) -> Vector:
    """Return the cosine coefficients sum_i mass_i cos(m pi p_i), m = 0..cells."""
    from scipy.fft import dct

    grid = _split_to_grid(points, mass, cells)
    grid[1:-1] /= 2  # type-I transforms count inner nodes twice
    return np.asarray(dct(grid, type=1))


def _smoothed(spectrum: Vector, sigma: float) -> Vector:
    """Return sum_i mass_i K_sigma(t, p_i) at the nodes t = j / cells."""
    from scipy.fft import dct

    return np.asarray(dct(spectrum * _eigenvalues(spectrum.size, sigma), type=1))


def _eigenvalues(modes: int, sigma: float) -> Vector:
    """Return the eigenvalues exp(-(m pi sigma)^2 / 2) of the kernel, m = 0, 1, ..., modes - 1."""
    return np.asarray(np.exp(-0.5 * (np.arange(modes) * (np.pi * sigma)) ** 2))


def _integral_of_absolute(values: Vector) -> float:
    """Return the integral over [0, 1] of |f|, f linear between equally spaced values; exact where f changes sign."""
    left, right = values[:-1], values[1:]
    size = np.abs(left) + np.abs(right)
    crossing = np.divide(left**2 + right**2, size, out=np.zeros_like(size), where=size > 0)
    return float(np.where(left * right < 0, crossing, size).sum() / (2 * size.size))


def smece(confidence: Values, correct: Values, sigma: float | None = None) -> float:
    """Return SmoothECE; with a given `sigma`, smECE at that bandwidth instead of at the fixed point.

    >>> round(smece([0.8] * 10, [1] * 7 + [0] * 3), 6)
    0.1
    """
    points, mass = residual_mass(confidence, correct)
    return smece_from_residuals(points, mass) if sigma is None else _smoothed_size(points, mass, _positive(sigma))


def _positive(sigma: float) -> float:
    if not sigma > 0:
        raise MetricError(f"The bandwidth sigma must be positive, not {sigma}.")
    return sigma


def _smoothed_size(points: Vector, mass: Vector, sigma: float) -> float:
    """Return smECE_sigma of masses at rising points; below the finest grid by `_sum_over_clusters`."""
    if sigma >= NODES_PER_SIGMA / FINEST:
        return _integral_of_absolute(_smoothed(_spectrum(points, mass, _cells(sigma)), sigma))
    return _sum_over_clusters(points, mass, sigma)


def _sum_over_clusters(points: Vector, mass: Vector, sigma: float) -> float:
    """Return the same integral, taken where there is mass: kernels more than 2 REACH sigma apart do not overlap.

    A cluster of one sign keeps all its mass. Any other is smoothed on a grid of its own, whose mirrors are those at 0
    and 1 or lie beyond the reach of every kernel.
    """
    starts = np.flatnonzero(np.diff(points, prepend=-1.0) > 2 * REACH * sigma)
    net, total = np.abs(np.add.reduceat(mass, starts)), np.add.reduceat(np.abs(mass), starts)
    mixed = np.flatnonzero(total - net > 1e-15 * total)
    ends = np.append(starts[1:], points.size)
    size = float(net.sum() - net[mixed].sum())
    for i in mixed:
        p, m = points[starts[i] : ends[i]], mass[starts[i] : ends[i]]
        left, right = max(0.0, p[0] - REACH * sigma), min(1.0, p[-1] + REACH * sigma)
        width = sigma / (right - left)
        cells = 1 << max(1, int(np.ceil(np.log2(NODES_PER_SIGMA / width))))
        size += _integral_of_absolute(_smoothed(_spectrum((p - left) / (right - left), m, cells), width))
    return size


def smece_from_residuals(points: Vector, mass: Vector) -> float:
    """Return SmoothECE of residual `mass` at rising `points` (see `residual_mass`): the sigma with smECE_sigma = sigma.

    smECE falls as sigma grows, so the root is unique.

    |sum of mass| <= smECE_sigma <= sum of |mass|. Grids are tried from coarse to fine until one resolves the root;
    below the finest (sigma < 6e-5) it is sought cluster by cluster.
    """
    from scipy.optimize import brentq

    low, high = abs(float(mass.sum())), min(1.0, float(np.abs(mass).sum()))
    if high - low <= 1e-9 * high:  # one sign throughout: nothing cancels at any sigma
        return low
    cells = COARSEST
    while cells <= FINEST:
        start = max(low, NODES_PER_SIGMA / cells)
        spectrum = _spectrum(points, mass, cells)

        def excess(sigma: float, spectrum: Vector = spectrum) -> float:
            return _integral_of_absolute(_smoothed(spectrum, sigma)) - sigma

        if start < high and excess(start) > 0:
            return high if excess(high) >= 0 else float(brentq(excess, start, high, xtol=1e-10))
        if start == low:
            return low
        cells *= 4

    def fine_excess(sigma: float) -> float:
        return _sum_over_clusters(points, mass, sigma) - sigma

    high = min(high, NODES_PER_SIGMA / FINEST)
    low = max(low, 1e-6 * high)  # a value below 6e-11 counts as 0
    if fine_excess(low) <= 0:
        return low if low > 1e-6 * high else 0.0
    return high if fine_excess(high) >= 0 else float(brentq(fine_excess, low, high, xtol=1e-6 * low, rtol=1e-9))


def smooth_reliability(
    confidence: Values, correct: Values, sigma: float | None = None, places: int = 257
) -> SmoothReliability:
    """Return the smoothed accuracy(t) = sum_i a_i K_sigma(t, p_i) / sum_i K_sigma(t, p_i), and the density of p.

    `sigma=None` takes the SmoothECE bandwidth.

    >>> curve = smooth_reliability([0.8] * 10, [1] * 7 + [0] * 3, sigma=0.1, places=3)
    >>> curve.t.tolist(), curve.accuracy.round(6).tolist()
    ([0.0, 0.5, 1.0], [nan, 0.7, 0.7])
    """
    p, r = residuals(confidence, correct)
    width = max(smece(confidence, correct), 1e-3) if sigma is None else _positive(sigma)
    cells = _cells(width)
    density = _smoothed(_spectrum(p, np.full(p.size, 1 / p.size), cells), width)
    hits = _smoothed(_spectrum(p, (r + p) / p.size, cells), width)
    node = np.linspace(0, 1, cells + 1)
    t = np.linspace(0, 1, places)
    density, hits = np.interp(t, node, density), np.interp(t, node, hits)
    accuracy = np.divide(hits, density, out=np.full(places, np.nan), where=density > 1e-9)
    return SmoothReliability(t, np.clip(accuracy, 0, 1), np.maximum(density, 0), width)


def smooth_cells(mass: Vector, sigma: float) -> Vector:
    """Return masses in equal cells of [0, 1], (..., C), smoothed by the reflected kernel."""
    from scipy.fft import dct, idct

    return np.asarray(idct(dct(mass, norm="ortho") * _eigenvalues(mass.shape[-1], sigma), norm="ortho"))


def smece_batch(mass: Vector) -> Vector:
    """Return the SmoothECE of each row of masses in equal cells (R, C); 0 for a row of zeros.

    smECE_sigma is computed for falling widths sigma, a factor sqrt(2) apart, until it exceeds sigma in every row. Each
    root is interpolated in log sigma, where the logarithm of smECE_sigma is nearly straight.

    >>> smece_batch(np.array([[0.0, 0.1], [0.0, 0.0]])).round(4).tolist()
    [0.1, 0.0]
    """
    from scipy.fft import dct, idct

    spectrum, size = dct(mass, norm="ortho"), np.abs(mass).sum(axis=1)
    used = size > 0
    start, step = np.log(size.max(initial=1e-12)), -np.log(2) / 2
    ladder: list[Vector] = []  # log smECE_sigma - log sigma; not positive on the first rung, for smECE_sigma <= size
    while len(ladder) < 2 or ((ladder[-1] <= 0)[used].any() and len(ladder) < 28):
        log_sigma = start + step * len(ladder)
        smoothed = idct(spectrum * _eigenvalues(mass.shape[1], np.exp(log_sigma)), norm="ortho")
        ladder.append(np.log(np.maximum(np.abs(smoothed).sum(axis=1), 1e-300)) - log_sigma)
    excess, row = np.array(ladder), np.arange(len(mass))
    first = np.clip((excess <= 0).sum(axis=0), 1, len(ladder) - 1)
    above, below = excess[first, row], excess[first - 1, row]
    log_sigma = start + step * (first - above / np.maximum(above - below, 1e-12))
    return np.where(used, np.exp(log_sigma), 0.0)
