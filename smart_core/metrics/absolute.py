"""A nearly unbiased estimate of |mu| from z = mu + Z, Z standard normal.

|z| itself is too large on average, by up to E|Z| = 0.80 at mu = 0, and no function of z has no bias at all: |mu| has a
kink, and averages over noise do not. Among even functions d the one here minimises

    sum_mu w(mu) (E d(mu + Z) - |mu|)^2 + PENALTY sum_mu E (d(mu + Z) - |mu|)^2

over a grid of mu, with a weight w on mu = 0 of its own: a calibrated model has all its cells there. Its bias stays
within `LARGEST_BIAS` for every mu, a quarter of that of |z|, at a variance of at most 1.7. See Cai and Low (2011) for
how far such estimates can go.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Vector = NDArray[np.float64]

PENALTY = 0.1
WEIGHT_AT_ZERO = 30.0
LARGEST_BIAS = 0.22
"""Of `absolute_estimate`, whatever mu is, in standard errors."""

_END, _STEP = 6.0, 0.05


def absolute_estimate(z: Vector) -> Vector:
    """d(z), (...,): near |mu| on average; |z| itself beyond 6 standard errors, negative near 0."""
    place, value = _nodes()
    size = np.abs(z)
    return np.where(size < place[-1], np.interp(size, place, value), size)


def mean_absolute_normal(mu: Vector) -> Vector:
    """E|mu + Z| = mu (2 Phi(mu) - 1) + 2 phi(mu)."""
    return np.asarray(mu * (2 * ndtr(mu) - 1) + np.sqrt(2 / np.pi) * np.exp(-(mu**2) / 2))


@cache
def _nodes() -> tuple[Vector, Vector]:
    """Places z >= 0 and d there, the solution of the normal equations for d(z) - |z| constant on small steps."""
    place = np.arange(0, _END, _STEP) + _STEP / 2
    mu = np.arange(0, _END + 2 + _STEP / 2, _STEP)
    chance = _chance(mu, place - _STEP / 2, place + _STEP / 2) + _chance(mu, -place - _STEP / 2, -place + _STEP / 2)
    weight = np.ones(mu.size)
    weight[0] = WEIGHT_AT_ZERO
    bias = mean_absolute_normal(mu) - mu
    total = chance.sum(axis=0)
    matrix = (chance.T * weight) @ chance + PENALTY * np.diag(total)
    right = -(chance.T * weight) @ bias - PENALTY * (total * place - chance.T @ mu)
    return place, place + np.linalg.solve(matrix, right)


def _chance(mu: Vector, low: Vector, high: Vector) -> NDArray[np.float64]:
    """P(low < mu + Z < high), (mu, intervals)."""
    return np.asarray(ndtr(high - mu[:, None]) - ndtr(low - mu[:, None]))
