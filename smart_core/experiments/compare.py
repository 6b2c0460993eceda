"""Which calibrator repairs it: every method fitted on validation, judged on test, over seeds, with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from smart_core.calibrators import methods as all_methods
from smart_core.calibrators import select
from smart_core.data.logitset import LogitSet
from smart_core.errors import Cancelled
from smart_core.evaluation import HEADLINE, METRICS, Evaluation, metric_named
from smart_core.experiments.arguments import check_count
from smart_core.experiments.fitting import FitCache, Settings, what_went_wrong
from smart_core.experiments.method_result import MethodResult as MethodResult
from smart_core.experiments.method_result import judge_method as judge_method
from smart_core.experiments.result import Result
from smart_core.metrics.binning import check_bins
from smart_core.metrics.floor import Floor
from smart_core.metrics.paired import compare_all
from smart_core.progress import CancelToken, Progress, Run

if TYPE_CHECKING:
    import pandas as pd

PAIRED = HEADLINE
"""Metrics with a paired test; by the others methods are ranked, but none is called tied."""


@dataclass(eq=False, repr=False)
class Comparison(Result):
    """The leaderboard of one data set."""

    data: LogitSet
    results: dict[str, MethodResult]
    floor: dict[str, Floor]
    """Noise floors of the uncalibrated model's own confidences."""
    metric: str = "ece"
    tied: dict[str, bool] = field(default_factory=dict)
    """Method -> whether the paired test cannot tell it from the best by the primary metric; empty without a test."""
    best: str | None = None
    """The method of best mean by the primary metric; with a paired test, of the best typical seed."""
    complete: bool = True
    """False if it was cancelled on the way: only finished rows are there."""
    notices: list[str] = field(default_factory=list)
    """What is missing from the verdict, and why."""

    def __repr__(self) -> str:
        return f"Comparison({self.data!r}, {len(self.results)} methods, best by {self.metric}: {self.best})"

    def to_dict(self) -> dict[str, Any]:
        return {
            "data": describe_data(self.data),
            "floor": {name: floor_dict(floor) for name, floor in self.floor.items()},
            "best": self.best,
            "primary_metric": self.metric,
            "complete": self.complete,
            "notices": self.notices,
            "methods": {id: self._method_dict(result) for id, result in self.results.items()},
        }

    def _method_dict(self, result: MethodResult) -> dict[str, Any]:
        if not result.available:
            return {"available": False, "reason": result.reason}
        return {
            "available": True,
            "label": all_methods()[result.id].label,
            "parameters": result.parameters,
            "keeps_top1": result.keeps_top1,
            "fit_seconds": result.fit_seconds,
            "seeds": len(result.values["ece"]),
            "tied_with_best": self.tied.get(result.id),
            "metrics": {metric: _figures(result, metric) for metric in HEADLINE},
            "floor": {name: floor_dict(floor) for name, floor in result.floor.items()},
            "notices": result.notices,
        }

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        rows = []
        for id, result in self.results.items():
            row: dict[str, Any] = {
                "method": id,
                "label": all_methods()[id].label,
                "available": result.available,
            }
            row["reason"] = result.reason
            if result.available:
                row |= {
                    "parameters": result.parameters,
                    "keeps_top1": result.keeps_top1,
                    "fit_seconds": result.fit_seconds,
                    "tied_with_best": self.tied.get(id),
                }
                for metric in HEADLINE:
                    figures = _figures(result, metric)
                    row[metric] = figures.pop("mean")
                    row |= {f"{metric}_{name}": figure for name, figure in figures.items()}
                for metric, floor in result.floor.items():
                    row[f"{metric}_floor_q95"] = floor.q95
            rows.append(row)
        return pd.DataFrame(rows, columns=None if rows else ["method"]).set_index("method")


def _figures(result: MethodResult, metric: str) -> dict[str, float]:
    """Mean and spread over seeds, and the interval's ends: NaN where it could not be computed."""
    ends = result.intervals.get(metric)
    low, high = (math.nan, math.nan) if ends is None else (ends.low, ends.high)
    return {"mean": result.mean(metric), "std": result.std(metric), "low": low, "high": high}


