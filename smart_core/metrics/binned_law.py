"""Simulated law of the plug-in ECE and AdaECE, sum_b |D_b|, along population values t = sum_b |mu_b|."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from smart_core.metrics.binning import adaptive_order, bin_index
from smart_core.metrics.cells import CellSums, cell_sums, draw_cells, hypothetical_variance, with_drift
from smart_core.metrics.inversion import SimulatedLaw
from smart_core.types import FloatArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

STEPS = 21
FIXED_ALLOWANCE, QUANTILE_ALLOWANCE = 0.05, 0.10
"""For fixed cells and for cells cut at sample quantiles: the law takes the shape of mu as given though it is estimated.
Set from the measured spread of (observed - mean) / sd over simulated sets, 1.06 and 1.11 without it."""


def equal_width_cells(confidence: FloatArray, correct: Vector, bins: int) -> CellSums:
    """Cells of the ECE."""
    return cell_sums(confidence.astype(np.float64), correct, np.asarray(bin_index(confidence, bins)), bins)


def equal_mass_cells(confidence: FloatArray, correct: Vector, bins: int) -> CellSums:
    """Cells of the AdaECE; the population value cuts at the population's quantiles."""
    bins = min(bins, confidence.size)
    order, chunk = adaptive_order(confidence, bins)
    index = np.empty(order.size, dtype=np.int64)
    index[order] = chunk
    return with_drift(cell_sums(confidence.astype(np.float64), correct, index, bins))


def hypotheses(sums: CellSums, observed: float, steps: int) -> Vector:
    """Population values worth testing: from well below the observed value less its bias to well above it."""
    sd = np.sqrt(hypothetical_variance(sums, np.zeros((1, sums.cells)))[0] / sums.samples)
    total = max(float(np.sqrt((sd**2).sum())), np.sqrt(observed / sums.samples), 1 / sums.samples)
    bias = np.sqrt(2 / np.pi) * float(sd.sum())
    return np.linspace(max(0.0, observed - bias - 3.5 * total), observed + 4.5 * total, steps)


Path = Callable[[CellSums, Vector], Matrix]
"""Residuals mu(t), (T, C), with sum |mu(t)| = t, for the cells and the values t given.

How a sum of |mu| is spread over the bins decides the bias of the plug-in, and the data say little about it."""


def even_path(sums: CellSums, values: Vector) -> Matrix:
    """Residuals in the ratio of a curve smooth over neighbouring bins: the least bias."""
    return proportional(_smoother(sums) @ sums.gap, values)


def plausible_path(sums: CellSums, values: Vector) -> Matrix:
    """Residuals as uneven as the population's: curve + sqrt(w) (D - curve).

    w is the share of the departures' variance that noise does not explain. The observed D is too uneven, by its noise,
    and the usual weight w would make mu too even; the square root keeps its variance that of the population.
    """
    smoother = _smoother(sums)
    curve = smoother @ sums.gap
    noise = hypothetical_variance(sums, curve[None, :])[0] / sums.samples
    departure = sums.gap - curve
    by_noise = (np.eye(sums.cells) - smoother) ** 2 @ noise
    beyond = max(0.0, float((departure**2 - by_noise).sum())) / max(float((sums.share**2).sum()), 1e-300)
    real = sums.share**2 * beyond
    return proportional(curve + np.sqrt(real / np.maximum(real + by_noise, 1e-300)) * departure, values)


def uneven_path(sums: CellSums, values: Vector) -> Matrix:
    """Best fit to D under sum |mu| = t, sign(D) max(0, |D| - k variance) k set by t: few bins carry it, most bias."""
    variance = hypothetical_variance(sums, sums.gap[None, :])[0]
    size, sign = np.abs(sums.gap), np.where(sums.gap >= 0, 1.0, -1.0)
    widest = -1.01 * max(float(values[-1]), 1e-12) / float(variance.sum())
    steepest = float((size / variance).max())
    k = np.concatenate([np.linspace(widest, 0, 64)[:-1], steepest * np.linspace(0, 1, 256) ** 2])
    reached = np.maximum(0, size - k[:, None] * variance).sum(axis=1)
    at = np.interp(values, reached[::-1], k[::-1])
    mu = sign * np.maximum(0, size - at[:, None] * variance)
    return np.asarray(mu * (values / np.maximum(np.abs(mu).sum(axis=1), 1e-300))[:, None])


def _smoother(sums: CellSums) -> Matrix:
    """Kernel regression of the gap on neighbouring bins, as a matrix on residual sums."""
    neighbour = np.subtract.outer(np.arange(sums.cells), np.arange(sums.cells))
    kernel = np.exp(-0.5 * neighbour**2)
    return np.asarray(sums.share[:, None] * kernel / np.maximum(kernel @ sums.share, 1e-300)[:, None])


def proportional(shape: Vector, values: Vector) -> Matrix:
    """t shape / sum |shape|."""
    return values[:, None] * shape / max(float(np.abs(shape).sum()), 1e-300)


def widened(values: Vector, draws: Matrix, allowance: float) -> Matrix:
    """Draws spread out about their mean by 1 + allowance t / mean: not at t = 0, where the shape of mu has no part."""
    mean = draws.mean(axis=1, keepdims=True)
    factor = 1 + allowance * np.minimum(1, values[:, None] / np.maximum(mean, 1e-300))
    return np.asarray(mean + factor * (draws - mean))


def binned_law(sums: CellSums, normals: Matrix, path: Path = plausible_path, steps: int = STEPS) -> SimulatedLaw:
    """Law of sum |D| over population values `hypotheses`; `normals` (R, C) carry the noise of the cells."""
    observed = float(np.abs(sums.gap).sum())
    values = hypotheses(sums, observed, steps)
    draws = np.abs(draw_cells(sums, path(sums, values), normals)).sum(axis=2)
    allowance = FIXED_ALLOWANCE if sums.drift is None else QUANTILE_ALLOWANCE
    return SimulatedLaw(values, widened(values, draws, allowance), observed)
