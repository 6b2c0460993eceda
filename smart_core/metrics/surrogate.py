"""The paper's training surrogates and the terms of its smCE bound, in float64, as reference and for display.

Soft membership of sample i in bin b, centres c_b = (b + 1/2)/B: w_ib = softmax_b(-(p_i - c_b)^2 / (2
sigma^2)). With S_b = sum_i w_ib and R_b = sum_i w_ib (p_i - a_i), the bin-mean objectives are sums over b
of |R_b| / N (SoftECE) and of (S_b / N) (phi_delta(R_b / S_b) - phi_delta(0)) (Charbonnier-SoftECE),
phi_delta(r) = sqrt(r^2 + delta^2).

The continuous forms use the kernel exp(-lambda (p - u)^2), lambda = 1 / (2 sigma^2), normalised over u in
[0, 1] with the uniform reference density.
"""

from __future__ import annotations

import math

import numpy as np

from smart_core.metrics.arrays import Values, residuals
from smart_core.types import Vector


def soft_weights(confidence: Vector, sigma: float, bins: int) -> Vector:
    """Return w_ib as an (N, B) matrix whose rows sum to 1."""
    centres = (np.arange(bins) + 0.5) / bins
    exponent = -((confidence[:, None] - centres) ** 2) / (2 * sigma**2)
    weights = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _bin_sums(confidence: Values, correct: Values, sigma: float, bins: int) -> tuple[Vector, Vector, int]:
    p, r = residuals(confidence, correct)
    weights = soft_weights(p, sigma, bins)
    return weights.sum(axis=0), -(r @ weights), p.size


def charbonnier_soft_ece(
    confidence: Values, correct: Values, sigma: float = 0.05, delta: float = 1e-3, bins: int = 15
) -> float:
    """Return Charbonnier-SoftECE, bin-mean form: (1/N) sum_b [sqrt(R_b^2 + delta^2 S_b^2) - delta S_b].

    >>> round(charbonnier_soft_ece([0.8] * 10, [1] * 7 + [0] * 3), 6)
    0.099005
    """
    mass, gap, n = _bin_sums(confidence, correct, sigma, bins)
    return float((np.hypot(gap, delta * mass) - delta * mass).sum() / n)


def eps_agg(confidence: Values, correct: Values, sigma: float = 0.05, bins: int = 15) -> float:
    """Return the bin-aggregation mismatch sum_b (1/N) sum_i w_ib |r_i - mu_b|, mu_b the soft bin mean of r = a - p.

    >>> round(eps_agg([0.8] * 10, [1] * 7 + [0] * 3), 12)
    0.42
    """
    p, r = residuals(confidence, correct)
    weights = soft_weights(p, sigma, bins)
    mass = weights.sum(axis=0)
    mean = np.divide(r @ weights, mass, out=np.zeros(bins), where=mass > 0)
    return float((weights * np.abs(r[:, None] - mean)).sum() / p.size)


def h_continuous(confidence: Values, correct: Values, sigma: float = 0.05, delta: float = 1e-3) -> float:
    """Return H = (1/N) sum_i of the kernel mean over u of phi_delta(a_i - u), by Gauss-Legendre quadrature.

    The integral for a hit at p equals that for a miss at 1 - p, so one family of integrals serves both.

    >>> round(h_continuous([0.8] * 10, [1] * 7 + [0] * 3), 4)
    0.38
    """
    p, r = residuals(confidence, correct)
    distance = np.where(r + p > 0.5, 1 - p, p)  # from the outcome a
    nodes, weights = _graded_quadrature(sigma, delta)
    cost = weights * np.sqrt(nodes**2 + delta**2)
    total, rows = 0.0, max(1, 2_000_000 // nodes.size)
    for start in range(0, distance.size, rows):
        exponent = -((distance[start : start + rows, None] - nodes) ** 2) / (2 * sigma**2)
        kernel = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        total += float(((kernel @ cost) / (kernel @ weights)).sum())
    return total / distance.size


def _graded_quadrature(sigma: float, delta: float) -> tuple[Vector, Vector]:
    """Return nodes and weights on [0, 1]: panels no wider than sigma, shrinking towards the bend of phi_delta at 0."""
    even = np.linspace(0, 1, max(2, math.ceil(1 / sigma) + 1))
    first = float(even[1])
    smallest = min(max(delta, 1e-6), first)
    graded = np.geomspace(smallest, first, 1 + math.ceil(math.log2(first / smallest) + 1e-9))
    edges = np.unique(np.concatenate([even, graded]))
    x, w = np.polynomial.legendre.leggauss(10)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (1 + x)).ravel(), (half * w).ravel()


def kernel_radius(confidence: Vector, sigma: float) -> Vector:
    """Return the kernel mean of |p - u| at each p, in closed form.

    With lambda = 1/(2 sigma^2): [2 - e^{-lambda p^2} - e^{-lambda (1-p)^2}] / (2 lambda), divided by
    sqrt(pi / lambda) / 2 [erf(sqrt(lambda) p) + erf(sqrt(lambda) (1-p))].
    """
    from scipy.special import erf

    root = 1 / (math.sqrt(2) * sigma)
    left, right = root * confidence, root * (1 - confidence)
    spread = -np.expm1(-(left**2)) - np.expm1(-(right**2))
    return np.asarray(spread / (root * math.sqrt(math.pi) * (erf(left) + erf(right))))


def b_lambda(sigma: float = 0.05) -> float:
    """Return the kernel bias B_lambda = sup over p in [0, 1] of the kernel mean of |p - u|, uniform density.

    >>> round(b_lambda(0.05), 4)
    0.0399
    """
    return float(kernel_radius(np.linspace(0, 0.5, 4097), sigma).max())  # symmetric about 1/2


def b_lambda_bound(sigma: float = 0.05) -> float:
    """Return the paper's closed bound min(1, 2 / (sqrt(pi lambda) erf(sqrt(lambda)))), lambda = 1 / (2 sigma^2).

    >>> round(b_lambda_bound(0.05), 4)
    0.0798
    """
    root = 1 / (math.sqrt(2) * sigma)
    return min(1.0, 2 / (math.sqrt(math.pi) * root * math.erf(root)))
