"""The calibration errors of the top label as functions of residual sums over cells: for their intervals.

Each kind has a statistic T, nearly unbiased for the population's error; the error itself, of hypothetical residuals
mu; and a path of such mu, the observed residuals with so many standard errors taken away, cell by cell, or added.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from smart_core.metrics.absolute import absolute_estimate
from smart_core.metrics.bias_bound import EXPANSION, absolute_bias_bound
from smart_core.metrics.binning import adaptive_index, bin_index, chunk_of_rank
from smart_core.metrics.cells import (
    CellSums,
    cell_sums,
    correlated_normals,
    joint_covariance,
    standard_errors,
    with_drift,
)
from smart_core.metrics.gathered import (
    fixed_points,
    reflected_kernel,
    smce_cells,
    smce_of_mass,
    smece_cells,
    smece_of_mass,
)
from smart_core.metrics.smooth_ece import smece
from smart_core.types import FloatArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


class Errors(ABC):
    """One kind of calibration error of one set of confidences.

    `seen` and `seen_sd` (V,) are what the path shrinks, and its standard errors.
    """

    def __init__(self, sums: CellSums) -> None:
        self.sums = sums
        self.sd = standard_errors(sums)
        self.seen, self.seen_sd = sums.gap, self.sd

    @abstractmethod
    def statistic(self, residual: Matrix) -> Vector:
        """T of rows (R, C) of residual sums."""

    @abstractmethod
    def population(self, mu: Matrix) -> Vector:
        """The error if the residuals were exactly these, of each row (L, V)."""

    @property
    def observed(self) -> float:
        """T of the samples."""
        return float(self.statistic(self.sums.gap[None, :])[0])

    @property
    def clear(self) -> float:
        """Standard errors that leave nothing of what was seen."""
        return float((np.abs(self.seen) / self.seen_sd).max())

    def shrunk(self, by: Vector) -> Matrix:
        """Residuals (L, V) from which `by` (L,) standard errors were taken, down to 0; added, where negative."""
        size = np.maximum(np.abs(self.seen) - by[:, None] * self.seen_sd, 0.0)
        return np.asarray(np.where(self.seen < 0, -size, size))


class BinnedErrors(Errors):
    """sum_c |mu_c|: T takes in each cell the nearly unbiased estimate of |mu_c|."""

    def statistic(self, residual: Matrix) -> Vector:
        return np.asarray((self.sd * absolute_estimate(residual / self.sd)).sum(axis=-1))

    def population(self, mu: Matrix) -> Vector:
        return np.asarray(np.abs(mu).sum(axis=-1))


WIDER = 1.4
"""Width of the smoothing of the path of SmoothECE, as a multiple of the SmoothECE."""
NARROWEST = 0.005


class SmoothedErrors(Errors):
    """SmoothECE, less the bound of its bias at one width. The path shrinks the smoothed residuals: single narrow cells
    hold little but noise."""

    wider = WIDER

    def __init__(self, sums: CellSums, width: float) -> None:
        super().__init__(sums)
        self.kernel = reflected_kernel(sums.cells, self.wider * max(width, NARROWEST))
        self.seen, self.seen_sd = self.kernel @ sums.gap, np.sqrt(self.kernel**2 @ self.sd**2)

    def statistic(self, residual: Matrix) -> Vector:
        return smece_of_mass(residual) - absolute_bias_bound(residual @ self.kernel.T, self.seen_sd)

    def population(self, mu: Matrix) -> Vector:
        return fixed_points(mu)


class LipschitzErrors(SmoothedErrors):
    """smCE, less the bound of its bias: its rise by added noise, over a few fixed copies of it and their mirror
    images."""

    wider = 2.0
    copies = 2

    def __init__(self, sums: CellSums, width: float) -> None:
        super().__init__(sums, width)
        generator = np.random.default_rng(0)
        self.added = self.sd * correlated_normals(joint_covariance([sums]), 2 * sums.cells, generator)[: self.copies]

    def statistic(self, residual: Matrix) -> Vector:
        value = smce_of_mass(residual)
        noisier = [smce_of_mass(residual + sign * added) for added in self.added for sign in (1, -1)]
        return np.asarray(value - EXPANSION * (np.mean(noisier, axis=0) - value))

    def population(self, mu: Matrix) -> Vector:
        return smce_of_mass(mu)


def equal_width_cells(confidence: FloatArray, correct: Vector, bins: int) -> CellSums:
    """Cells of the ECE."""
    return cell_sums(confidence.astype(np.float64), correct, np.asarray(bin_index(confidence, bins)), bins)


def equal_mass_cells(confidence: FloatArray, correct: Vector, bins: int) -> CellSums:
    """Cells of the AdaECE; the population value cuts at the population's quantiles."""
    bins = min(bins, confidence.size)
    index = adaptive_index(confidence, bins).astype(np.int64)
    sums = cell_sums(confidence.astype(np.float64), correct, index, bins)
    rising = np.sort(confidence)
    first = np.flatnonzero(np.diff(chunk_of_rank(confidence.size, bins))) + 1
    return with_drift(sums, fixed=rising[first] == rising[first - 1])


KINDS: dict[str, Callable[[FloatArray, Vector, int], Errors]] = {
    "ece": lambda p, a, bins: BinnedErrors(equal_width_cells(p, a, bins)),
    "adaece": lambda p, a, bins: BinnedErrors(equal_mass_cells(p, a, bins)),
    "smce": lambda p, a, bins: LipschitzErrors(smce_cells(p, a), smece(p, a)),
    "smece": lambda p, a, bins: SmoothedErrors(smece_cells(p, a), smece(p, a)),
}

DRAWS = {"ece": 1000, "adaece": 1000, "smce": 200, "smece": 300}
"""Draws of the noise that settle the tails of the statistic."""
