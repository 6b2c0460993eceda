"""A search for a margin slice whose sharpening lowers NLL and raises a witness, and its J_U.

Every window between quantiles of the margin is tried with every probe of a small family. The score of a pair is the
smallest of three numbers of standard errors: of d/ds NLL below 0, of d/ds |witness| above 0, and of the witness itself
away from 0, whose sign the second needs. The best of many is flattered by the choice: judge it on other samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from smart_core.theory.nll_probe import LocalTerms, Mask, probe_contributions, witness
from smart_core.theory.probes import Plateau

Array = NDArray[np.float64]

WINDOWS = 20
"""Quantiles of the margin between which windows lie."""
DEPTHS = (0.05, 0.1, 0.2)
EDGES = tuple(float(edge) for edge in np.linspace(0.3, 1.0, 15).round(2))
FEWEST = 10
"""Hits, and misses, that a slice needs: with fewer, its standard errors mean nothing."""


@dataclass(frozen=True)
class FoundSlice:
    """The best pair of margin slice and probe, and how sure the conflict is."""

    low: float
    high: float
    probe: Plateau
    score: float
    """The smallest of the three numbers of standard errors; not above 0 where no pair shows the conflict."""

    @property
    def conflict(self) -> bool:
        """Whether NLL falls and the witness rises on the samples searched."""
        return self.score > 0


def default_probes() -> Iterable[Plateau]:
    """psi = -c on [low, high] for ranges of confidence up to 0.3 wide and three depths."""
    for low, high in combinations(EDGES, 2):
        if high - low <= 0.3 + 1e-9:
            for depth in DEPTHS:
                yield Plateau.against(low, high, depth)


def find_conflict(
    terms: LocalTerms, probes: Iterable[Plateau] | None = None, windows: int = WINDOWS
) -> FoundSlice | None:
    """The pair of highest score; None where hits or misses are too few for any slice."""
    n = len(terms)
    order = np.argsort(terms.margin, kind="stable")
    margin = terms.margin[order]
    cuts = _cuts(margin, windows)
    start, stop = _windows(cuts, terms.correct[order])
    if not start.size:
        return None
    nll = _scores(-terms.pull[order], start, stop)
    everything = np.ones(n, dtype=np.bool_)
    best: FoundSlice | None = None
    for probe in default_probes() if probes is None else probes:
        base = witness(terms, probe)
        if base.error == 0.0:
            continue
        sign = math.copysign(1.0, base.value)
        rise = _scores(sign * probe_contributions(terms, everything, probe)[order], start, stop)
        score = np.minimum(np.minimum(nll, rise), abs(base.value) / base.error)
        place = int(score.argmax())
        if best is None or score[place] > best.score:
            low, high = float(margin[start[place]]), float(margin[stop[place] - 1])
            best = FoundSlice(low, high, probe, float(score[place]))
    return best


def _cuts(margin: Array, windows: int) -> list[int]:
    """Places in the sorted margins where windows may begin or end, never between equal margins."""
    wanted = np.quantile(margin, np.linspace(0, 1, windows + 1)[1:-1])
    inner = np.searchsorted(margin, wanted, side="left")
    return sorted({0, *inner.tolist(), len(margin)})


def _windows(cuts: list[int], correct: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and one-past-last place of every window with enough hits and misses."""
    start, stop = np.array(list(combinations(cuts, 2)), dtype=np.int64).reshape(-1, 2).T
    hits = np.concatenate([[0.0], np.cumsum(correct)])
    right = hits[stop] - hits[start]
    enough = np.minimum(right, stop - start - right) >= FEWEST
    return start[enough], stop[enough]


def _scores(values: Array, start: NDArray[np.int64], stop: NDArray[np.int64]) -> Array:
    """Mean over all samples of the values inside each window, in standard errors of that mean."""
    n = len(values)
    total, squares = (np.concatenate([[0.0], np.cumsum(each)]) for each in (values, values**2))
    mean = (total[stop] - total[start]) / n
    error = np.sqrt(np.maximum((squares[stop] - squares[start]) / n - mean**2, 0.0) / n)
    return np.divide(mean, error, out=np.zeros_like(mean), where=error > 0)


def underconfident_range(
    terms: LocalTerms, chosen: Mask, over: tuple[float, float], step: float = 0.05
) -> tuple[float, float]:
    """J_U for a slice: the range of confidence beside J_O, on a grid, with the largest rho_U mu_U.

    The smallest range at 0 where no range outside J_O holds a sample.
    """
    p, r = terms.confidence[chosen], (terms.correct - terms.confidence)[chosen]
    cells = round(1 / step)
    place = np.minimum((p * cells).astype(np.int64), cells - 1)
    residual = np.bincount(place, weights=r, minlength=cells)
    edges = np.arange(cells + 1) / cells
    free = (edges[1:] <= over[0] + 1e-9) | (edges[:-1] >= over[1] - 1e-9)
    best, found = -math.inf, (0.0, float(edges[1]))
    for first in range(cells):
        total = 0.0
        for last in range(first, cells):
            if not free[last]:
                break
            total += residual[last]
            if total > best and (residual[first : last + 1] != 0).any():
                best, found = total, (float(edges[first]), float(edges[last + 1]))
    return found
