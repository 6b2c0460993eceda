"""The smCE certificate, term by term.

With phi_delta(r) = sqrt(r^2 + delta^2), lambda = 1 / (2 sigma^2), the uniform reference density (kappa = 1) and the
kernel K_lambda normalised over u in [0, 1]:

    H_{lambda,delta} = E int K_lambda(p, u) phi_delta(a - u) du,     B_lambda = sup_p int |p - u| K_lambda(p, u) du,
    Hbin = sum_b S_b phi_delta(C_b - A_b),     eps_agg = sum_b E[w_b |r - (A_b - C_b)|],     r = a - p,

the theorem says smCE <= H + 2 B_lambda; the proposition says H <= Hbin + eps_agg + B_lambda, hence smCE <= Hbin +
eps_agg + 3 B_lambda. The trained objective is Hbin - delta. H and eps_agg include the noise of the labels, which no
calibrator removes: a perfectly calibrated model has E|r| = E[2 p (1 - p)].
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from smart_core.metrics.arrays import Values, residuals
from smart_core.metrics.smooth_calibration import smce
from smart_core.metrics.surrogate import b_lambda, b_lambda_bound, charbonnier_soft_ece, eps_agg, h_continuous

TOLERANCE = 1e-9
"""Rounding error of sums and quadrature: an inequality may be off by this much."""


@dataclass(frozen=True)
class Step:
    """One inequality: its statement, its left side, and the terms of its right side in order."""

    source: str
    statement: str
    left: float
    terms: tuple[float, ...]

    @property
    def right(self) -> float:
        return math.fsum(self.terms)

    @property
    def slack(self) -> float:
        """Right minus left side; negative where the inequality is violated."""
        return self.right - self.left

    @property
    def holds(self) -> bool:
        """Whether left <= right, up to rounding."""
        return self.slack >= -TOLERANCE


@dataclass(frozen=True)
class Certificate:
    """Every term of the chain for one set of confidences and outcomes."""

    sigma: float
    delta: float
    bins: int
    smce: float
    """Exact."""
    h: float
    """H_{lambda,delta}."""
    mean_phi: float
    """E phi_delta(a - p), an intermediate term of the proof."""
    bin_mean: float
    """Hbin, without the constant shift."""
    eps_agg: float
    b: float
    """B_lambda, exact."""
    b_closed: float
    """min(1, 2 / (sqrt(pi lambda) erf(sqrt lambda)))."""
    label_noise: float
    """E[2 p (1 - p)]: E|a - p| of a perfectly calibrated model with these confidences."""

    @property
    def scale(self) -> float:
        """lambda = 1 / (2 sigma^2)."""
        return 1.0 / (2.0 * self.sigma**2)

    @property
    def b_simple(self) -> float | None:
        """C_kappa / sqrt(lambda) with C_kappa = 2 / (sqrt(pi) erf 1); stated for lambda >= 1 only."""
        constant = 2.0 / (math.sqrt(math.pi) * math.erf(1.0))
        return constant / math.sqrt(self.scale) if self.scale >= 1.0 else None

    @property
    def objective(self) -> float:
        """The trained surrogate: Hbin - delta."""
        return self.bin_mean - self.delta

    def steps(self) -> list[Step]:
        """Return the inequalities in the paper's order, including the steps of its proofs."""
        b = self.b
        chain = [
            Step("Theorem", "smCE ≤ H + 2 B_λ", self.smce, (self.h, 2 * b)),
            Step("Proof", "H ≤ E φ_δ(a − p) + B_λ", self.h, (self.mean_phi, b)),
            Step("Proof", "E φ_δ(a − p) ≤ H_bin + ε_agg", self.mean_phi, (self.bin_mean, self.eps_agg)),
            Step("Proposition", "H ≤ H_bin + ε_agg + B_λ", self.h, (self.bin_mean, self.eps_agg, b)),
            Step("Proposition", "smCE ≤ H_bin + ε_agg + 3 B_λ", self.smce, (self.bin_mean, self.eps_agg, 3 * b)),
            Step(
                "Corollary",
                "smCE ≤ (H_bin − δ) + 2 B_λ + (ε_agg + B_λ) + δ",
                self.smce,
                (self.objective, 2 * b, self.eps_agg + b, self.delta),
            ),
            Step("Closed form", "B_λ ≤ min(1, 2 / (√(πλ) erf √λ))", b, (self.b_closed,)),
        ]
        if self.b_simple is not None:
            chain.append(Step("Closed form", "B_λ ≤ 1.339 / √λ  (λ ≥ 1)", b, (self.b_simple,)))
        return chain


def certificate(
    confidence: Values, correct: Values, *, sigma: float = 0.05, delta: float = 1e-3, bins: int = 15
) -> Certificate:
    """Return every term of the inequalities, exact or by quadrature, from confidences and outcomes.

    >>> terms = certificate([0.9, 0.8, 0.7, 0.6], [1, 1, 0, 1])
    >>> all(step.holds for step in terms.steps())
    True
    >>> theorem = terms.steps()[0]
    >>> theorem.statement, round(theorem.left, 3), round(theorem.right, 3)
    ('smCE ≤ H + 2 B_λ', 0.02, 0.43)
    """
    p, r = residuals(confidence, correct)
    return Certificate(
        sigma,
        delta,
        bins,
        smce=smce(confidence, correct),
        h=h_continuous(confidence, correct, sigma, delta),
        mean_phi=float(np.hypot(r, delta).mean()),
        bin_mean=charbonnier_soft_ece(confidence, correct, sigma, delta, bins) + delta,
        eps_agg=eps_agg(confidence, correct, sigma, bins),
        b=b_lambda(sigma),
        b_closed=b_lambda_bound(sigma),
        label_noise=float((2 * p * (1 - p)).mean()),
    )
