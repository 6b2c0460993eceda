"""Simulated law of the plug-in ECE and AdaECE, sum_b |D_b|, along population values t = sum_b |mu_b|."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smart_core.metrics.binning import adaptive_order, bin_index
from smart_core.metrics.cells import CellSums, cell_sums, draw_cells, hypothetical_variance, with_drift
from smart_core.metrics.inversion import SimulatedLaw
from smart_core.types import FloatArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

STEPS = 21


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


def residual_path(sums: CellSums, values: Vector) -> Matrix:
    """Residuals mu(t), (T, C), with sum |mu(t)| = t: the plausible ones behind the observed residuals D.

    How a given t is spread over the bins decides the bias of the plug-in, and the data say little about it. The path is
    the middle of three answers: `thresholded` (few bins carry t), `proportional` (all do, in the ratio of D), and a
    miscalibration curve that is smooth over neighbouring bins.
    """
    variance = hypothetical_variance(sums, sums.gap[None, :])[0]
    single = (thresholded(sums.gap, variance, values) + proportional(sums.gap, values)) / 2
    neighbour = np.subtract.outer(np.arange(sums.cells), np.arange(sums.cells))
    kernel = np.exp(-0.5 * neighbour**2)
    curve = sums.share * (kernel @ sums.gap) / np.maximum(kernel @ sums.share, 1e-300)
    return _of_norm((single + proportional(curve, values)) / 2, values)


def thresholded(gap: Vector, variance: Vector, values: Vector) -> Matrix:
    """Best fit to D under sum |mu| = t: sign(D) max(0, |D| - k variance) with k set by t; k < 0 beyond sum |D|."""
    size, sign = np.abs(gap), np.where(gap >= 0, 1.0, -1.0)
    steepest = float((size / variance).max())
    widest = -1.01 * max(float(values[-1]), 1e-12) / float(variance.sum())
    k = np.concatenate([np.linspace(widest, 0, 64)[:-1], steepest * np.linspace(0, 1, 256) ** 2])
    reached = np.array([np.maximum(0, size - level * variance).sum() for level in k])
    at = np.interp(values, reached[::-1], k[::-1])
    return _of_norm(sign * np.maximum(0, size - at[:, None] * variance), values)


def proportional(shape: Vector, values: Vector) -> Matrix:
    """t shape / sum |shape|."""
    return values[:, None] * shape / max(float(np.abs(shape).sum()), 1e-300)


def _of_norm(mu: Matrix, values: Vector) -> Matrix:
    return np.asarray(mu * (values / np.maximum(np.abs(mu).sum(axis=1), 1e-300))[:, None])


def binned_law(sums: CellSums, normals: Matrix, steps: int = STEPS) -> SimulatedLaw:
    """Law of sum |D| over population values `hypotheses`; `normals` (R, C) carry the noise of the cells."""
    observed = float(np.abs(sums.gap).sum())
    values = hypotheses(sums, observed, steps)
    mu = residual_path(sums, values)
    return SimulatedLaw(values, np.abs(draw_cells(sums, mu, normals)).sum(axis=2), observed)
