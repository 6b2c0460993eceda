"""Brackets of the top-label calibration errors, for the difference of two on the same samples.

The path that serves the interval of one error (see `error_interval`) does not serve a difference: the noise that two
sets of confidences share cancels at one place of it and not at another. A bracket needs no path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smart_core.metrics.absolute import LARGEST_BIAS, absolute_estimate
from smart_core.metrics.arrays import MetricError, Values, confidence_and_correct
from smart_core.metrics.bias_bound import EXPANSION, HALF_NORMAL, NORMAL_ABOVE, absolute_bias_bound
from smart_core.metrics.binning import check_bins
from smart_core.metrics.bracket import Bracket, drawn
from smart_core.metrics.cells import CellSums, correlated_normals, joint_covariance, pooled_gap, standard_errors
from smart_core.metrics.gathered import reflected_kernel, smce_cells, smce_of_mass, smece_cells
from smart_core.metrics.smooth_calibration import smce
from smart_core.metrics.smooth_ece import smece
from smart_core.metrics.top_label_errors import equal_mass_cells, equal_width_cells
from smart_core.types import FloatArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

SMECE_WIDER = 1.15
"""SmoothECE yields to its own width, and the noise seen around the data at one width is too small: without this factor
its differences are held in 90 % of simulated sets where two errors are of opposite signs."""

SMCE_WIDER = 1.1
"""smCE's own, where two errors are of opposite signs and one is so small that its sign is in doubt."""

_INNER_PAIRS = 2
"""Copies of the noise, each with its mirror image, added to every draw of smCE to see its bias bound vary."""


@dataclass(frozen=True)
class Noisy:
    """Cell sums of one set of confidences, their standard errors (C,), and draws (R, C) of their noise.

    `near` (C,) are residuals closer to the population's than the observed ones, which hold noise already: the noise of
    an estimate is seen by drawing around them.
    """

    confidence: FloatArray
    correct: Vector
    sums: CellSums
    sd: Vector
    near: Vector
    noise: Matrix


def binned_bracket(part: Noisy) -> Bracket:
    """Bracket of sum_c |mu_c|: in each cell the nearly unbiased estimate, less and plus its largest bias.

    In a cell of few samples, whose noise is not normal: |D_c| less the noise's own E|s Z|, and |D_c|.
    """
    # by the confidences alone: the labels must not choose among bounds
    few = part.sums.samples * (part.sums.p - part.sums.p2) < NORMAL_ABOVE
    most = float(np.where(few, HALF_NORMAL / 2, LARGEST_BIAS) @ part.sd)

    def estimate(gap: Matrix) -> Vector:
        of_few = np.abs(gap) - HALF_NORMAL / 2 * part.sd
        return np.asarray(np.where(few, of_few, part.sd * absolute_estimate(gap / part.sd)).sum(axis=-1))

    value, draws = float(estimate(part.sums.gap)), estimate(part.near + part.noise)
    return Bracket(drawn(value - most, draws), drawn(value + most, draws))


def smece_bracket(part: Noisy) -> Bracket:
    """Bracket of SmoothECE, the sigma with M_sigma(mu) = sigma, M_sigma the integral of the smoothed residual's size.

    M_sigma falls as sigma grows, so at the plug-in's own sigma M_sigma(mu) lies below the population's SmoothECE
    wherever the plug-in lies above it: the bias of M_sigma at this one sigma bounds that of SmoothECE.
    """
    width = smece(part.confidence, part.correct)
    kernel = reflected_kernel(part.sums.cells, width)
    sd = np.sqrt(kernel**2 @ part.sd**2)
    value, draws = kernel @ part.sums.gap, (part.sums.gap + part.noise) @ kernel.T
    above_draws = np.abs(draws).sum(axis=1)
    return Bracket(
        drawn(width - float(absolute_bias_bound(value, sd)), above_draws - absolute_bias_bound(draws, sd)),
        drawn(width, above_draws),
    )


def smce_bracket(part: Noisy) -> Bracket:
    """Bracket of smCE. The rise by added noise is averaged over the noise and its mirror image, M(x + e) + M(x - e)."""
    value = float(smce(part.confidence, part.correct))
    gap, noise = part.sums.gap, part.noise
    risen = (smce_of_mass(gap + noise) + smce_of_mass(gap - noise)) / 2
    at_data = float(smce_of_mass(gap[None, :])[0])
    bound = EXPANSION * max(0.0, float(risen.mean()) - at_data)
    drawn_mass = part.near + noise
    plus = smce_of_mass(drawn_mass)
    added = [
        smce_of_mass(drawn_mass + sign * np.roll(noise, shift, axis=0))
        for shift in range(1, _INNER_PAIRS + 1)
        for sign in (1, -1)
    ]
    bound_draws = EXPANSION * (np.mean(added, axis=0) - plus)
    return Bracket(drawn(value - bound, plus - bound_draws), drawn(value, plus))


@dataclass(frozen=True)
class Family:
    """How the confidences are cut into cells, the bracket over them, the number of draws it takes, and the factor of
    their spread."""

    cells: Callable[[FloatArray, Vector, int], CellSums]
    bracket: Callable[[Noisy], Bracket]
    draws: int
    wider: float = 1.0


FAMILIES = {
    "ece": Family(equal_width_cells, binned_bracket, 2000),
    "adaece": Family(equal_mass_cells, binned_bracket, 2000),
    "smce": Family(lambda p, a, bins: smce_cells(p, a), smce_bracket, 500, SMCE_WIDER),
    "smece": Family(lambda p, a, bins: smece_cells(p, a), smece_bracket, 1000, SMECE_WIDER),
}


def brackets(
    metric: str, sets: list[tuple[Values, Values]], bins: int, seed: int, draws: int | None = None
) -> list[Bracket]:
    """Brackets of a metric for one or several (confidence, correct) on the same samples, with the noise they share."""
    check_bins(bins)
    family = FAMILIES[metric]
    checked = [confidence_and_correct(*pair) for pair in sets]
    sizes = {p.size for p, _ in checked}
    if len(sizes) > 1:
        raise MetricError(f"Evaluations of {' and '.join(map(str, sorted(sizes)))} samples cannot be paired.")
    parts = [family.cells(p, a, bins) for p, a in checked]
    count = family.draws if draws is None else draws
    normals = correlated_normals(joint_covariance(parts), count, np.random.default_rng(seed))
    ends = np.cumsum([0, *(part.cells for part in parts)])
    found = []
    for i, (part, (p, a)) in enumerate(zip(parts, checked, strict=True)):
        sd = standard_errors(part)
        noise = sd * normals[:, ends[i] : ends[i + 1]]
        found.append(family.bracket(Noisy(p, a, part, sd, pooled_gap(part, sd), noise)).wider(family.wider))
    return found
