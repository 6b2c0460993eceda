"""Pearson's and Spearman's correlation with bootstrap intervals, over the samples where both values are known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

LEVEL = 0.95
FEWEST = 3
"""With fewer samples there is no correlation to speak of."""

AT_ONCE = 1 << 17
"""Entries of the matrix of counts (resamples x samples) held at once."""

ROUNDING = 1e-12
"""A variance below this, of values whose variance is 1, is rounding of zero."""


@dataclass(frozen=True)
class Correlation:
    """Both coefficients, each with the ends of its 95 % percentile interval over resampled samples.

    All are NaN where fewer than three samples are known or one of the variables is constant.
    """

    pearson: float
    pearson_low: float
    pearson_high: float
    spearman: float
    spearman_low: float
    spearman_high: float
    used: int
    """Samples where both values are finite."""
    missing: int
    """The others: failed or never attacked. They enter nothing."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def correlation(x: ArrayLike, y: ArrayLike, seed: int = 0, resamples: int = 2000) -> Correlation:
    """The correlation of two vectors of the same length; a pair with a value that is not finite is left out."""
    a, b = (np.asarray(values, dtype=np.float64).reshape(-1) for values in (x, y))
    if a.size != b.size:
        raise ValueError(f"the vectors have {a.size} and {b.size} entries")
    known = np.isfinite(a) & np.isfinite(b)
    missing = int(a.size - known.sum())
    a, b = a[known], b[known]
    if a.size < FEWEST or np.ptp(a) == 0.0 or np.ptp(b) == 0.0:
        nothing = float("nan")
        return Correlation(nothing, nothing, nothing, nothing, nothing, nothing, int(a.size), missing)
    sums, ranks = _Sums.of(a, b), (_Ranks.of(a), _Ranks.of(b))
    draws = np.concatenate(
        [
            np.stack([sums.pearson(counts), _spearman(*ranks, counts)])
            for counts in _resample_counts(a.size, resamples, np.random.default_rng(seed))
        ],
        axis=1,
    )
    tail = (1.0 - LEVEL) / 2.0
    # a resample in which a variable is constant has no correlation and is left out
    low, high = np.nanquantile(draws, [tail, 1.0 - tail], axis=1)
    once = np.ones((1, a.size))
    return Correlation(
        pearson=float(sums.pearson(once)[0]),
        pearson_low=float(low[0]),
        pearson_high=float(high[0]),
        spearman=float(_spearman(*ranks, once)[0]),
        spearman_low=float(low[1]),
        spearman_high=float(high[1]),
        used=int(a.size),
        missing=missing,
    )


def _resample_counts(size: int, resamples: int, generator: np.random.Generator) -> Iterator[Matrix]:
    """How often each sample is drawn (rows are resamples), a few resamples at a time."""
    rows = max(1, AT_ONCE // size)
    for start in range(0, resamples, rows):
        count = min(rows, resamples - start)
        drawn = generator.integers(size, size=(count, size)) + size * np.arange(count)[:, None]
        yield np.bincount(drawn.ravel(), minlength=count * size).reshape(count, size).astype(np.float64)


@dataclass(frozen=True)
class _Sums:
    """Two standardised variables and their products: what Pearson's coefficient of any resample is made of."""

    columns: Matrix
    """(N, 5): a, b, a^2, b^2, ab."""

    @staticmethod
    def of(a: Vector, b: Vector) -> _Sums:
        a, b = ((values - values.mean()) / values.std() for values in (a, b))
        return _Sums(np.stack([a, b, a * a, b * b, a * b], axis=1))

    def pearson(self, counts: Matrix) -> Vector:
        """(R,) coefficient where sample i counts `counts[r, i]` times."""
        means = counts @ self.columns / counts.shape[1]
        a, b, aa, bb, ab = means.T
        return _ratio(ab - a * b, aa - a * a, bb - b * b)


@dataclass(frozen=True)
class _Ranks:
    """The order of one variable's values, equal values together."""

    order: NDArray[np.int64]
    """(N,) samples by rising value."""
    starts: NDArray[np.int64]
    """(G,) where each distinct value begins in that order."""
    member: NDArray[np.int64]
    """(N,) the distinct value of each sample."""

    @staticmethod
    def of(values: Vector) -> _Ranks:
        _, first, member = np.unique(np.sort(values), return_index=True, return_inverse=True)
        order = np.argsort(values, kind="stable")
        of_sample = np.empty_like(member)
        of_sample[order] = member
        return _Ranks(order, first, of_sample)

    def centred(self, counts: Matrix) -> Matrix:
        """(R, N) each sample's rank within each resample less the mean rank; equal values share their mean rank."""
        sorted_counts = counts[:, self.order]
        if self.starts.size < self.order.size:
            sorted_counts = np.add.reduceat(sorted_counts, self.starts, axis=1)
        middle = np.cumsum(sorted_counts, axis=1) - sorted_counts / 2.0 - counts.shape[1] / 2.0
        return middle[:, self.member]


def _spearman(of_a: _Ranks, of_b: _Ranks, counts: Matrix) -> Vector:
    """(R,) Pearson's coefficient of the ranks."""
    a, b = of_a.centred(counts), of_b.centred(counts)
    ab, aa, bb = ((counts * first * second).sum(axis=1) for first, second in ((a, b), (a, a), (b, b)))
    return _ratio(ab, aa, bb)


def _ratio(covariance: Vector, of_a: Vector, of_b: Vector) -> Vector:
    """covariance / sqrt(variances), within [-1, 1]; NaN where a variable is constant."""
    product = np.where((of_a > ROUNDING) & (of_b > ROUNDING), of_a * of_b, np.nan)
    return np.clip(covariance / np.sqrt(product), -1.0, 1.0)
