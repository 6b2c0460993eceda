"""Which method of a comparison to deploy, by one rule.

1. A method is out if its NLL or Brier score is worse than the model's own, or its accuracy lower, beyond noise (paired
   test on the same samples, 95 %).
2. Of the others, those remain whose calibration error the paired test cannot tell from the best of them.
3. The model itself is out if one of these has a lower calibration error, NLL or Brier score than it, beyond noise.
4. Methods that keep every prediction come first, then those with fewer parameters, then those with the lower NLL.

A rise in accuracy beyond noise does not decide, because it means that predictions change; the reason names it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from smart_core.calibrators import methods
from smart_core.evaluation import CALIBRATION_ERRORS, METRICS, Evaluation, metric_value
from smart_core.formatting import join_words, percent, plural
from smart_core.metrics.uncertainty import compare_all, paired_difference

if TYPE_CHECKING:
    from smart_core.experiments.compare import Comparison
    from smart_core.experiments.method_result import MethodResult

PROPER_SCORES = ("nll", "brier")


@dataclass(frozen=True)
class AgainstModel:
    """How a method differs from the uncalibrated model, beyond noise, on the same test samples."""

    worse: tuple[str, ...] = ()
    """Of NLL, Brier score and accuracy, those that are worse."""
    better: tuple[str, ...] = ()
    """Those that are better, and the calibration error if it is lower."""

    @property
    def warning(self) -> str:
        """`worse NLL and Brier than the model`; empty if nothing is worse."""
        return f"worse {join_words([METRICS[name].label for name in self.worse])} than the model" if self.worse else ""


@dataclass(frozen=True)
class Recommendation:
    """The method to deploy, and why."""

    method: str
    reason: str
    """Two or three sentences: the gain, what it costs, and which method raises the accuracy, if any does."""
    against_model: Mapping[str, AgainstModel] = field(default_factory=dict)
    """Every method that has values, against the uncalibrated model."""

    @property
    def label(self) -> str:
        """The method's name in tables."""
        return methods()[self.method].label


def recommend(comparison: Comparison) -> Recommendation:
    """Recommend the method to deploy; see the rule at the top of this module.

    The calibration error is the comparison's primary metric, or the ECE where that is none.

    >>> import smart_core as sc
    >>> data = sc.simulate_set(1000, 2000, 5, seed=0)
    >>> sc.recommend(sc.compare(data, "vanilla,ts,histogram", seeds=1)).method
    'ts'
    """
    from smart_core.experiments.method_result import evaluate_method

    bins = comparison.bins
    metric = comparison.metric if comparison.metric in CALIBRATION_ERRORS else "ece"
    rows = {id: row for id, row in comparison.available.items() if row.evaluations and math.isfinite(row.mean(metric))}
    model = rows.get("vanilla") or evaluate_method("vanilla", comparison.data, 1, bins=bins)
    rows = {"vanilla": model, **rows}
    typical = {id: row.typical(metric) for id, row in rows.items()}
    if metric == "cece" and any(evaluation.cells is None for evaluation in typical.values()):
        metric = "ece"
    against = {id: _against(typical[id], typical["vanilla"], metric, bins) for id in rows if id != "vanilla"}
    eligible = {id: row for id, row in rows.items() if id == "vanilla" or not against[id].worse}
    tied = compare_all(metric, {id: typical[id] for id in eligible}, bins=bins).tied_with_best
    candidates = [id for id in eligible if tied[id]]
    if any(against[id].better for id in candidates if id != "vanilla"):
        candidates = [id for id in candidates if id != "vanilla"]

    def preference(id: str) -> tuple[bool, int, float]:
        return not rows[id].keeps_top1, rows[id].parameters, rows[id].mean("nll")

    chosen = min(candidates, key=preference)
    return Recommendation(chosen, _reason(chosen, rows, against, candidates, metric), against)


def _against(method: Evaluation, model: Evaluation, metric: str, bins: int) -> AgainstModel:
    """Compare a method with the model; the calibration error counts only where it is better: step 2 handles worse."""
    worse, better = [], []
    for name in (*PROPER_SCORES, "accuracy", metric):
        difference = paired_difference(name, method, model, bins=bins)
        sign = -1 if METRICS[name].higher_is_better else 1
        low, high = sorted((sign * difference.low, sign * difference.high))
        if low > 0 and name != metric:
            worse.append(name)
        elif high < 0:
            better.append(name)
    return AgainstModel(tuple(worse), tuple(better))


def _reason(
    chosen: str,
    rows: Mapping[str, MethodResult],
    against: Mapping[str, AgainstModel],
    candidates: list[str],
    metric: str,
) -> str:
    row, model, label = rows[chosen], rows["vanilla"], METRICS[metric].label
    if chosen == "vanilla":
        parts = [
            f"No calibrator improves the {label}, NLL or Brier score of the model beyond noise: deploy it unchanged."
        ]
    else:
        change = f"{label} from {metric_value(metric, model.mean(metric))} to {metric_value(metric, row.mean(metric))}"
        scores = f"NLL from {metric_value('nll', model.mean('nll'))} to {metric_value('nll', row.mean('nll'))}"
        others = [rows[id].label for id in candidates if id != chosen]
        parts = [f"{row.label} changes the {change} and the {scores}."]
        if others:
            among = "that keeps every prediction" if row.keeps_top1 else "of them"
            simplest = f"it is the simplest {among} ({plural(row.parameters, 'parameter')})"
            named = join_words(others) if len(others) < 4 else f"{len(others)} other methods"
            parts.append(f"The paired test cannot tell it from {named}; {simplest}.")
        if not row.keeps_top1:
            parts.append("It may change predictions.")
    raised = [id for id, found in against.items() if "accuracy" in found.better and not found.worse]
    if raised:
        best = max(raised, key=lambda id: rows[id].mean("accuracy"))
        before, after = percent(model.mean("accuracy")), percent(rows[best].mean("accuracy"))
        verb = "It also raises" if best == chosen else f"{rows[best].label} raises"
        parts.append(f"{verb} the accuracy from {before} to {after}, beyond noise.")
    worse = [rows[id].label for id, found in against.items() if set(found.worse) & set(PROPER_SCORES)]
    if worse:
        parts.append(f"Left out because their NLL or Brier score is worse than the model's: {join_words(worse)}.")
    return " ".join(parts)
