"""The two-slice condition: sharpening a margin slice A lowers NLL and yet raises a witness.

J_U is a range of confidence where the slice is underconfident by rho_U on average, J_O one where it is overconfident by
rho_O; mu_U, mu_O, mu_gap are the masses of A in them and in neither, gamma_min <= m / T <= gamma_max and Delta <=
Delta_G on A. The paper says that

    rho_U gamma_min mu_U  >  gamma_max (rho_O mu_O + mu_gap) + Delta_G mu_A                        (condition)

makes d/ds NLL < 0. That step takes E[(r_X - p) g] >= rho_U gamma_min mu_U from an average gap rho_U. It holds where
r_X - p keeps its sign on J_U and on J_O. Where the sign changes, the runner-up gap g can be larger on the overconfident
samples, and the condition may hold while NLL rises (`counterexample`). The weighted terms need no such assumption:

    d/ds NLL <= -E[1_U (r_X - p) g] + E[1_O (p - r_X) g] + E[1_gap (p - r_X) g] + E[1_A (1 - r_X) Delta]   (weighted)

For the probe psi = -c on J_O, with C_G >= p (t_M - <t>_q) on A and eps the A-mass of its ramps,

    d/ds E[(a - p_s) psi(p_s)] >= c inf J_O (1 - sup J_O) gamma_min mu_O - (1 + c) C_G eps         (witness)
    E[1_A (a - p) psi(p)] >= c (rho_O mu_O - eps).                                                (baseline)

The paper states the baseline for all samples, where it says that the witness is positive and therefore grows. With
rho_O and eps taken on A alone this does not follow: samples outside A may be underconfident at the same confidences.

`find_conflict` looks for a slice and a probe on given data. It tries every window between quantiles of the margin with
every probe of a small family. The score of a pair is the smallest of three numbers of standard errors: of d/ds NLL
below 0, of d/ds |witness| above 0, and of the witness itself away from 0, because its sign decides the second. The best
of many pairs looks better than it is: evaluate it on other samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from smart_core.theory.nll_probe import (
    Estimate,
    LocalTerms,
    Plateau,
    local_terms,
    nll_derivative,
    probe_contributions,
    probe_derivative,
    witness,
)
from smart_core.types import BoolArray, Vector

Range = tuple[float, float]

WINDOWS = 20
"""Quantiles of the margin that a window can begin or end at."""
DEPTHS = (0.05, 0.1, 0.2)
EDGES = tuple(float(edge) for edge in np.linspace(0.3, 1.0, 15).round(2))
MIN_OUTCOMES = 10
"""Correct, and incorrect, samples that a window needs; with fewer, its standard errors mean nothing."""

GROUPS = ((0.6, 100, 100), (0.95, 100, 65), (0.55, 2, 1))
"""The counterexample: confidence, rows, correct rows."""
UNDER = (0.59, 0.96)
OVER = Plateau.against(0.54, 0.56, 0.02)


@dataclass(frozen=True)
class TwoSlice:
    """Every term of the condition, of its weighted form, and of the witness's bound."""

    under: Range
    """J_U."""
    over: Range
    """J_O."""
    rho_u: float
    rho_o: float
    mu_u: float
    mu_o: float
    mu_gap: float
    mu_a: float
    gamma_min: float
    gamma_max: float
    delta_g: float
    weighted_u: float
    """E[1_U (r_X - p) g]."""
    weighted_o: float
    """E[1_O (p - r_X) g]."""
    weighted_gap: float
    """E[1_gap (p - r_X) g]."""
    weighted_spread: float
    """E[1_A (1 - r_X) Delta]."""
    nll: Estimate
    """d/ds NLL."""
    probe: Estimate
    """d/ds of the witness."""
    witness: Estimate
    """The witness at s = 1."""
    witness_bound: float
    """The lower bound of d/ds of the witness."""
    baseline: float
    """E[1_A (a - p) psi(p)], the slice's part of the witness."""
    baseline_bound: float
    """c (rho_O mu_O - eps), its lower bound."""

    @property
    def assumed(self) -> bool:
        """Whether J_U is underconfident and J_O overconfident on average, as the condition assumes."""
        return self.rho_u > 0 and self.rho_o > 0

    @property
    def left(self) -> float:
        """rho_U gamma_min mu_U."""
        return self.rho_u * self.gamma_min * self.mu_u

    @property
    def right(self) -> float:
        """gamma_max (rho_O mu_O + mu_gap) + Delta_G mu_A."""
        return self.gamma_max * (self.rho_o * self.mu_o + self.mu_gap) + self.delta_g * self.mu_a

    @property
    def holds(self) -> bool:
        """Whether the paper's condition is met."""
        return self.assumed and self.left > self.right

    @property
    def contradicted(self) -> bool:
        """Whether the condition is met but NLL does not fall, contrary to the paper's conclusion."""
        return self.holds and self.nll.value >= 0

    @property
    def weighted_bound(self) -> float:
        """The upper bound of d/ds NLL by the weighted terms."""
        return -self.weighted_u + self.weighted_o + self.weighted_gap + self.weighted_spread


