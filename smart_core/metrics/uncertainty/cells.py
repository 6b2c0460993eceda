"""Residuals summed over cells of the confidence axis, and their sampling distribution.

With residual r = p - a, the sum over cell c divided by N is D_c; its population value is mu_c = E[r; c]. Calibration
errors are functions of D, and D is a mean of N independent vectors: nearly normal around mu. Its variance under a
*hypothetical* mu follows from the confidences alone, because a is 0 or 1:

    E[r^2; c] = E[p - p^2; c] + (mu_c / pi_c) E[2 p - 1; c],    pi_c = P(c),

for an accuracy p - mu_c / pi_c in cell c. An estimate from the labels would be 0 in cells without an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from smart_core.metrics.binning import adaptive_index, bin_index
from smart_core.metrics.confidence_cells import ConfidenceCells
from smart_core.types import FloatArray, IntArray, Matrix, Vector

PSEUDO_COUNT = 3.0
"""Right and wrong answers that are added to those of N samples: if none of N is wrong, up to 3 / N of all may be (the
rule of three)."""


def cell_index(metric: str, confidence: FloatArray, bins: int, *, fine: bool = False) -> tuple[IntArray, int]:
    """Return the cell of each sample and the number of cells of ece, mce, adaece, smce or smece.

    smCE takes the nearest of equally spaced points from 0 to 1, SmoothECE equal cells. `fine` ones come close enough to
    the exact values to be compared with them.
    """
    if metric in ("ece", "mce"):
        return bin_index(confidence, bins), bins
    if metric == "adaece":
        bins = min(bins, confidence.size)
        return adaptive_index(confidence, bins), bins
    p = confidence.astype(np.float64)
    if metric == "smce":
        points = 81 if fine else 41
        return np.rint(p * (points - 1)).astype(np.int64), points
    cells = smece_cells(float((p * (1 - p)).mean()), p.size, fine)
    return np.minimum((p * cells).astype(np.int64), cells - 1), cells


def smece_cells(variance: float, samples: int, fine: bool) -> int:
    """Return the number of cells for SmoothECE, by the mean of p (1 - p).

    They are finer than the kernel of a calibrated model, whose width goes as (variance of p - a, over N)^(1/3).
    """
    width = 0.4 * np.cbrt(max(variance, 1e-6) / samples)
    return 512 if fine else 256 if width < 1 / 128 else 128


@dataclass(frozen=True)
class CellSums:
    """Means over all N `samples`, each (C,): `share` P(c), `p` E[p; c], `p2` E[p^2; c] and `gap` D_c.

    `per_sample` are the cell and the residual of every sample, (N,) each, for covariances; empty if they are not known.
    The cells of AdaECE move with the sample quantiles; coverage does not suffer if they are taken for fixed.
    """

    samples: int
    share: Vector
    p: Vector
    p2: Vector
    gap: Vector
    per_sample: tuple[IntArray, Vector] = field(default_factory=lambda: (np.zeros(0, np.int64), np.zeros(0)))

    @property
    def cells(self) -> int:
        """Number of cells C."""
        return self.gap.size


def cell_sums(metric: str, confidence: FloatArray, correct: Vector, bins: int) -> CellSums:
    """Return the sums over the cells of a metric."""
    index, cells = cell_index(metric, confidence, bins)
    p = confidence.astype(np.float64)
    r = p - correct
    share, mean_p, mean_p2, gap = (np.bincount(index, w, minlength=cells) / p.size for w in (None, p, p * p, r))
    return CellSums(p.size, share, mean_p, mean_p2, gap, (index, r))


def summed(found: ConfidenceCells) -> CellSums:
    """Return the sums over the bins of many samples that were summed before."""
    share, p, a, variance, _ = found.by_bin / found.samples
    return CellSums(found.samples, share, p, p - variance, p - a)


def summed_covariance(found: ConfidenceCells) -> Matrix:
    """Return N times the covariance of these sums: no sample is in two bins."""
    _, p, a, _, squares = found.by_bin / found.samples
    return np.diag(squares) - np.outer(p - a, p - a)


def joint_covariance(parts: list[CellSums]) -> Matrix:
    """Return N times the covariance of all cell sums of all parts, one after the other."""

    def between(a: CellSums, b: CellSums) -> Matrix:
        (index, residual), (other_index, other) = a.per_sample, b.per_sample
        products = np.bincount(index * b.cells + other_index, residual * other, minlength=a.cells * b.cells)
        return products.reshape(a.cells, b.cells) / a.samples - np.outer(a.gap, b.gap)

    return np.block([[between(a, b) for b in parts] for a in parts])


def correlated_normals(covariance: Matrix, draws: int, generator: np.random.Generator) -> Matrix:
    """Return normal vectors (draws, C) of unit variance with the correlations of `covariance`.

    If there are enough draws, the independent normals behind them get mean 0 and covariance 1 exactly, so that the
    spread of a sum over cells does not depend on the seed. Empty cells are independent.
    """
    sd = np.sqrt(np.maximum(np.diag(covariance), 0))
    used = sd > 1e-12
    scale = np.where(used, sd, 1.0)
    correlation = np.where(np.outer(used, used), covariance / np.outer(scale, scale), 0.0)
    np.fill_diagonal(correlation, 1.0)
    value, vector = np.linalg.eigh(correlation)
    normals = generator.standard_normal((draws, sd.size))
    if draws >= 2 * sd.size:
        normals -= normals.mean(axis=0)
        normals = np.linalg.solve(np.linalg.cholesky(normals.T @ normals / draws), normals.T).T
    return np.asarray(normals @ (vector * np.sqrt(np.maximum(value, 0))).T)


def hypothetical_variance(sums: CellSums, mu: Vector) -> Vector:
    """Return N times the variance of D_c, (C,), if the population residuals were `mu`."""
    of_labels = np.maximum(sums.p - sums.p2, 0)
    second = of_labels + mu / np.maximum(sums.share, 1e-300) * (2 * sums.p - sums.share)
    return np.asarray(np.maximum(second - mu**2, 0.05 * of_labels + 1e-15))


def standard_errors(sums: CellSums) -> Vector:
    """Return the standard error of D_c, (C,): the larger of a calibrated model's and of one of about this accuracy.

    The accuracy is that with `PSEUDO_COUNT` right and as many wrong answers added, spread over the cells as the
    samples.
    """
    n = sums.samples
    accuracy = (n * (sums.p - sums.gap) + PSEUDO_COUNT * sums.share) / (n + 2 * PSEUDO_COUNT)
    variances = [hypothetical_variance(sums, mu) for mu in (np.zeros(sums.cells), sums.p - accuracy)]
    return np.asarray(np.sqrt(np.maximum(*variances) / n))
