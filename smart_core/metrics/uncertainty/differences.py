"""Differences of a metric between evaluations of the same samples: of two, and of many from the best one.

Two plug-in calibration errors share their noise, and each has a bias of its own. The bounds of their difference run
from the lower bound of a less the upper one of b to the reverse: a difference counts as real only if the biases cannot
explain it, however the errors are spread over the bins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from smart_core.metrics.arrays import Evaluated, MetricError
from smart_core.metrics.uncertainty.bounds import Bounds
from smart_core.metrics.uncertainty.classwise import classwise_bounds
from smart_core.metrics.uncertainty.intervals import LOSS_BOUNDS, TOO_FEW, plug_in, sample_losses
from smart_core.metrics.uncertainty.means import mean_interval, mean_p_value
from smart_core.metrics.uncertainty.top_label import TOP_LABEL_ERRORS, top_label_bounds

PAIRED_METRICS = (*TOP_LABEL_ERRORS, "cece", *LOSS_BOUNDS)

SMOOTH_WIDENING = 1.1
"""Factor of the standard error for smCE and SmoothECE. The noise seen around the data is too small where the two errors
have opposite signs: without the factor, 92% of simulated SmoothECE intervals hold the difference there."""


@dataclass(frozen=True)
class Difference:
    """Metric of a minus metric of b: the plug-in difference, the interval of the population difference, and the
    p-value of "no difference"."""

    mean: float
    low: float
    high: float
    p_value: float
    level: float = 0.95


def paired_difference(
    metric: str, eval_a: Evaluated, eval_b: Evaluated, *, bins: int = 15, level: float = 0.95, seed: int = 0
) -> Difference:
    """Return the difference a - b with an interval of the population difference and a two-sided p-value.

    For calibration errors the interval holds the population difference in at least `level` of all test sets, and a true
    "no difference" is rejected in at most 1 - `level`. With fewer than 25 samples it is all of [-1, 1]. For nll, brier
    and accuracy, which are means, it is the skewness-corrected t interval.

    >>> from smart_core.metrics import Samples
    >>> correct = [1] * 400 + [0] * 100
    >>> found = paired_difference("ece", Samples([0.95] * 500, correct), Samples([0.8] * 500, correct))
    >>> round(found.mean, 2), found.low > 0, found.p_value < 0.01
    (0.15, True, True)
    """
    if metric not in PAIRED_METRICS:
        raise MetricError(f"There is no paired difference of '{metric}'; choose one of {', '.join(PAIRED_METRICS)}.")
    if not 0 < level < 1:
        raise MetricError(f"The level must lie between 0 and 1, not {level}.")
    if metric in LOSS_BOUNDS:
        return _difference_of_means(metric, eval_a, eval_b, level)
    values = [plug_in(metric, each, bins) for each in (eval_a, eval_b)]
    value = values[0] - values[1]
    bounds = _bounds(metric, eval_a, eval_b, bins, seed, values)
    if _identical(metric, eval_a, eval_b):
        return Difference(0.0, 0.0, 0.0, 1.0, level)
    if (eval_a.cells.samples if metric == "cece" else np.size(eval_a.correct)) < TOO_FEW:
        return Difference(value, -1.0, 1.0, 1.0, level)
    low, high = bounds.interval(level)
    return Difference(value, max(low, -1.0), min(high, 1.0), bounds.p_value(), level)


def _bounds(metric: str, eval_a: Evaluated, eval_b: Evaluated, bins: int, seed: int, values: list[float]) -> Bounds:
    """Return the bounds of the difference of a calibration error."""
    if metric == "cece":
        a, b = eval_a.cells, eval_b.cells
        if (a.classes, a.bins, a.samples) != (b.classes, b.bins, b.samples):
            raise MetricError("The classwise sums of the two evaluations differ in classes, bins or samples.")
        return classwise_bounds(a) - classwise_bounds(b)
    bounds_a, bounds_b = top_label_bounds(metric, [eval_a, eval_b], bins, seed, values)
    return (bounds_a - bounds_b).widened(SMOOTH_WIDENING if metric in ("smce", "smece") else 1.0)


def _identical(metric: str, eval_a: Evaluated, eval_b: Evaluated) -> bool:
    """Return whether both evaluations have the same values."""
    if metric == "cece":
        return np.array_equal(eval_a.cells.group_residual, eval_b.cells.group_residual)
    a, b = ((np.asarray(one.confidence), np.asarray(one.correct)) for one in (eval_a, eval_b))
    return np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1])


def _difference_of_means(metric: str, eval_a: Evaluated, eval_b: Evaluated, level: float) -> Difference:
    a, b = sample_losses(metric, eval_a), sample_losses(metric, eval_b)
    if a.size != b.size:
        raise MetricError(f"Evaluations of {a.size} and {b.size} samples cannot be paired.")
    values = a - b
    if not values.any():
        return Difference(0.0, 0.0, 0.0, 1.0, level)
    bounds = (-LOSS_BOUNDS[metric][1], LOSS_BOUNDS[metric][1])
    low, high = mean_interval(values, level, bounds)
    return Difference(float(values.mean()), float(low), float(high), mean_p_value(values, bounds), level)


@dataclass(frozen=True)
class Verdict:
    """The evaluation with the smallest plug-in value (largest accuracy), and the differences of the others from it."""

    best: str
    differences: dict[str, Difference]
    p_values: dict[str, float]
    tied_with_best: dict[str, bool]


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return Holm's step-down adjustment: the k-th smallest of m times (m - k + 1), made non-decreasing, at most 1.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    ordered = sorted(p_values, key=lambda name: p_values[name])
    adjusted, running = {}, 0.0
    for rank, name in enumerate(ordered):
        running = max(running, min(1.0, (len(ordered) - rank) * p_values[name]))
        adjusted[name] = running
    return {name: adjusted[name] for name in p_values}


def compare_all(
    metric: str,
    evaluations: Mapping[str, Evaluated],
    bins: int = 15,
    seed: int = 0,
    level: float = 0.95,
    *,
    best: str | None = None,
) -> Verdict:
    """Compare each evaluation with `best`, by default that of the best plug-in value, with Holm-adjusted p-values.

    Holm keeps the probability of calling any tie a difference at 1 - level for a reference chosen in advance. Here the
    same data choose the reference, which favours it: "tied" is safe, but a barely significant difference may not be.

    >>> from smart_core.metrics import Samples
    >>> correct = [1] * 400 + [0] * 100
    >>> compare_all("ece", {"a": Samples([0.95] * 500, correct), "b": Samples([0.8] * 500, correct)}).tied_with_best
    {'a': False, 'b': True}
    """
    if not evaluations:
        raise MetricError("There are no evaluations to compare.")
    names = list(evaluations)
    if len(names) == 1:
        return Verdict(names[0], {}, {}, {names[0]: True})
    sign = -1.0 if metric == "accuracy" else 1.0
    if best is None:
        best = min(names, key=lambda name: sign * plug_in(metric, evaluations[name], bins))
    differences = {
        name: paired_difference(metric, evaluations[name], evaluations[best], bins=bins, level=level, seed=seed)
        for name in names
        if name != best
    }
    p_values = holm({name: difference.p_value for name, difference in differences.items()})
    tied = {name: name == best or p_values[name] > 1 - level for name in names}
    return Verdict(best, differences, p_values, tied)
