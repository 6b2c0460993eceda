"""Smooth calibration error (smCE), exactly, in O(N log N).

smCE = max (1/N) sum_i (a_i - p_i) phi(p_i) over phi with |phi| <= 1 and |phi(p) - phi(q)| <= |p - q|. The
class holds -phi with every phi, so the maximum is also that of the absolute value.

Samples of equal p share one phi, so let p_1 < ... < p_n be the distinct confidences, r_j their residual
mass (sum of a - p, divided by N), C_j = r_1 + ... + r_j and d_j = p_{j+1} - p_j. The dual of the linear
programme is

    min over h, h_0 = 0, h_n = C_n, of  sum_j |h_j - h_{j-1}| + sum_{j<n} d_j |C_j - h_j| .

Level by level, going up and down once more costs 2 and can save at most sum_j d_j <= 1; so the best h is
monotone:

    smCE = |C_n| + min over monotone h between 0 and C_n of  sum_{j<n} d_j |C_j - h_j| ,

a weighted L1 isotonic regression of the cumulated residuals, which one heap solves.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from smart_core.metrics.arrays import Values, residuals
from smart_core.types import Vector


def residual_mass(confidence: Values, correct: Values) -> tuple[Vector, Vector]:
    """Return the distinct confidences in rising order, and the sum of a - p over the samples of each, divided by N.

    >>> points, mass = residual_mass([0.8, 0.6, 0.8], [1, 1, 0])
    >>> points.tolist(), mass.round(3).tolist()
    ([0.6, 0.8], [0.133, -0.2])
    """
    p, r = residuals(confidence, correct)
    points, group = np.unique(p, return_inverse=True)
    return points, np.bincount(group, weights=r, minlength=points.size) / p.size


def smce(confidence: Values, correct: Values) -> float:
    """Return the exact smooth calibration error of the top label.

    >>> round(smce([0.8] * 10, [1] * 7 + [0] * 3), 12)
    0.1
    """
    return smce_from_residuals(*residual_mass(confidence, correct))


def smce_from_residuals(points: Vector, mass: Vector) -> float:
    """Return the smCE of residual `mass`, the sum of (a - p) / N, at each of the strictly rising `points` in [0, 1].

    >>> round(smce_from_residuals(np.array([0.6, 0.8]), np.array([0.1, -0.1])), 12)
    0.02
    """
    cumulated = np.cumsum(mass)
    total = float(cumulated[-1])
    gaps = np.diff(points)
    inner = cumulated[:-1]
    low, high = min(0.0, total), max(0.0, total)
    between = np.clip(inner, low, high)
    outside = float(gaps @ np.abs(inner - between))
    if total < 0:
        between = -between
    return abs(total) + outside + _rising_l1_fit(between.tolist(), gaps.tolist())


def _rising_l1_fit(values: list[float], weights: list[float]) -> float:
    """Return min over h_1 <= h_2 <= ... of sum_j w_j |v_j - h_j|.

    The heap holds the kinks (place, change of slope) of x -> min over h_1 <= ... <= h_j <= x; adding
    w |x - v| puts a kink of 2 w at v, and cutting the rising end takes slope w off the rightmost kinks.
    """
    kinks: list[tuple[float, float]] = []  # (-place, slope): a min-heap whose top is the rightmost kink
    error = 0.0
    for value, weight in zip(values, weights, strict=True):
        if not kinks or -kinks[0][0] <= value:
            heappush(kinks, (-value, weight))  # 2 w pushed, w of it cut off at once, at no cost
            continue
        heappush(kinks, (-value, 2 * weight))
        left = weight
        while True:
            place, slope = kinks[0]
            if slope > left:
                error -= left * (place + value)
                kinks[0] = (place, slope - left)  # the place, hence the heap order, is unchanged
                break
            error -= slope * (place + value)
            left -= slope
            heappop(kinks)
            if left <= 0.0:
                break
    return error


def smce_batch(points: Vector, mass: Vector) -> Vector:
    """Return the smCE of each row of `mass` (R, P) on the same `points` (P,).

    Equally spaced points are solved for all rows together, one array step per point; other points row by row.

    >>> smce_batch(np.array([0.0, 0.5, 1.0]), np.array([[0.1, 0.0, -0.1], [0.0, 0.2, 0.0]])).round(12).tolist()
    [0.1, 0.2]
    """
    mass = np.atleast_2d(mass)
    gaps = np.diff(points)
    if gaps.size == 0 or not np.allclose(gaps, gaps.mean(), rtol=1e-9, atol=0):
        return np.array([smce_from_residuals(points, row) for row in mass])
    rows = max(1, 60_000 // points.size)  # keeps the state of the recursion in the cache
    parts = [_smce_equal_gaps(float(gaps.mean()), mass[i : i + rows]) for i in range(0, len(mass), rows)]
    return np.concatenate(parts)


def _smce_equal_gaps(gap: float, mass: Vector) -> Vector:
    """The same minimum for equal weights, all rows at once.

    The kinks, counted in units of slope, are a falling sequence k_0 >= k_1 >= ...; inserting two units at v
    and cutting one off the right reads k_s <- max(k_{s+1}, min(v, k_{s-1})) with k_{-1} = infinity.
    """
    cumulated = np.cumsum(mass, axis=1).T
    cumulated *= np.where(cumulated[-1] < 0, -1.0, 1.0)
    total, inner = cumulated[-1], cumulated[:-1]
    between = np.clip(inner, 0.0, total)
    error = np.abs(inner - between).sum(axis=0)
    steps = len(between)
    kinks, scratch = np.zeros((steps + 2, total.size)), np.zeros((steps + 2, total.size))
    for step, value in enumerate(between):
        error += np.maximum(kinks[0] - value, 0.0)
        used = step + 1  # kinks beyond are still at the lower bound 0
        np.maximum(kinks[1], value, out=scratch[0])
        np.minimum(value, kinks[:used], out=scratch[1 : used + 1])
        np.maximum(kinks[2 : used + 2], scratch[1 : used + 1], out=scratch[1 : used + 1])
        kinks, scratch = scratch, kinks
    return np.asarray(total + gap * error)
