"""How NLL and a calibration witness move when a margin slice is sharpened.

On the slice A = {x : m(x) in G} every temperature is divided by s, T_s = T / s; elsewhere it stays the same. The
derivatives at s = 1 are

    t = z / T,  q = softmax(t),  p = q_M,  <t>_q = sum_k q_k t_k,
    d/ds NLL                   = E[ 1_A (<t>_q - t_Y) ]
    d/ds E[(a - p_s) psi(p_s)] = E[ 1_A p (t_M - <t>_q) (psi'(p) (r_X - p) - psi(p)) ]

with r_X = P(Y = M | X). Expectations are means over the samples, with the outcome a in place of r_X; both are then the
exact derivatives of the sample means. Where the truth is known, `LocalTerms.correct` can hold r_X instead.

The probe psi of a witness E[(a - p) psi(p)] selects a range of confidence. `Plateau` has height h on [low, high] and a
smooth ramp of width w on each side,

    psi(p) = h s((p - low + w) / w) below,   h on [low, high],   h s((high + w - p) / w) above,   s(x) = 3 x^2 - 2 x^3,

and is 0 elsewhere. It is continuously differentiable. Its steepest slope is 1.5 |h| / w, so it is 1-Lipschitz for
w >= 1.5 |h|.

`scaling_path` follows T_s = T / s away from s = 1. The small-s lemma says that near s = 1 NLL and the witness move as
their derivatives do. smCE is the supremum over all witnesses; the lemma says nothing about smCE itself, so the path
includes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smart_core.device import rows_per_chunk
from smart_core.errors import CalibrationError
from smart_core.formatting import decimal
from smart_core.metrics.smooth_calibration import smce
from smart_core.types import BoolArray, Vector

STEEPEST = 1.5
"""The largest slope of s."""

STEPS = (0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2)


@dataclass(frozen=True)
class Plateau:
    """A 1-Lipschitz probe, bounded by 1, for one range of confidence. The paper's probe has height -c.

    >>> Plateau.against(0.6, 0.8, 0.1)([0.5, 0.7, 1.0]).round(3)
    array([-0.026, -0.1  , -0.   ])
    """

    low: float
    high: float
    height: float
    ramp: float

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise CalibrationError(f"A probe's range runs from low to high, not from {self.low:g} to {self.high:g}.")
        if abs(self.height) > 1 or not STEEPEST * abs(self.height) <= self.ramp * (1 + 1e-12) or self.ramp <= 0:
            raise CalibrationError(
                f"A probe of height {self.height:g} with ramps {self.ramp:g} wide is not 1-Lipschitz and bounded by 1; "
                f"use a height within ±1 and ramps of {STEEPEST:g} times it."
            )

    @classmethod
    def against(cls, low: float, high: float, depth: float) -> Plateau:
        """Return psi = -depth on [low, high] with the narrowest ramps.

        Its witness is positive where the range is overconfident.
        """
        return cls(low, high, -depth, STEEPEST * depth)

    def __call__(self, p: ArrayLike) -> Vector:
        x = self._inward(np.asarray(p, dtype=np.float64))
        return np.asarray(self.height * x**2 * (3 - 2 * x))

    def slope(self, p: ArrayLike) -> Vector:
        at = np.asarray(p, dtype=np.float64)
        x = self._inward(at)
        side = np.where(at < self.low, 1.0, -1.0)
        return np.asarray(side * self.height * 6 * x * (1 - x) / self.ramp)

    def on_ramp(self, p: ArrayLike) -> BoolArray:
        """Return where psi is neither 0 nor on its plateau: the transition band."""
        x = self._inward(np.asarray(p, dtype=np.float64))
        return np.asarray((x > 0) & (x < 1))

    def _inward(self, p: Vector) -> Vector:
        """Return 0 outside the ramps, 1 on the plateau, and the fraction of the ramp between them."""
        outside = np.maximum(np.maximum(self.low - p, p - self.high), 0.0)
        return np.asarray(np.clip(1 - outside / self.ramp, 0.0, 1.0))


@dataclass(frozen=True, eq=False)
class LocalTerms:
    """The quantities of each sample in the derivatives; all (N,)."""

    confidence: Vector
    """p."""
    correct: Vector
    """a, or r_X where the truth is known."""
    nll: Vector
    """-log q_Y."""
    margin: Vector
    """m = z_(1) - z_(2)."""
    gap: Vector
    """g = t_(1) - t_(2) = m / T, the runner-up gap."""
    spread: Vector
    """Delta = t_(2) - t_(K), the spread of the logits below the top one."""
    pull: Vector
    """<t>_q - t_Y."""
    advantage: Vector
    """t_M - <t>_q."""

    def __len__(self) -> int:
        return len(self.confidence)

    def within(self, low: float, high: float) -> BoolArray:
        """Return the slice A: margins from `low` to `high`, both included."""
        return np.asarray((self.margin >= low) & (self.margin <= high))


@dataclass(frozen=True)
class Estimate:
    """A mean over samples and its standard error."""

    value: float
    error: float

    @classmethod
    def of(cls, contributions: Vector) -> Estimate:
        n = len(contributions)
        return cls(float(contributions.mean()), float(contributions.std() / math.sqrt(n)))

    def __str__(self) -> str:
        if not 1e-6 < self.error < math.inf:
            return f"{decimal(self.value, '.2e')} ± {decimal(self.error, '.0e')}"
        digits = max(0, -math.floor(math.log10(self.error)))  # the error has one significant digit
        return f"{decimal(self.value, f'.{digits}f')} ± {decimal(self.error, f'.{digits}f')}"


def local_terms(logits: ArrayLike, labels: ArrayLike, temperature: ArrayLike) -> LocalTerms:
    """Return each sample's terms at s = 1, computed in chunks of rows; `temperature` is one T or (N,).

    >>> terms = local_terms([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [0, 2], temperature=1.0)
    >>> terms.confidence.round(3), terms.correct, terms.margin
    (array([0.787, 0.576]), array([1., 0.]), array([2., 1.]))
    """
    z, y = np.asarray(logits), np.asarray(labels, dtype=np.int64)
    t = np.broadcast_to(np.asarray(temperature, dtype=np.float64), (len(z),))
    size = rows_per_chunk(z.shape[1])
    chunks = [_chunk(z[i : i + size], y[i : i + size], t[i : i + size]) for i in range(0, len(z), size)]
    return LocalTerms(*(np.concatenate(column) for column in zip(*chunks, strict=True)))


def _chunk(logits: NDArray[np.generic], labels: NDArray[np.int64], temperature: Vector) -> tuple[Vector, ...]:
    """Return the columns of `LocalTerms`. Logits are relative to the top one, so t_M = 0 and nothing overflows."""
    z = logits.astype(np.float64)
    rows, top = np.arange(len(z)), z.argmax(axis=1)
    z -= z[rows, top][:, None]
    t = z / temperature[:, None]
    weight = np.exp(t)
    total = weight.sum(axis=1)
    mean = np.einsum("ij,ij->i", weight, t) / total
    z[rows, top] = -np.inf  # the largest is now the second
    margin = -z.max(axis=1)
    gap, label = margin / temperature, t[rows, labels]
    return (
        1.0 / total,
        (top == labels).astype(np.float64),
        np.log(total) - label,
        margin,
        gap,
        -gap - t.min(axis=1),
        mean - label,
        -mean,
    )


def probe_contributions(terms: LocalTerms, probe: Plateau) -> Vector:
    """Return p (t_M - <t>_q) (psi'(p) (a - p) - psi(p)) of each sample."""
    p = terms.confidence
    return p * terms.advantage * (probe.slope(p) * (terms.correct - p) - probe(p))


def nll_derivative(terms: LocalTerms, chosen: BoolArray) -> Estimate:
    """Return d/ds NLL at s = 1; it is negative where sharpening the slice lowers the NLL.

    >>> terms = local_terms([[2.0, 0.0], [2.0, 0.0]], [0, 0], temperature=1.0)   # both right, so sharpening helps
    >>> round(nll_derivative(terms, terms.within(0, 5)).value, 3)
    -0.238
    """
    return Estimate.of(np.where(chosen, terms.pull, 0.0))


def probe_derivative(terms: LocalTerms, chosen: BoolArray, probe: Plateau) -> Estimate:
    """Return d/ds E[(a - p_s) psi(p_s)] at s = 1."""
    return Estimate.of(np.where(chosen, probe_contributions(terms, probe), 0.0))


def witness(terms: LocalTerms, probe: Plateau) -> Estimate:
    """Return E[(a - p) psi(p)] over all samples; its absolute value is a lower bound of smCE."""
    p = terms.confidence
    return Estimate.of((terms.correct - p) * probe(p))


def growth(terms: LocalTerms, chosen: BoolArray, probe: Plateau) -> Estimate:
    """Return d/ds |E[(a - p_s) psi(p_s)]| at s = 1; it is positive where sharpening the slice raises the witness."""
    rate = probe_derivative(terms, chosen, probe)
    return Estimate(math.copysign(1.0, witness(terms, probe).value) * rate.value, rate.error)


@dataclass(frozen=True, eq=False)
class ScalingPath:
    """NLL, witness and smCE of all samples as the slice is scaled; all (S,)."""

    s: Vector
    nll: Vector
    witness: Vector
    """E[(a - p_s) psi(p_s)], signed."""
    smce: Vector


def scaling_path(
    logits: ArrayLike,
    labels: ArrayLike,
    temperature: ArrayLike,
    chosen: BoolArray,
    probe: Plateau,
    steps: Sequence[float] = STEPS,
) -> ScalingPath:
    """Return NLL, witness and exact smCE at every s."""
    t, rows = np.asarray(temperature, dtype=np.float64), []
    for s in steps:
        terms = local_terms(logits, labels, np.where(chosen, t / s, t))
        rows.append((terms.nll.mean(), witness(terms, probe).value, smce(terms.confidence, terms.correct)))
    return ScalingPath(np.array(steps, dtype=np.float64), *np.array(rows).T)
