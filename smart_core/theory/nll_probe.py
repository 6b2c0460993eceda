"""Directional derivatives of NLL and of a calibration witness when a margin slice is sharpened.

On the slice A = {x : m(x) in G} every temperature is divided by s, T_s = T / s, and left alone elsewhere. With
t = z / T, q = softmax(t), p = q_M, <t>_q = sum_k q_k t_k, at s = 1:

    d/ds NLL                   = E[ 1_A (<t>_q - t_Y) ]
    d/ds E[(a - p_s) psi(p_s)] = E[ 1_A p (t_M - <t>_q) (psi'(p) (r_X - p) - psi(p)) ]

r_X = P(Y = M | X). Expectations are means over the samples, where the outcome a stands in for r_X; with it both are
the exact derivatives of the sample means. Where the truth is known, r_X may be given instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smart_core.device import rows_per_chunk

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Probe(Protocol):
    """psi and its slope, on [0, 1]."""

    def __call__(self, p: Array, /) -> Array: ...

    def slope(self, p: Array, /) -> Array: ...


@dataclass(frozen=True, eq=False)
class LocalTerms:
    """What the derivatives need of each sample; all (N,)."""

    confidence: Array
    """p."""
    correct: Array
    """a, or r_X where the truth is known."""
    margin: Array
    """m = z_(1) - z_(2)."""
    gap: Array
    """g = t_(1) - t_(2) = m / T, the runner-up gap."""
    spread: Array
    """Delta = t_(2) - t_(K), the spread of the logits that are not the top."""
    pull: Array
    """<t>_q - t_Y."""
    advantage: Array
    """t_M - <t>_q."""

    def __len__(self) -> int:
        return len(self.confidence)

    def within(self, low: float, high: float) -> Mask:
        """The slice A: margins from `low` to `high`, both included."""
        return np.asarray((self.margin >= low) & (self.margin <= high))

    def with_truth(self, r_x: ArrayLike) -> LocalTerms:
        """The same with r_X in place of the outcomes."""
        return replace(self, correct=np.asarray(r_x, dtype=np.float64))


@dataclass(frozen=True)
class Estimate:
    """A mean over samples and its standard error."""

    value: float
    error: float

    @classmethod
    def of(cls, contributions: Array) -> Estimate:
        n = len(contributions)
        return cls(float(contributions.mean()), float(contributions.std() / math.sqrt(n)))


def local_terms(logits: ArrayLike, labels: ArrayLike, temperature: ArrayLike) -> LocalTerms:
    """Each sample's terms at s = 1, streamed in row chunks; `temperature` is one T or (N,)."""
    z, y = np.asarray(logits), np.asarray(labels, dtype=np.int64)
    t = np.broadcast_to(np.asarray(temperature, dtype=np.float64), (len(z),))
    size = rows_per_chunk(z.shape[1])
    chunks = [_chunk(z[i : i + size], y[i : i + size], t[i : i + size]) for i in range(0, len(z), size)]
    return LocalTerms(*(np.concatenate(column) for column in zip(*chunks, strict=True)))


def _chunk(logits: NDArray[np.generic], labels: NDArray[np.int64], temperature: Array) -> tuple[Array, ...]:
    """Columns in the order of `LocalTerms`. Logits count from the top one, so t_M = 0 and nothing overflows."""
    z = logits.astype(np.float64)
    rows, top = np.arange(len(z)), z.argmax(axis=1)
    z -= z[rows, top][:, None]
    t = z / temperature[:, None]
    weight = np.exp(t)
    total = weight.sum(axis=1)
    mean = (weight * t).sum(axis=1) / total
    second = np.partition(t, -2, axis=1)[:, -2]
    return (
        1.0 / total,
        (top == labels).astype(np.float64),
        -np.partition(z, -2, axis=1)[:, -2],
        -second,
        second - t.min(axis=1),
        mean - t[rows, labels],
        -mean,
    )


def nll_contributions(terms: LocalTerms, chosen: Mask) -> Array:
    """1_A (<t>_q - t_Y), sample by sample."""
    return np.asarray(np.where(chosen, terms.pull, 0.0))


def probe_contributions(terms: LocalTerms, chosen: Mask, probe: Probe) -> Array:
    """1_A p (t_M - <t>_q) (psi'(p) (a - p) - psi(p)), sample by sample."""
    p = terms.confidence
    rate = p * terms.advantage * (probe.slope(p) * (terms.correct - p) - probe(p))
    return np.asarray(np.where(chosen, rate, 0.0))


def nll_derivative(terms: LocalTerms, chosen: Mask) -> Estimate:
    """d/ds NLL at s = 1; negative where sharpening the slice lowers the NLL."""
    return Estimate.of(nll_contributions(terms, chosen))


def probe_derivative(terms: LocalTerms, chosen: Mask, probe: Probe) -> Estimate:
    """d/ds E[(a - p_s) psi(p_s)] at s = 1."""
    return Estimate.of(probe_contributions(terms, chosen, probe))


def witness(terms: LocalTerms, probe: Probe) -> Estimate:
    """E[(a - p) psi(p)] over all samples: its absolute value is a lower bound of smCE."""
    p = terms.confidence
    return Estimate.of((terms.correct - p) * probe(p))


def growth(terms: LocalTerms, chosen: Mask, probe: Probe) -> Estimate:
    """d/ds |E[(a - p_s) psi(p_s)]| at s = 1: positive where sharpening the slice raises the witness."""
    rate = probe_derivative(terms, chosen, probe)
    return Estimate(math.copysign(1.0, witness(terms, probe).value) * rate.value, rate.error)
