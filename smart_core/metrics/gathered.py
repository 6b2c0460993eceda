"""smCE and SmoothECE of many simulated sets at once.

Both are functionals of the residual mass over the confidence axis, which is gathered in narrow cells.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct, idct

from smart_core.metrics.cells import CellSums, cell_sums
from smart_core.metrics.smooth_calibration import smce_batch
from smart_core.types import FloatArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

SMCE_NODES = 41
SMECE_CELLS = 128


def smce_cells(confidence: FloatArray, correct: Vector, nodes: int = SMCE_NODES) -> CellSums:
    """Residual mass at the nearest of `nodes` equally spaced points from 0 to 1."""
    p = confidence.astype(np.float64)
    return cell_sums(p, correct, np.rint(p * (nodes - 1)).astype(np.int64), nodes)


def resolving_cells(confidence: FloatArray) -> int:
    """Cells finer than the kernel of a calibrated model, whose width goes as (variance of p - a, over N)^(1/3)."""
    p = confidence.astype(np.float64)
    width = 0.4 * np.cbrt(max(float((p * (1 - p)).mean()), 1e-6) / p.size)
    return int(np.clip(2 ** np.ceil(np.log2(1 / width)), SMECE_CELLS, 2 * SMECE_CELLS))


def smece_cells(confidence: FloatArray, correct: Vector) -> CellSums:
    """Residual mass in equal intervals, standing for their midpoints."""
    p = confidence.astype(np.float64)
    cells = resolving_cells(confidence)
    return cell_sums(p, correct, np.minimum((p * cells).astype(np.int64), cells - 1), cells)


def smce_of_mass(mass: Matrix) -> Vector:
    """smCE of every row of masses at equally spaced points from 0 to 1."""
    return smce_batch(np.linspace(0, 1, mass.shape[-1]), mass)


def reflected_kernel(cells: int, sigma: float) -> Matrix:
    """Gaussian smoothing reflected at 0 and 1 as a matrix on cell midpoints: diagonal in the cosine transform."""
    damping = np.exp(-0.5 * (np.pi * sigma * np.arange(cells)) ** 2)
    return np.asarray(idct(dct(np.eye(cells), norm="ortho") * damping, norm="ortho"))


@lru_cache(maxsize=64)
def _rung(cells: int, step: int) -> NDArray[np.float32]:
    """Kernel of sigma = 2^(-step / 2): a ladder of widths that all draws share."""
    return reflected_kernel(cells, 2 ** (-step / 2)).astype(np.float32)


def smece_of_mass(mass: Matrix) -> Vector:
    """Fixed point sigma = sum |K_sigma mass| of every row of cell masses.

    The sum is evaluated at four widths about the typical fixed point of the rows, and each row's root is interpolated
    in log sigma, in which the logarithm of the sum is nearly straight.
    """
    centre = float(np.median(fixed_points(mass[:5], 9)))
    if centre <= 0.0:  # rows of zeros: no width to build a ladder about
        return fixed_points(mass)
    first = round(-2 * np.log2(centre) - 1.5)
    log_sigma = -np.arange(first + 3, first - 1, -1)[:, None] * np.log(2) / 2
    small = mass.astype(np.float32)
    total = np.stack([np.abs(small @ _rung(mass.shape[1], first + 3 - j)).sum(axis=1) for j in range(4)])
    excess = np.log(np.maximum(total.astype(np.float64), 1e-12)) - log_sigma
    left = np.clip((excess > 0).sum(axis=0) - 1, 0, 2)
    row = np.arange(left.size)
    above, below = excess[left, row], excess[left + 1, row]
    share = above / np.maximum(above - below, 1e-9)
    return np.asarray(np.exp(np.clip(log_sigma[left, 0] + share * np.log(2) / 2, -12, 0)))


def fixed_points(mass: Matrix, halvings: int = 30) -> Vector:
    """The same fixed points by bisection in log sigma, for a few rows; 0 for a row of zeros."""
    spectrum = dct(mass, norm="ortho")
    mode = -0.5 * (np.pi * np.arange(mass.shape[1])) ** 2
    low, high = np.full(len(mass), -10.0), np.zeros(len(mass))
    for _ in range(halvings):
        middle = (low + high) / 2
        damped = spectrum * np.exp(np.exp(2 * middle)[:, None] * mode)
        above = np.log(np.maximum(np.abs(idct(damped, norm="ortho")).sum(axis=1), 1e-300)) > middle
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.where(np.abs(mass).sum(axis=1) > 0, np.exp((low + high) / 2), 0.0)