def two_slice(terms: LocalTerms, chosen: BoolArray, under: Range, probe: Plateau) -> TwoSlice:
    """Return the terms on the slice `chosen`, for J_U = `under` and J_O the plateau of the probe.

    In a range without samples the gap is NaN, which meets no condition.
    """
    p, a, g = terms.confidence, terms.correct, terms.gap
    over = (probe.low, probe.high)
    in_o = chosen & (p >= over[0]) & (p <= over[1])
    in_u = chosen & (p >= under[0]) & (p <= under[1]) & ~in_o
    in_gap = chosen & ~in_u & ~in_o
    c, any_chosen = abs(probe.height), bool(chosen.any())
    gamma_min = float(g[chosen].min()) if any_chosen else math.nan
    mu_o = float(in_o.mean())
    largest = float((p * terms.advantage)[chosen].max()) if any_chosen else math.nan
    band = float((chosen & probe.on_ramp(p)).mean())
    return TwoSlice(
        under=under,
        over=over,
        rho_u=float((a - p)[in_u].mean()) if in_u.any() else math.nan,
        rho_o=float((p - a)[in_o].mean()) if in_o.any() else math.nan,
        mu_u=float(in_u.mean()),
        mu_o=mu_o,
        mu_gap=float(in_gap.mean()),
        mu_a=float(chosen.mean()),
        gamma_min=gamma_min,
        gamma_max=float(g[chosen].max()) if any_chosen else math.nan,
        delta_g=float(terms.spread[chosen].max()) if any_chosen else math.nan,
        weighted_u=float(np.where(in_u, (a - p) * g, 0.0).mean()),
        weighted_o=float(np.where(in_o, (p - a) * g, 0.0).mean()),
        weighted_gap=float(np.where(in_gap, (p - a) * g, 0.0).mean()),
        weighted_spread=float(np.where(chosen, (1 - a) * terms.spread, 0.0).mean()),
        nll=nll_derivative(terms, chosen),
        probe=probe_derivative(terms, chosen, probe),
        witness=witness(terms, probe),
        baseline=float(np.where(chosen, (a - p) * probe(p), 0.0).mean()),
        baseline_bound=c * (float(np.where(in_o, p - a, 0.0).mean()) - band),
        witness_bound=c * over[0] * (1 - over[1]) * gamma_min * mu_o - (1 + c) * largest * band,
    )


def counterexample_rows() -> tuple[Vector, NDArray[np.int64]]:
    """Return the logits and labels of the counterexample.

    The rows have two classes and T = 1, so that Delta_G = 0. J_U holds rows at p = 0.6 that are always right, where
    m / T is small, and rows at p = 0.95 that are right in 65 of 100 cases, where it is large. On average J_U is
    underconfident by 0.05.
    """
    z = np.repeat([[math.log(p / (1 - p)), 0.0] for p, _, _ in GROUPS], [count for _, count, _ in GROUPS], axis=0)
    y = np.concatenate([np.repeat([0, 1], [correct, count - correct]) for _, count, correct in GROUPS])
    return z, y


def counterexample() -> TwoSlice:
    """Return the condition's terms on rows that meet it with the main text's average gaps, and whose NLL rises.

    >>> terms = counterexample()
    >>> terms.holds, terms.nll.value > 0, terms.contradicted
    (True, True, True)
    """
    z, y = counterexample_rows()
    return two_slice(local_terms(z, y, 1.0), np.ones(len(z), dtype=np.bool_), UNDER, OVER)


