"""Pearson's and Spearman's correlation with bootstrap intervals, over the samples where both values are known."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smart_core.metrics.arrays import MetricError

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]

LEVEL = 0.95
FEWEST = 3
"""With fewer samples there is no correlation to speak of."""

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
    try:
        a, b = (np.asarray(values, dtype=np.float64).reshape(-1) for values in (x, y))
    except (TypeError, ValueError) as error:
        raise MetricError("A correlation needs two vectors of numbers.") from error
    if a.size != b.size:
        raise MetricError(f"A correlation needs pairs, but the vectors have {a.size} and {b.size} entries.")
    known = np.isfinite(a) & np.isfinite(b)
    missing = int(a.size - known.sum())
    a, b = a[known], b[known]
    if a.size < FEWEST or np.ptp(a) == 0.0 or np.ptp(b) == 0.0:
        nothing = float("nan")
        return Correlation(nothing, nothing, nothing, nothing, nothing, nothing, int(a.size), missing)
    pair = _Pair.of(a, b)
    generator = np.random.default_rng(seed)
    draws = [pair.coefficients(_times_drawn(a.size, generator)) for _ in range(resamples)]
    tail = (1.0 - LEVEL) / 2.0
    # a resample in which a variable is constant has no correlation and is left out
    low, high = np.nanquantile(draws, [tail, 1.0 - tail], axis=0)
    pearson, spearman = pair.coefficients(np.ones(a.size))
    return Correlation(
        pearson=pearson,
        pearson_low=float(low[0]),
        pearson_high=float(high[0]),
        spearman=spearman,
        spearman_low=float(low[1]),
        spearman_high=float(high[1]),
        used=int(a.size),
        missing=missing,
    )


correlate = correlation
"""The name it has in the package, where `correlation` is this module."""


def _times_drawn(size: int, generator: np.random.Generator) -> Vector:
    """How often each of `size` samples is drawn when as many are drawn with replacement."""
    return np.bincount(generator.integers(size, size=size), minlength=size).astype(np.float64)


@dataclass(frozen=True)
class _Pair:
    """Two variables, sorted and standardised once, so that no resample is sorted or gathered again.

    A resample is known by its counts c: sample i stands in it c_i times, and n = sum c. Its middle rank by a variable
    is the cumulative sum of c in that variable's order less c_i / 2 (equal values share one), and sums of squared ranks
    follow from the tied counts t alone: `sum_i c_i rank_i^2 = (n^3 - sum t^3) / 12`, ranks less their mean.
    """

    moments: NDArray[np.float64]
    """(5, N): a, b, a^2, b^2, ab of the standardised variables."""
    ranks: tuple[_Ranks, _Ranks]

    @staticmethod
    def of(a: Vector, b: Vector) -> _Pair:
        x, y = ((values - values.mean()) / values.std() for values in (a, b))
        return _Pair(np.stack([x, y, x * x, y * y, x * y]), (_Ranks.of(a), _Ranks.of(b)))

    def coefficients(self, counts: Vector) -> tuple[float, float]:
        """Pearson's and Spearman's coefficient of the resample with these counts (N,)."""
        return self._pearson(counts), self._spearman(counts)

    def _pearson(self, counts: Vector) -> float:
        a, b, aa, bb, ab = self.moments @ counts / counts.sum()
        return _ratio(ab - a * b, aa - a * a, bb - b * b)

    def _spearman(self, counts: Vector) -> float:
        """Pearson's coefficient of the middle ranks."""
        total = counts.sum()
        (a, tied_a), (b, tied_b) = (ranks.centred(counts, total) for ranks in self.ranks)
        squares = [(total**3 - np.dot(tied * tied, tied)) / (12.0 * total**3) for tied in (tied_a, tied_b)]
        return _ratio(np.dot(counts * a, b) / total**3, *squares)


@dataclass(frozen=True)
class _Ranks:
    """The order of one variable's values, equal values together."""

    order: Indices
    """(N,) samples by rising value."""
    starts: Indices
    """(G,) where each distinct value begins in that order."""
    member: Indices
    """(N,) the distinct value of each sample."""

    @staticmethod
    def of(values: Vector) -> _Ranks:
        _, first, member = np.unique(np.sort(values), return_index=True, return_inverse=True)
        order = np.argsort(values, kind="stable")
        of_sample = np.empty_like(member)
        of_sample[order] = member
        return _Ranks(order, first, of_sample)

    def centred(self, counts: Vector, total: float) -> tuple[Vector, Vector]:
        """(N,) each sample's middle rank within the resample less the mean rank, and (G,) the tied counts."""
        tied = counts[self.order]
        if self.starts.size < self.order.size:
            tied = np.add.reduceat(tied, self.starts)
        middle = np.cumsum(tied)
        middle -= 0.5 * tied
        middle -= 0.5 * total
        return middle[self.member], tied


def _ratio(covariance: float, of_a: float, of_b: float) -> float:
    """covariance / sqrt(variances), within [-1, 1]; NaN where a variable is constant."""
    if not (of_a > ROUNDING and of_b > ROUNDING):
        return math.nan
    return min(max(float(covariance) / math.sqrt(of_a * of_b), -1.0), 1.0)
