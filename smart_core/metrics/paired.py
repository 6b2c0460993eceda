"""Many evaluations on the same samples: the best one, and which of the others can be told from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from smart_core.metrics.arrays import MetricError
from smart_core.metrics.difference import PAIRED_METRICS, Difference, PairedSamples, paired_difference
from smart_core.metrics.intervals import plug_in

__all__ = ["PAIRED_METRICS", "Difference", "PairedSamples", "Verdict", "compare_all", "holm", "paired_difference"]


@dataclass(frozen=True)
class Verdict:
    """The evaluation with the smallest plug-in value (largest accuracy), and the others against it."""

    best: str
    differences: dict[str, Difference]
    p_values: dict[str, float]
    tied_with_best: dict[str, bool]


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's step-down adjustment: the k-th smallest of m times (m - k + 1), made non-decreasing, at most 1.

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
    evaluations: Mapping[str, PairedSamples],
    bins: int = 15,
    seed: int = 0,
    level: float = 0.95,
) -> Verdict:
    """Every evaluation against the one with the best plug-in value, with Holm-adjusted p-values.

    Holm keeps the chance of calling any tie a difference at 1 - level for a reference chosen in advance. The reference
    here is chosen by the same data, which flatters it: a difference barely significant is to be read with that in mind,
    while "tied" is safe.
    """
    if not evaluations:
        raise MetricError("There are no evaluations to compare.")
    sign = -1.0 if metric == "accuracy" else 1.0
    names = list(evaluations)
    if len(names) == 1:
        return Verdict(names[0], {}, {}, {names[0]: True})
    best = min(names, key=lambda name: sign * _plug_in(metric, evaluations[name], bins))
    differences = {
        name: paired_difference(metric, evaluations[name], evaluations[best], bins=bins, level=level, seed=seed)
        for name in names
        if name != best
    }
    p_values = holm({name: d.p_value for name, d in differences.items()})
    tied = {name: name == best or p_values[name] > 1 - level for name in names}
    return Verdict(best, differences, p_values, tied)


def _plug_in(metric: str, evaluation: Any, bins: int) -> float:
    if metric == "cece":
        return float(evaluation.cells.ece())
    if metric in ("nll", "brier", "accuracy"):
        return float(np.mean(np.asarray(getattr(evaluation, "correct" if metric == "accuracy" else metric))))
    return plug_in(metric, evaluation.confidence, evaluation.correct, bins)
