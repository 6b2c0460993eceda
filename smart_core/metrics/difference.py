"""The difference of a metric between two evaluations on the same samples.

Both plug-in errors share their noise and have each a bias of its own. The bracket of the difference runs from a's lower
estimate less b's upper one to a's upper less b's lower: a difference counts as real only if no spread of the errors
over the bins could make it one of bias.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from smart_core.metrics.arrays import MetricError
from smart_core.metrics.bracket import Bracket
from smart_core.metrics.brackets import FAMILIES, brackets
from smart_core.metrics.classwise_cells import ClasswiseCells
from smart_core.metrics.classwise_law import classwise_bracket
from smart_core.metrics.intervals import FEWEST, LOSS_BOUNDS, checked_losses, plug_in
from smart_core.metrics.means import mean_interval, mean_p_value

PAIRED_METRICS = (*FAMILIES, "cece", "nll", "brier", "accuracy")


class PairedSamples(Protocol):
    """What an evaluation must carry: vectors over the same samples in the same order, and classwise sums for cece."""

    @property
    def confidence(self) -> Any: ...
    @property
    def correct(self) -> Any: ...
    @property
    def nll(self) -> Any: ...
    @property
    def brier(self) -> Any: ...
    @property
    def cells(self) -> ClasswiseCells | None: ...


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
    metric: str,
    eval_a: PairedSamples,
    eval_b: PairedSamples,
    *,
    bins: int = 15,
    level: float = 0.95,
    seed: int = 0,
    draws: int | None = None,
) -> Difference:
    """Difference a - b with an interval of the population difference and a two-sided p-value.

    For calibration errors the interval holds the population difference in at least `level` of all test sets, and a true
    "no difference" is rejected in at most 1 - `level`, however the errors of the two are spread over the bins; it is
    wider than an interval that took their biases for known. Fewer than `FEWEST` samples say nothing. For nll, brier and
    accuracy, means of per-sample values, it is the skewness-corrected t interval.
    """
    if metric not in PAIRED_METRICS:
        raise MetricError(f"There is no paired difference of '{metric}'; choose one of {', '.join(PAIRED_METRICS)}.")
    if not 0 < level < 1:
        raise MetricError(f"The level must lie between 0 and 1, not {level}.")
    if metric in LOSS_BOUNDS:
        return _difference_of_means(metric, eval_a, eval_b, level)
    if metric == "cece":
        cells_a, cells_b = _both_cells(eval_a, eval_b)
        if np.array_equal(cells_a.group_residual, cells_b.group_residual):
            return Difference(0.0, 0.0, 0.0, 1.0, level)
        between = classwise_bracket(cells_a) - classwise_bracket(cells_b)
        return _difference(cells_a.ece() - cells_b.ece(), between, cells_a.samples, level)
    pairs = [(eval_a.confidence, eval_a.correct), (eval_b.confidence, eval_b.correct)]
    if all(np.array_equal(np.asarray(x), np.asarray(y)) for x, y in zip(*pairs, strict=True)):
        return Difference(0.0, 0.0, 0.0, 1.0, level)
    a, b = brackets(metric, pairs, bins, seed, draws)
    values = [plug_in(metric, *pair, bins) for pair in pairs]
    return _difference(values[0] - values[1], a - b, np.size(eval_a.correct), level)


def _difference(value: float, bracket: Bracket, samples: int, level: float) -> Difference:
    if samples < FEWEST:
        return Difference(value, -1.0, 1.0, 1.0, level)
    low, high = bracket.interval(level)
    return Difference(value, max(low, -1.0), min(high, 1.0), bracket.p_value(), level)


def _difference_of_means(metric: str, eval_a: PairedSamples, eval_b: PairedSamples, level: float) -> Difference:
    name = "correct" if metric == "accuracy" else metric
    a, b = (checked_losses(getattr(evaluation, name), metric) for evaluation in (eval_a, eval_b))
    if a.size != b.size:
        raise MetricError(f"Evaluations of {a.size} and {b.size} samples cannot be paired.")
    values: NDArray[np.float64] = a - b
    if not values.any():
        return Difference(0.0, 0.0, 0.0, 1.0, level)
    largest = LOSS_BOUNDS[metric][1]
    low, high = mean_interval(values, level, (-largest, largest))
    return Difference(float(values.mean()), float(low), float(high), mean_p_value(values, (-largest, largest)), level)


def _both_cells(eval_a: PairedSamples, eval_b: PairedSamples) -> tuple[ClasswiseCells, ClasswiseCells]:
    a, b = eval_a.cells, eval_b.cells
    if a is None or b is None:
        raise MetricError("The paired difference of cece needs the classwise sums of both evaluations, `cells`.")
    if (a.classes, a.bins, a.samples) != (b.classes, b.bins, b.samples):
        raise MetricError("The classwise sums of the two evaluations differ in classes, bins or samples.")
    return a, b
