"""Statistics over data sets: which of several methods is better, when each is measured once on every set.

The data sets are the sample: ranks, the Friedman test with Nemenyi's critical difference (Demšar, *Statistical
Comparisons of Classifiers over Multiple Data Sets*, JMLR 2006), Wilcoxon's signed-rank test between two methods, and
win rates whose intervals come from resampling the sets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from smart_core.errors import CalibrationError
from smart_core.types import FloatArray

RESAMPLES = 2000
"""Bootstrap samples of the data sets for the intervals of win rates and mean ranks."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Methods compared over data sets; arrays are in the order of `methods`, intervals have the level 95%."""

    methods: tuple[str, ...]
    sets: int
    mean_rank: FloatArray
    """(M,) 1 is best; methods that tie on a set share the mean of their ranks."""
    rank_interval: NDArray[np.float64]
    """(M, 2)."""
    win_rate: FloatArray
    """(M,) share of all comparisons with another method on a set that are won; a draw counts half."""
    win_interval: NDArray[np.float64]
    """(M, 2)."""
    wins: NDArray[np.float64]
    """(M, M) share of sets on which the row's method beats the column's; the diagonal is NaN."""
    wins_interval: NDArray[np.float64]
    """(M, M, 2)."""
    friedman_p: float | None
    """P-value of "all methods rank alike"; None where `friedman` has none."""
    critical_difference: float
    """Two methods whose mean ranks differ by less cannot be told apart by Nemenyi's test at 5%; NaN below two sets."""

    def cliques(self) -> list[tuple[str, ...]]:
        """The largest groups of methods that Nemenyi's test cannot tell apart, best first: the bars of a critical
        difference diagram. A method that differs from all others is in no group."""
        if not math.isfinite(self.critical_difference):
            return []
        order = np.argsort(self.mean_rank, kind="stable")
        ranks = self.mean_rank[order]
        groups: list[tuple[int, int]] = []
        for start in range(len(order)):
            stop = int(np.searchsorted(ranks, ranks[start] + self.critical_difference, side="right"))
            if stop - start > 1 and (not groups or stop > groups[-1][1]):
                groups.append((start, stop))
        return [tuple(self.methods[index] for index in order[start:stop]) for start, stop in groups]


def rank_methods(
    values: NDArray[np.float64], methods: Sequence[str], *, higher_is_better: bool = False, seed: int = 0
) -> Ranking:
    """Compare methods by values (sets, methods), one value for each; all must be finite.

    >>> values = np.array([[0.02, 0.05, 0.09], [0.01, 0.04, 0.03], [0.03, 0.06, 0.07], [0.02, 0.03, 0.05]])
    >>> found = rank_methods(values, ["smart", "ts", "vanilla"])
    >>> found.mean_rank.tolist(), found.win_rate.tolist(), round(found.critical_difference, 2)
    ([1.0, 2.25, 2.75], [1.0, 0.375, 0.125], 1.66)
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 2 or x.shape[1] != len(methods) or not x.size:
        raise CalibrationError(f"Values of shape {x.shape} are not sets by {len(methods)} methods.")
    if not np.isfinite(x).all():
        raise CalibrationError("Methods can be ranked only over sets on which every one of them has a value.")
    x = -x if higher_is_better else x
    sets, count = x.shape
    ranks = stats.rankdata(x, axis=1)
    beats = (np.sign(x[:, None, :] - x[:, :, None]) + 1.0) / 2.0  # (sets, winner, loser)
    drawn = np.random.default_rng(seed).integers(sets, size=(RESAMPLES, sets))
    weights = np.apply_along_axis(np.bincount, 1, drawn, minlength=sets) / sets
    others = max(count - 1, 1)
    pairs = beats.reshape(sets, -1)
    win_interval = _interval(weights @ ((beats.sum(axis=2) - 0.5) / others))
    wins, wins_interval = pairs.mean(axis=0).reshape(count, count), _interval(weights @ pairs)
    np.fill_diagonal(wins, np.nan)
    return Ranking(
        tuple(methods),
        sets,
        ranks.mean(axis=0),
        _interval(weights @ ranks),
        (beats.sum(axis=2) - 0.5).mean(axis=0) / others,
        win_interval,
        wins,
        wins_interval.reshape(count, count, 2),
        friedman(x),
        critical_difference(count, sets) if sets > 1 and count > 1 else math.nan,
    )


def _interval(samples: NDArray[np.float64]) -> NDArray[np.float64]:
    """(..., 2) percentile interval of bootstrap samples (resamples, ...)."""
    return np.quantile(samples, (0.025, 0.975), axis=0).T


def friedman(values: NDArray[np.float64]) -> float | None:
    """The p-value of Friedman's test of values (sets, methods), by the F of Iman and Davenport.

    `F = (N - 1) chi^2 / (N (k - 1) - chi^2)` with k - 1 and (k - 1)(N - 1) degrees of freedom; chi^2 is corrected for
    ties. None below three methods or two sets, and where every method ties with every other on every set.
    """
    sets, count = values.shape
    if sets < 2 or count < 3 or (values == values[:, :1]).all():
        return None
    chi_square = stats.friedmanchisquare(*values.T).statistic
    rest = sets * (count - 1) - chi_square
    f = math.inf if rest <= 0 else (sets - 1) * chi_square / rest
    return float(stats.f.sf(f, count - 1, (count - 1) * (sets - 1)))


def critical_difference(methods: int, sets: int) -> float:
    """Nemenyi's critical difference of mean ranks at 5%, `q sqrt(k (k + 1) / (6 N))`.

    `q` is the studentised range quantile for infinitely many degrees of freedom, over the root of 2.

    >>> round(critical_difference(4, 14), 2)   # Demšar's example
    1.25
    """
    q = stats.studentized_range.ppf(0.95, methods, np.inf) / math.sqrt(2.0)
    return float(q * math.sqrt(methods * (methods + 1) / (6.0 * sets)))


def wilcoxon(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The two-sided p-value of Wilcoxon's signed-rank test between two methods over the sets; 1 if they never differ.

    >>> wilcoxon(np.arange(6.0), np.arange(6.0) + [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    0.03125
    """
    difference = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    return float(stats.wilcoxon(difference).pvalue) if difference.any() else 1.0