@dataclass(frozen=True)
class FoundSlice:
    """The pair of margin slice and probe with the highest score."""

    low: float
    high: float
    probe: Plateau
    score: float
    """The smallest of the three numbers of standard errors; at most 0 where no pair shows the conflict."""

    @property
    def conflict(self) -> bool:
        """Whether NLL falls and the witness rises on the samples searched."""
        return self.score > 0


def default_probes() -> Iterable[Plateau]:
    """Yield psi = -c on [low, high] for ranges of confidence up to 0.3 wide and three depths c."""
    for low, high in combinations(EDGES, 2):
        if high - low <= 0.3 + 1e-9:
            for depth in DEPTHS:
                yield Plateau.against(low, high, depth)


def find_conflict(
    terms: LocalTerms, probes: Iterable[Plateau] | None = None, windows: int = WINDOWS
) -> FoundSlice | None:
    """Return the pair with the highest score; None if no window has enough correct and incorrect samples."""
    order = np.argsort(terms.margin, kind="stable")
    margin = terms.margin[order]
    start, stop = _windows(margin, terms.correct[order], windows)
    if not start.size:
        return None
    nll = _scores(-terms.pull[order], start, stop)
    best: FoundSlice | None = None
    for probe in default_probes() if probes is None else probes:
        base = witness(terms, probe)
        if base.error == 0.0:
            continue
        sign = math.copysign(1.0, base.value)
        rise = _scores(sign * probe_contributions(terms, probe)[order], start, stop)
        score = np.minimum(np.minimum(nll, rise), abs(base.value) / base.error)
        place = int(score.argmax())
        if best is None or score[place] > best.score:
            low, high = float(margin[start[place]]), float(margin[stop[place] - 1])
            best = FoundSlice(low, high, probe, float(score[place]))
    return best


def _windows(margin: Vector, correct: Vector, windows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first and one-past-last index of every window of the sorted margins.

    Windows begin and end at quantiles, never between equal margins, and have enough outcomes of both kinds.
    """
    wanted = np.quantile(margin, np.linspace(0, 1, windows + 1)[1:-1])
    cuts = sorted({0, *np.searchsorted(margin, wanted, side="left").tolist(), len(margin)})
    start, stop = np.array(list(combinations(cuts, 2)), dtype=np.int64).reshape(-1, 2).T
    count = np.concatenate([[0.0], np.cumsum(correct)])
    right = count[stop] - count[start]
    enough = np.minimum(right, stop - start - right) >= MIN_OUTCOMES
    return start[enough], stop[enough]


def _scores(values: Vector, start: NDArray[np.int64], stop: NDArray[np.int64]) -> Vector:
    """Return the mean over all samples of the values inside each window, in standard errors of that mean."""
    n = len(values)
    total, squares = (np.concatenate([[0.0], np.cumsum(each)]) for each in (values, values**2))
    mean = (total[stop] - total[start]) / n
    error = np.sqrt(np.maximum((squares[stop] - squares[start]) / n - mean**2, 0.0) / n)
    return np.divide(mean, error, out=np.zeros_like(mean), where=error > 0)


def underconfident_range(terms: LocalTerms, chosen: BoolArray, over: Range, step: float = 0.05) -> Range:
    """Return J_U of a slice: the range of confidence beside J_O, on a grid, with the largest rho_U mu_U.

    Where no range outside J_O holds a sample, it is the first cell of the grid.
    """
    p, r = terms.confidence[chosen], (terms.correct - terms.confidence)[chosen]
    cells = round(1 / step)
    place = np.minimum((p * cells).astype(np.int64), cells - 1)
    residual = np.bincount(place, weights=r, minlength=cells)
    edges = np.arange(cells + 1) / cells
    free = (edges[1:] <= over[0] + 1e-9) | (edges[:-1] >= over[1] - 1e-9)
    spans = [span for span in combinations(range(cells + 1), 2) if free[slice(*span)].all()]
    held = [span for span in spans if residual[slice(*span)].any()]
    first, last = max(held, key=lambda span: residual[slice(*span)].sum(), default=(0, 1))
    return float(edges[first]), float(edges[last])
