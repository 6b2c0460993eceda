"""Which calibrator repairs the confidence: methods fitted on validation and evaluated on test, over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from smart_core.calibrators import select
from smart_core.data.lazy.rows import LazyPart
from smart_core.data.logitset import LogitSet
from smart_core.errors import CalibrationError, Cancelled, SmartError
from smart_core.evaluation import FURTHER, HEADLINE, IMPROVED, METRICS, metric_named
from smart_core.experiments.estimate import row_seconds
from smart_core.experiments.method_result import (
    FitCache,
    evaluate_method,
    evaluate_together,
    point_values,
    with_intervals,
)
from smart_core.experiments.method_result import MethodResult as MethodResult
from smart_core.experiments.recommend import AgainstModel, Recommendation, recommend
from smart_core.experiments.results import Result
from smart_core.experiments.running import Settings, check_count, failure
from smart_core.metrics.binning import check_bins
from smart_core.metrics.proper import improvement
from smart_core.metrics.uncertainty import Floor, compare_all
from smart_core.progress import CancelToken, Progress, Run

if TYPE_CHECKING:
    import pandas as pd

PAIRED = HEADLINE
"""Metrics with a paired test; the others rank methods, but never call two tied."""

Standing = Literal["best", "tied", "worse", ""]


@dataclass(eq=False, repr=False)
class Comparison(Result):
    """The leaderboard of one data set."""

    keys = ("method",)
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
    """False if the comparison was cancelled: only finished rows are there."""
    notices: list[str] = field(default_factory=list)
    """Parts of the ranking that are missing, and why."""
    bins: int = 15
    """Bins of the binned metrics."""
    model_losses: dict[str, float] = field(default_factory=dict)
    """NLL and Brier score of the uncalibrated model."""
    model: MethodResult | None = field(default=None, init=False)
    """The row of the uncalibrated model, also if it is not among the methods; not saved."""

    def __repr__(self) -> str:
        return f"Comparison({self.data!r}, {len(self.results)} methods, best by {self.metric}: {self.best})"

    @property
    def available(self) -> dict[str, MethodResult]:
        """The rows that have values."""
        return {id: row for id, row in self.results.items() if row.available}

    @cached_property
    def recommended(self) -> Recommendation | None:
        """The method to deploy, and how each compares with the model; None without a calibrator that was evaluated."""
        try:
            fitted = any(row.evaluations for id, row in self.available.items() if id != "vanilla")
            return recommend(self) if fitted else None
        except SmartError:  # a test that cannot be made must not cost the finished fits
            return None

    def against_model(self, id: str) -> AgainstModel:
        """The scores in which a method is better or worse than the uncalibrated model, beyond noise."""
        return self.recommended.against_model.get(id, AgainstModel()) if self.recommended else AgainstModel()

    def improvement(self, id: str, loss: str) -> float:
        """The share of the model's NLL or Brier score that a method removes (PHI); NaN where either is not known."""
        return improvement(self.results[id].mean(loss), self.model_losses.get(loss, math.nan))

    def standing(self, id: str) -> Standing:
        """A method's place by the primary metric; empty where no paired test was made."""
        if id == self.best:
            return "best"
        tied = self.tied.get(id)
        return "" if tied is None else "tied" if tied else "worse"

    def standing_text(self, id: str) -> str:
        """The standing and, if there are any, the scores in which the method is worse than the model beyond noise."""
        return ", ".join(part for part in (self.standing(id), self.against_model(id).warning) if part)

    def check_any(self) -> None:
        """Raise an error with every reason if no method could be run."""
        if self.complete and not self.available:
            reasons = [f"{row.label}: {(row.reason or '').rstrip('.')}" for row in self.results.values()]
            raise CalibrationError(f"{self.data.name}: no method could be run ({'; '.join(reasons)}).")

    def to_dict(self) -> dict[str, Any]:
        return {
            "data": {
                "name": self.data.name,
                "kind": self.data.kind,
                "classes": self.data.classes or None,
                "validation": len(self.data.validation),
                "test": len(self.data.test),
                "notices": [str(notice) for notice in self.data.notices],
            },
            "floor": _floors(self.floor),
            "best": self.best,
            "primary_metric": self.metric,
            "recommended": self.recommended and {"method": self.recommended.method, "reason": self.recommended.reason},
            "complete": self.complete,
            "notices": self.notices,
            "methods": {id: self._method_dict(result) for id, result in self.results.items()},
        }

    def _method_dict(self, result: MethodResult) -> dict[str, Any]:
        if not result.available:
            return {"available": False, "reason": result.reason}
        return {
            "available": True,
            "label": result.label,
            "parameters": result.parameters,
            "keeps_top1": result.keeps_top1,
            "fit_seconds": result.fit_seconds,
            "seeds": len(result.values["ece"]),
            "tied_with_best": self.tied.get(result.id),
            "worse_than_model": list(self.against_model(result.id).worse),
            "metrics": {metric: result.figures(metric) for metric in HEADLINE},
            "details": {metric: result.mean(metric) for metric in FURTHER if metric in result.values},
            "improvement": {loss: self.improvement(result.id, loss) for loss in IMPROVED},
            "floor": _floors(result.floor),
            "notices": result.notices,
        }

    def records(self) -> list[dict[str, Any]]:
        rows = []
        for id, result in self.results.items():
            row = {"method": id, "label": result.label, "available": result.available, "reason": result.reason}
            if result.available:
                row |= {name: getattr(result, name) for name in ("parameters", "keeps_top1", "fit_seconds")}
                row["tied_with_best"] = self.tied.get(id)
                row["worse_than_model"] = " ".join(self.against_model(id).worse)
                for metric in HEADLINE:
                    named = {"mean": metric, **{end: f"{metric}_{end}" for end in ("std", "low", "high")}}
                    row |= {named[name]: figure for name, figure in result.figures(metric).items()}
                row |= {metric: result.mean(metric) for metric in FURTHER if metric in result.values}
                row |= {f"{loss}_improvement": self.improvement(id, loss) for loss in IMPROVED}
                row |= {f"{metric}_floor_q95": floor.q95 for metric, floor in result.floor.items()}
            rows.append(row)
        return rows

    def to_frame(self) -> pd.DataFrame:
        """One row per method, under its id."""
        return super().to_frame().set_index("method")