def compare(
    data: LogitSet,
    methods: str | Sequence[str] = "all",
    seeds: int = 5,
    *,
    bins: int = 15,
    metric: str = "ece",
    settings: dict[str, Settings] | None = None,
    device: str = "auto",
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
    on_result: Callable[[MethodResult], None] | None = None,
    cache: FitCache | None = None,
) -> Comparison:
    """Fit the methods on validation and judge them on test.

    `settings` gives a method's own settings by its id. `on_result` sees each row when it is finished, in the thread
    that runs the comparison. A method that fails explains itself in its row; the others go on. A cancelled
    comparison returns the rows it has, with `complete=False`. `cache` remembers fits by `fit_key`: what it holds is
    not fitted again.
    """
    ids = select(methods)
    metric_named(metric)
    check_bins(bins)
    check_count(seeds, "seeds")
    if settings:
        select(list(settings))  # those of a method that does not exist would otherwise be ignored
    run = Run(progress, cancel)
    results: dict[str, MethodResult] = {}
    try:
        for number, id in enumerate(ids):
            part = run.part(number / len(ids), (number + 1) / len(ids))
            results[id] = judge_method(
                id, data, seeds, bins=bins, settings=(settings or {}).get(id), device=device, run=part, cache=cache
            )
            if on_result is not None:
                on_result(results[id])
        run.tick(1.0, "done")
    except Cancelled:
        return stopped(data, results, metric=metric)
    return summarise(data, results, metric=metric, bins=bins)


def summarise(data: LogitSet, results: dict[str, MethodResult], *, metric: str = "ece", bins: int = 15) -> Comparison:
    """A leaderboard from finished rows: the floor of the model itself, and who is tied with the best."""
    comparison = ranked(data, results, metric)
    contenders = {id: result for id, result in results.items() if has(result, metric)}
    if not contenders:
        return comparison
    reference = results.get("vanilla") or judge_method("vanilla", data, 1, bins=bins)
    comparison.floor = reference.floor
    label = METRICS[metric].label
    if metric not in PAIRED:
        comparison.notices.append(f"There is no paired test for {label}, so no method is called tied.")
        return comparison
    typical = {id: typical_evaluation(result, metric) for id, result in contenders.items()}
    if metric == "cece" and any(evaluation.cells is None for evaluation in typical.values()):
        comparison.notices.append(f"Too many classes for the paired test of {label}, so no method is called tied.")
        return comparison
    try:
        verdict = compare_all(metric, typical, bins=bins)
    except Exception as error:  # hours of fits must not be lost to a test that fails
        comparison.notices.append(f"No paired test of {label}: {what_went_wrong(error)}")
        return comparison
    comparison.best, comparison.tied = verdict.best, dict(verdict.tied_with_best)
    return comparison


def stopped(data: LogitSet, results: dict[str, MethodResult], *, metric: str = "ece") -> Comparison:
    """A leaderboard of the rows that were finished when the comparison was cancelled; no test is run any more."""
    comparison = ranked(data, results, metric)
    comparison.complete = False
    comparison.notices.append("Stopped early: methods are missing, and no paired test was made.")
    if "vanilla" in results:
        comparison.floor = results["vanilla"].floor
    return comparison


def ranked(data: LogitSet, results: dict[str, MethodResult], metric: str) -> Comparison:
    """The rows with the one of best mean, without floors and without a test."""
    sign = -1.0 if METRICS[metric].higher_is_better else 1.0
    means = {id: sign * result.mean(metric) for id, result in results.items() if has(result, metric)}
    return Comparison(data, results, floor={}, metric=metric, best=min(means, key=means.__getitem__, default=None))


def has(result: MethodResult, metric: str) -> bool:
    """Whether a row can be ranked by a metric."""
    return result.available and math.isfinite(result.mean(metric))


def typical_evaluation(result: MethodResult, metric: str) -> Evaluation:
    """The seed that stands for its method: the one closest to the mean (for cwECE, the one whose sums were kept)."""
    if metric == "cece":
        return result.evaluations[0]
    distance = np.abs(np.asarray(result.values[metric]) - result.mean(metric))
    return result.evaluations[int(np.argmin(distance))]


def describe_data(data: LogitSet) -> dict[str, Any]:
    """The data card of the JSON."""
    return {
        "name": data.name,
        "classes": data.classes,
        "validation": len(data.validation),
        "test": len(data.test),
        "notices": [str(notice) for notice in data.notices],
    }


def floor_dict(floor: Floor) -> dict[str, float]:
    """A floor in the JSON."""
    return {"mean": floor.mean, "q95": floor.q95}
