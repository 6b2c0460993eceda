"""Residuals summed over cells of the confidence axis, and their sampling law.

With residual r = p - a, the sum over cell c divided by N is D_c; its population value is mu_c = E[r; c]. Binned
calibration errors are functions of D, and D is a mean of N independent vectors: nearly normal around mu. Its variance
under a *hypothetical* mu follows from the confidences alone, because a is 0 or 1:

    E[r^2; c] = E[p - p^2; c] + (mu_c / pi_c) E[2 p - 1; c],    pi_c = P(c),

for an accuracy p - mu_c / pi_c in cell c. An estimate from the labels would collapse in cells that saw no error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

UNSEEN = 3.0
"""Answers that N samples may not have shown: if none of N is wrong, up to 3 / N of all may be (the rule of three)."""


@dataclass(frozen=True)
class CellSums:
    """Per-cell means over all N samples, each (C,): P(c), E[p; c], E[p^2; c], E[p - a; c]; and the spread of D.

    `index` and `residual` (N,) keep the samples, for covariances. `drift` (C, C) is how D moves when the
    share of the samples in a cell changes: zero for fixed cells, not for cells cut at sample quantiles.
    """

    index: NDArray[np.int64]
    residual: Vector
    share: Vector
    p: Vector
    p2: Vector
    gap: Vector
    drift: Matrix | None = None

    @property
    def samples(self) -> int:
        """Number of samples N."""
        return self.residual.size

    @property
    def cells(self) -> int:
        """Number of cells C."""
        return self.gap.size


def cell_sums(confidence: Vector, correct: Vector, index: NDArray[np.int64], cells: int) -> CellSums:
    """Sums over cells numbered by `index`."""
    p, r = confidence, confidence - correct

    def mean(weights: Vector | None) -> Vector:
        return np.bincount(index, weights=weights, minlength=cells) / p.size

    return CellSums(index, r, mean(None), mean(p), mean(p * p), mean(r))


def with_drift(sums: CellSums, fixed: NDArray[np.bool_]) -> CellSums:
    """The same sums with the drift of cells cut at sample quantiles, in rising order of confidence.

    Where the share of samples below an edge e rises by d, the sample quantile moves down until it is restored, and
    residual mass d g(e), g(e) = E[r | p = e], passes from the cell below to the cell above. g(e) is the mean of the two
    neighbouring cells' residual means. Edges (C - 1,) that tied confidences hold in place are `fixed`.
    """
    level = sums.gap / np.maximum(sums.share, 1e-300)
    at_edge = np.where(fixed, 0.0, (level[:-1] + level[1:]) / 2)
    below = np.tril(np.ones((sums.cells, sums.cells)))[:-1]  # row e, column c: cell c lies below edge e
    passed = at_edge[:, None] * below
    drift = np.zeros((sums.cells, sums.cells))
    drift[:-1] -= passed
    drift[1:] += passed
    return replace(sums, drift=drift)


def cross_covariance(a: CellSums, b: CellSums) -> Matrix:
    """N times the covariance of the cell sums of two sets of confidences on the same samples, (C_a, C_b)."""
    pair = a.index * b.cells + b.index

    def moment(weights: Vector | None) -> Matrix:
        total = np.bincount(pair, weights=weights, minlength=a.cells * b.cells)
        return total.reshape(a.cells, b.cells) / a.samples

    result = moment(a.residual * b.residual)
    mean_a, mean_b = a.gap, b.gap
    if a.drift is not None:
        result = result + a.drift @ moment(b.residual)
        mean_a = a.gap + a.drift @ a.share
    if b.drift is not None:
        result = result + moment(a.residual) @ b.drift.T
        mean_b = b.gap + b.drift @ b.share
    if a.drift is not None and b.drift is not None:
        result = result + a.drift @ moment(None) @ b.drift.T
    return np.asarray(result - np.outer(mean_a, mean_b))


def joint_covariance(parts: list[CellSums]) -> Matrix:
    """N times the covariance of all cell sums of all parts, one after the other."""
    return np.block([[cross_covariance(a, b) for b in parts] for a in parts])


def correlated_normals(covariance: Matrix, draws: int, generator: np.random.Generator) -> Matrix:
    """Normal vectors (draws, C) of unit variance with the correlations of `covariance`; empty cells are independent.

    The independent normals behind them are brought to mean 0 and covariance 1 exactly where draws suffice, which
    takes the luck of the seed out of sums over cells.
    """
    sd = np.sqrt(np.maximum(np.diag(covariance), 0))
    used = sd > 1e-12
    scale = np.where(used, sd, 1.0)
    correlation = np.where(np.outer(used, used), covariance / np.outer(scale, scale), 0.0)
    np.fill_diagonal(correlation, 1.0)
    value, vector = np.linalg.eigh(correlation)
    root = vector * np.sqrt(np.maximum(value, 0))
    return np.asarray(_whitened(generator.standard_normal((draws, sd.size))) @ root.T)


def _whitened(normals: Matrix) -> Matrix:
    draws, cells = normals.shape
    if draws < 2 * cells:
        return normals
    centred = normals - normals.mean(axis=0)
    factor = np.linalg.cholesky(centred.T @ centred / draws)
    return np.asarray(np.linalg.solve(factor, centred.T).T)


def hypothetical_variance(sums: CellSums, mu: Vector) -> Vector:
    """N times the variance of D_c, (C,), if the population residuals were `mu`."""
    chance = np.maximum(sums.p - sums.p2, 0)
    size = np.maximum(sums.share, 1e-300)
    second = chance + mu / size * (2 * sums.p - sums.share)
    labels = second - mu**2 / size  # what remains if the confidences did not vary from sample to sample
    if sums.drift is None:
        moved = -(mu**2)
    else:
        own = np.bincount(sums.index, weights=sums.residual**2, minlength=sums.cells) / sums.samples
        moved = np.diag(cross_covariance(sums, sums)) - own
    return np.asarray(np.maximum(np.maximum(second + moved, labels), 0.05 * chance + 1e-15))


def open_minded_gap(sums: CellSums) -> Vector:
    """D_c with `UNSEEN` right and as many wrong answers added, spread over the cells as the samples are."""
    n = sums.samples
    accuracy = (n * (sums.p - sums.gap) + UNSEEN * sums.share) / (n + 2 * UNSEEN)
    return np.asarray(sums.p - accuracy)


def standard_errors(sums: CellSums) -> Vector:
    """Standard error of D_c, (C,): the larger of a calibrated model's and of that of about this accuracy."""
    calibrated, as_seen = (hypothetical_variance(sums, mu) for mu in (np.zeros(sums.cells), open_minded_gap(sums)))
    return np.asarray(np.sqrt(np.maximum(calibrated, as_seen) / sums.samples))


def pooled_gap(sums: CellSums, sd: Vector) -> Vector:
    """Residuals (C,) nearer to mu than D is: each cell's mean residual drawn towards that of all cells.

    Random effects (DerSimonian and Laird 1986): cell means with sampling variances v_c vary by tau^2 besides; tau^2
    comes from how far they scatter beyond v_c, and the share v_c / (v_c + tau^2) of each one's departure is taken away.
    """
    used = sums.share > 0
    mean, variance = sums.gap[used] / sums.share[used], (sd[used] / sums.share[used]) ** 2
    weight = 1 / variance
    centre = float(weight @ mean / weight.sum())
    scatter = float(weight @ (mean - centre) ** 2) - (mean.size - 1)
    between = max(0.0, scatter / max(float(weight.sum() - (weight**2).sum() / weight.sum()), 1e-300))
    weight = 1 / (variance + between)
    centre = float(weight @ mean / weight.sum())
    result = np.zeros(sums.cells)
    result[used] = sums.share[used] * (centre + between / (variance + between) * (mean - centre))
    return result
