"""The two-slice condition: sharpening a margin slice A lowers NLL, yet raises a witness.

J_U is a range of confidence where the slice is underconfident by rho_U on average, J_O one where it is overconfident by
rho_O; mu_U, mu_O, mu_gap are the masses of A in them and in neither, gamma_min <= m / T <= gamma_max and Delta <=
Delta_G on A. The paper says that

    rho_U gamma_min mu_U  >  gamma_max (rho_O mu_O + mu_gap) + Delta_G mu_A                        (condition)

makes d/ds NLL < 0. That step takes E[(r_X - p) g] >= rho_U gamma_min mu_U from an average gap rho_U. It holds where
r_X - p keeps its sign on J_U and on J_O; where it does not, a runner-up gap g that is larger on the overconfident
samples can turn the sign, and the condition may hold while NLL rises. The weighted terms need no such assumption:

    d/ds NLL <= -E[1_U (r_X - p) g] + E[1_O (p - r_X) g] + E[1_gap (p - r_X) g] + E[1_A (1 - r_X) Delta]   (weighted)

For the probe psi = -c on J_O, with C_G >= p (t_M - <t>_q) on A and eps the A-mass of its ramps,

    d/ds E[(a - p_s) psi(p_s)] >= c inf J_O (1 - sup J_O) gamma_min mu_O - (1 + c) C_G eps         (witness)
    E[1_A (a - p) psi(p)] >= c (rho_O mu_O - eps).                                                (baseline)

The paper writes the baseline for the whole set, where it says that the witness is positive and so grows. With rho_O and
eps taken on A alone it does not follow: samples outside A may be underconfident at the same confidences.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from smart_core.theory.nll_probe import Estimate, LocalTerms, Mask, nll_derivative, probe_derivative, witness
from smart_core.theory.probes import Plateau

Range = tuple[float, float]


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
        """Whether the slices are what the condition is about: J_U underconfident, J_O overconfident on average."""
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
        """Whether the condition is met and NLL does not fall, against the paper's conclusion."""
        return self.holds and self.nll.value >= 0

    @property
    def weighted_bound(self) -> float:
        """The upper bound of d/ds NLL by the weighted terms."""
        return -self.weighted_u + self.weighted_o + self.weighted_gap + self.weighted_spread


def two_slice(terms: LocalTerms, chosen: Mask, under: Range, probe: Plateau) -> TwoSlice:
    """The terms on the slice `chosen`, for J_U = `under` and J_O the plateau of the probe.

    A range without samples has no gap: NaN, which meets no condition.
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
