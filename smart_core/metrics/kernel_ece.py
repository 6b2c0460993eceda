"""The ECE of a kernel density estimate (Zhang, Kailkhura and Han 2020)."""

from __future__ import annotations

import numpy as np

from smart_core.metrics.arrays import Values, confidence_and_correct
from smart_core.types import Vector

CELLS = 4096
"""Cells of [0, 1] over which the samples are counted and the densities are summed."""

LEAST_BANDWIDTH = 1e-3
"""Confidences without spread would have none."""


def kde_ece(confidence: Values, correct: Values) -> float:
    """Return the integral over [0, 1] of |z f(z) - f1(z)|, f the density of the confidences and f1 that of the hits.

    f integrates to 1 and f1 to the accuracy, so f1 / f is the accuracy at z. The kernel is the triweight of standard
    deviation h = s (2 N)^(-1/5), s the standard deviation of the confidences of correct predictions; both densities are
    reflected at 0 and 1. This is the convention of Mix-n-Match's code.

    >>> round(kde_ece([0.8] * 10, [1] * 7 + [0] * 3), 3)
    0.1
    """
    p, a = confidence_and_correct(confidence, correct)
    hits = p[a == 1.0].astype(np.float64)
    spread = float(hits.std()) if hits.size else 0.0
    h = max(spread * (2 * p.size) ** -0.2, LEAST_BANDWIDTH)
    cell = np.minimum((p.astype(np.float64) * CELLS).astype(np.int64), CELLS - 1)
    everyone = _smoothed(np.bincount(cell, minlength=CELLS) / p.size, h)
    right = _smoothed(np.bincount(cell, weights=a, minlength=CELLS) / p.size, h)
    z = (np.arange(CELLS) + 0.5) / CELLS
    return float(np.abs(z * everyone - right).sum() / everyone.sum())


def _smoothed(mass: Vector, h: float) -> Vector:
    """The mass of each cell spread by the kernel, reflected at both ends."""
    reach = min(int(np.ceil(3 * h * CELLS)), CELLS)
    at = np.arange(-reach, reach + 1) / CELLS / (3 * h)  # the triweight of unit variance ends at 3
    kernel = np.clip(1 - at**2, 0, None) ** 3
    if kernel.sum() == 0.0:
        return mass
    from scipy.signal import fftconvolve

    wide = np.concatenate([mass[:reach][::-1], mass, mass[::-1][:reach]])
    return np.asarray(fftconvolve(wide, kernel / kernel.sum(), mode="valid"))
