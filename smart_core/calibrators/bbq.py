"""Bayesian binning into quantiles (Naeini, Cooper & Hauskrecht, 2015) of the top-1 confidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smart_core.calibrators.base import LineStyle
from smart_core.calibrators.settings import setting
from smart_core.calibrators.toplabel import StairsCalibrator, bin_centres, bin_of, equal_mass_edges, hits_in_bins
from smart_core.progress import Run
from smart_core.types import FloatArray

LEAST_PRIOR = 1e-12
"""How near to 0 or 1 a prior mean may come: a Beta prior needs both of its counts positive."""


@dataclass(kw_only=True, eq=False)
class BBQ(StairsCalibrator):
    """The average of all equal-mass histograms, weighted by their marginal likelihood.

    `c(s) = sum_B w_B c_B(s)`. A histogram of B bins has a Beta prior of strength `prior / B` in each bin, its mean the
    bin's centre; a bin's value is the posterior mean. Every B from `max(1, N^(1/3) / 10)` to
    `min(N / 5, 10 N^(1/3))` has the same prior probability. Departure: the original is for two classes; this maps the
    top-1 confidence, and the other classes share the rest.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits").validation
    >>> bbq = sc.BBQ().fit(data.logits, data.labels)
    >>> bool(((bbq.values_ > 0) & (bbq.values_ <= 1)).all())
    True
    """

    id = "bbq"
    label = "BBQ"
    summary = "A Bayesian average of many histograms of the top-1 confidence, so no bin count need be chosen."
    position = 14
    style = LineStyle("#B06A1A", "longdash", "x")
    libraries = ("scipy.special",)

    prior: float = setting(
        2.0, "Strength of the Beta prior, in samples over all bins.", low=1e-3, high=1e3, logarithmic=True
    )

    def _fit_map(self, u: FloatArray, hits: FloatArray, run: Run) -> None:
        ordered = np.sort(u)
        fewest, most = bin_counts(len(u))
        models: list[tuple[FloatArray, FloatArray]] = []
        scores: list[float] = []
        for bins in range(fewest, most + 1):
            run.tick((bins - fewest) / (most - fewest + 1), f"histogram of {bins} bins")
            edges = equal_mass_edges(ordered, bins)
            count, right = hits_in_bins(u, hits, edges)
            alpha, beta = beta_prior(edges, self.prior)
            scores.append(log_marginal_likelihood(count, right, alpha, beta))
            models.append((edges, (right + alpha) / (count + alpha + beta)))
        weights = np.exp(np.array(scores) - max(scores))
        self._store_stairs(*average_stairs(models, weights / weights.sum()))


def bin_counts(samples: int) -> tuple[int, int]:
    """The fewest and the most bins considered."""
    root = float(np.cbrt(samples))
    fewest = max(1, int(root / 10.0))
    return fewest, max(fewest, int(min(samples / 5.0, 10.0 * root)))


def beta_prior(edges: FloatArray, strength: float) -> tuple[FloatArray, FloatArray]:
    """`alpha_b = (N'/B) p_b`, `beta_b = (N'/B) (1 - p_b)`, with p_b the confidence at the bin's centre."""
    centre = np.clip(bin_centres(edges), LEAST_PRIOR, 1.0 - LEAST_PRIOR)
    share = strength / len(centre)
    return share * (1.0 - centre), share * centre


def log_marginal_likelihood(count: FloatArray, right: FloatArray, alpha: FloatArray, beta: FloatArray) -> float:
    """`sum_b log [ B(m_b + alpha_b, n_b - m_b + beta_b) / B(alpha_b, beta_b) ]`, m_b hits of n_b samples."""
    from scipy.special import betaln

    return float(np.sum(betaln(right + alpha, count - right + beta) - betaln(alpha, beta)))


def average_stairs(models: list[tuple[FloatArray, FloatArray]], weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The weighted average of step functions, itself a step function on the union of their edges.

    Models of negligible weight (below 1e-12 of the total) add no edges.
    """
    kept = [(edges, values, w) for (edges, values), w in zip(models, weights, strict=True) if w > 1e-12]
    union = np.unique(np.concatenate([edges for edges, _, _ in kept]))
    starts = np.concatenate([[-np.inf], union])
    total = sum(w for _, _, w in kept)
    average = sum((w / total * values[bin_of(starts, edges)] for edges, values, w in kept), np.zeros(len(starts)))
    return union, average