def _floors(floors: dict[str, Floor]) -> dict[str, dict[str, float]]:
    return {name: {"mean": floor.mean, "q95": floor.q95} for name, floor in floors.items()}


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
    on_values: Callable[[MethodResult], None] | None = None,
    cache: FitCache | None = None,
    paired_tests: bool = True,
) -> Comparison:
    """Fit the methods on validation and evaluate them on test.

    `settings` gives a method's own settings by its id. `on_values` is called with each row when its point values are
    known, and `on_result` with each finished row once all methods are fitted, in the thread that runs the comparison. A
    method that fails has its reason in its row; the others go on. A cancelled comparison returns the rows it has, with
    `complete=False`; some may lack intervals. Fits that `cache` holds by their `fit_key` are not made again. With
    `paired_tests=False` the rows are only ranked, for a caller that gives them to `summarise` later.

    >>> import smart_core as sc
    >>> result = compare(sc.simulate_set(1000, 1000, 5, seed=0), "vanilla,ts", seeds=1)
    >>> result.best, result.standing("vanilla")
    ('ts', 'worse')
    >>> frame = result.to_frame()
    >>> bool(frame.loc["ts", "ece"] < frame.loc["vanilla", "ece_low"])
    True
    """
    ids = select(methods)
    metric_named(metric)
    check_bins(bins)
    check_count(seeds, "seeds")
    if settings:
        select(list(settings))  # an unknown method's settings would otherwise be ignored
    run = Run(progress, cancel)
    results: dict[str, MethodResult] = {}
    try:
        values, intervals = (list(column) for column in zip(*(row_seconds(id, data, seeds) for id in ids), strict=True))
        (_, fits), (_, rest) = run.each((0, 1), [sum(values), sum(intervals)])
        if isinstance(data.test, LazyPart):
            cache = {} if cache is None else cache
            evaluate_together(data, ids, seeds, cache, bins=bins, settings=settings, device=device, run=fits)
        for id, part in fits.each(ids, values):
            results[id] = point_values(
                id, data, seeds, bins=bins, settings=(settings or {}).get(id), device=device, run=part, cache=cache
            )
            part.tick(1.0, f"{results[id].label} is fitted")
            if on_values is not None:
                on_values(results[id])
        for id, part in rest.each(ids, intervals):
            results[id] = with_intervals(results[id], bins=bins, run=part)
            if on_result is not None:
                on_result(results[id])
        run.tick(1.0, "done")
    except Cancelled:
        comparison = ranked(data, results, metric, bins)
        comparison.complete = False
        comparison.notices.append("Stopped early: methods are missing, and no paired test was made.")
        comparison.floor = results["vanilla"].floor if "vanilla" in results else {}
        return comparison
    if not paired_tests:
        return ranked(data, results, metric, bins)
    return summarise(data, results, metric=metric, bins=bins, cache=cache)


def summarise(
    data: LogitSet,
    results: dict[str, MethodResult],
    *,
    metric: str = "ece",
    bins: int = 15,
    cache: FitCache | None = None,
) -> Comparison:
    """The leaderboard of finished rows, with the uncalibrated model's floors and the methods tied with the best."""
    comparison = ranked(data, results, metric, bins)
    contenders = {id: row for id, row in comparison.available.items() if math.isfinite(row.mean(metric))}
    if not contenders:
        return comparison
    reference = results.get("vanilla") or evaluate_method("vanilla", data, 1, bins=bins, cache=cache)
    comparison.model = reference
    comparison.floor = reference.floor
    comparison.model_losses = {loss: reference.mean(loss) for loss in IMPROVED}
    label = METRICS[metric].label
    if metric not in PAIRED:
        comparison.notices.append(f"There is no paired test for {label}, so no method is called tied.")
        return comparison
    typical = {id: result.typical(metric) for id, result in contenders.items()}
    if metric == "cece" and any(evaluation.cells is None for evaluation in typical.values()):
        comparison.notices.append(f"Too many classes for the paired test of {label}, so no method is called tied.")
        return comparison
    try:
        verdict = compare_all(metric, typical, bins=bins, best=comparison.best)
    except Exception as error:  # a test that fails must not cost the finished fits
        comparison.notices.append(f"No paired test of {label}: {failure(error)}")
        return comparison
    comparison.best, comparison.tied = verdict.best, dict(verdict.tied_with_best)
    return comparison


def ranked(data: LogitSet, results: dict[str, MethodResult], metric: str, bins: int = 15) -> Comparison:
    """The rows and the one of best mean, without floors and without a paired test."""
    keys = {id: METRICS[metric].sort_key(row.mean(metric)) for id, row in results.items() if row.available}
    best = min(keys, key=keys.__getitem__, default=None)
    best = None if best and keys[best] == math.inf else best
    return Comparison(data, results, floor={}, metric=metric, best=best, bins=bins)
