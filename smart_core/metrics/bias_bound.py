"""How far, at most, a plug-in calibration error lies above the population's on average.

Every calibration error here is M(D): a convex function of residual sums D = mu + s Z, nearly normal about their
population values mu. By Jensen's inequality E M(D) >= M(mu): the plug-in is biased upwards. For the other side, let
h(t) = E M(mu + t s Z). It is convex in t, so its slope rises: from t = 0 to 1, which is the bias, it rises by at most

    1 / (sqrt(2) - 1)  times its rise from t = 1 to sqrt(2) ,

and the data show that second rise, because D with an independent copy of its noise added is mu + sqrt(2) s Z. Hence

    0 <= bias <= EXPANSION * E[ M(D + s Z') - M(D) ] ,    EXPANSION = 1 / (sqrt(2) - 1) = 2.414 ,

whatever mu is, with equality at mu = 0 where M is a norm. Nothing is assumed about how the errors are spread.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Vector = NDArray[np.float64]

EXPANSION = 1 / (np.sqrt(2) - 1)
HALF_NORMAL = float(np.sqrt(2 / np.pi))
"""E|Z|."""
NORMAL_ABOVE = 4.0
"""Variance, in counts, below which a cell's residual sum is not taken for normal."""


def absolute_rise(z: Vector) -> Vector:
    """E|z + Z| - |z| = 2 (phi(z) - |z| Phi(-|z|)) for a standard normal Z."""
    size = np.abs(z)
    density = np.exp(-(size**2) / 2) * (HALF_NORMAL / 2)
    return np.asarray(2 * (density - size * ndtr(-size)))


def absolute_bias_bound(values: Vector, sd: Vector, few: NDArray[np.bool_] | None = None) -> Vector:
    """Bound of the bias of sum |values| over the last axis; `sd` (C,) is the noise of each value.

    For the values of `few`, whose noise is not normal, it is their noise's own E|s Z|: |mu + noise| exceeds |mu| by no
    more than |noise|.
    """
    bound = EXPANSION * sd * absolute_rise(values / sd)
    if few is not None:
        bound = np.where(few, HALF_NORMAL * sd, bound)
    return np.asarray(bound.sum(axis=-1))
