"""Bounds of the calibration errors of the top label: ECE, AdaECE, SmoothECE and smCE.

ECE and AdaECE are sums of |D_c| over their bins. SmoothECE is, at its own bandwidth, the same sum over smoothed
residuals. Each |D_c| is replaced by its nearly unbiased estimate (see `bounds`), whose largest bias sets the bounds.

smCE is a convex function M of D = mu + s Z, so that E M(D) >= M(mu) by Jensen's inequality: the plug-in is an upper
bound. For the lower one, h(x) = E M(mu + x s Z) is convex, so its slope rises: from x = 0 to 1, which is the bias, h
rises by at most 1 / (sqrt(2) - 1) times its rise from x = 1 to sqrt(2). The data show that second rise, because D with
an independent copy of its noise added is mu + sqrt(2) s Z:

    0 <= bias <= E[ M(D + s Z') - M(D) ] / (sqrt(2) - 1) .
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from smart_core.metrics.arrays import Evaluated, MetricError, confidence_and_correct, needed
from smart_core.metrics.binning import check_bins
from smart_core.metrics.confidence_cells import binned_sums_if_large
from smart_core.metrics.smooth_calibration import smce, smce_batch
from smart_core.metrics.smooth_ece import smece, smooth_cells
from smart_core.metrics.uncertainty.bounds import LARGEST_BIAS, Bounds, absolute_estimate, around
from smart_core.metrics.uncertainty.cells import (
    CellSums,
    cell_sums,
    correlated_normals,
    joint_covariance,
    standard_errors,
    summed,
    summed_covariance,
)
from smart_core.types import Matrix, Vector

TOP_LABEL_ERRORS = ("ece", "adaece", "smce", "smece")

DRAWS = 500
"""Draws of the sampling noise: they settle the standard error to 3%."""


def top_label_bounds(
    metric: str, evaluations: Sequence[Evaluated], bins: int, seed: int, values: Sequence[float] | None = None
) -> list[Bounds]:
    """Return the bounds of a metric for evaluations of the same samples, with the noise that they share.

    `values` are those of the metric, if they are known already.
    """
    check_bins(bins)
    sums = binned_sums_if_large(evaluations[0], bins) if metric == "ece" and len(evaluations) == 1 else None
    if sums is not None:
        part = summed(sums)
        normals = correlated_normals(summed_covariance(sums), DRAWS, np.random.default_rng(seed))
        return [bounds_of_cells(metric, part, normals, None)]
    pairs = [
        confidence_and_correct(needed(one, "confidence", metric), needed(one, "correct", metric)) for one in evaluations
    ]
    sizes = sorted({p.size for p, _ in pairs})
    if len(sizes) > 1:
        raise MetricError(f"Evaluations of {' and '.join(map(str, sizes))} samples cannot be paired.")
    parts = [cell_sums(metric, p, a, bins) for p, a in pairs]
    normals = correlated_normals(joint_covariance(parts), DRAWS, np.random.default_rng(seed))
    columns = np.split(normals, np.cumsum([part.cells for part in parts])[:-1], axis=1)
    result = []
    for number, (part, own) in enumerate(zip(parts, columns, strict=True)):
        value = None if values is None else values[number]
        if value is None and metric in ("smce", "smece"):
            value = (smce if metric == "smce" else smece)(*pairs[number])
        result.append(bounds_of_cells(metric, part, own, value))
    return result


def bounds_of_cells(metric: str, part: CellSums, normals: Matrix, value: float | None) -> Bounds:
    """Return the bounds from the sums over cells and normal draws for them; `value` is that of smCE or SmoothECE."""
    sd = standard_errors(part)
    if metric in ("ece", "adaece") or value is None:
        return _sum_bounds(part.gap, sd, sd * normals)
    if metric == "smce":
        return _smce_bounds(value, part.gap, sd * normals)
    kernel = smooth_cells(np.eye(part.cells), value)
    return _sum_bounds(kernel @ part.gap, np.sqrt(kernel**2 @ sd**2), (sd * normals) @ kernel.T)


def _sum_bounds(residual: Vector, sd: Vector, noise: Matrix) -> Bounds:
    """Return the bounds of sum_c |mu_c| from residuals with these standard errors (C,) and draws of their noise."""
    value, *draws = absolute_estimate(np.vstack([residual, residual + noise]) / sd) @ sd
    bias = LARGEST_BIAS * float(sd.sum())
    return around(value, bias, bias, np.array(draws))


def _smce_bounds(plug_in: float, residual: Vector, noise: Matrix) -> Bounds:
    """Return the bounds of smCE; the rise is averaged over the noise and its mirror image."""
    points = np.linspace(0, 1, residual.size)
    at_data, plus, minus = (smce_batch(points, residual + added) for added in (0 * noise[:1], noise, -noise))
    rise = max(0.0, float((plus + minus).mean() / 2 - at_data[0]))
    return around(plug_in, rise / (np.sqrt(2) - 1), 0.0, plus)
