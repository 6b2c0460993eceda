"""Which calibrator repairs it: every method fitted on validation, judged on test, over seeds, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from smart_core.calibrators import methods as all_methods
from smart_core.calibrators import select
from smart_core.calibrators.base import Calibrator
from smart_core.data.logitset import LogitSet
from smart_core.errors import CalibrationError, Cancelled, SmartError
from smart_core.evaluation import HEADLINE, METRICS, Evaluation, metric_named
from smart_core.experiments.fitting import Settings, fit_method, judge, seeds_for, unavailable
from smart_core.experiments.result import Result
from smart_core.metrics.floor import Floor, noise_floor
from smart_core.metrics.intervals import Interval, interval
from smart_core.metrics.paired import compare_all
from smart_core.run import CancelToken, Progress, Run

if TYPE_CHECKING:
    import pandas as pd

CELLS_KEPT_UP_TO = 2000
"""Classes up to which a row keeps the classwise sums of its first seed: 8 kB a class."""


@dataclass(eq=False)
class MethodResult:
    """One row of the leaderboard."""

    id: str
    available: bool
    reason: str | None = None
    """Why there is no result: arrays it lacks, or what went wrong."""
    parameters: int = 0
    keeps_top1: bool = True
    fit_seconds: float = 0.0
    """Mean over seeds."""
    values: dict[str, list[float]] = field(default_factory=dict)
    """Metric -> its value for each seed."""
    intervals: dict[str, Interval] = field(default_factory=dict)
    """Metric -> 95 % interval of the population value over test samples; ends averaged over seeds."""
    floor: dict[str, Floor] = field(default_factory=dict)
    """Binned metric -> what a perfectly calibrated model with these confidences would show."""
    notices: list[str] = field(default_factory=list)
    calibrators: list[Calibrator] = field(default_factory=list)
    """The fitted calibrators, one a seed."""
    evaluations: list[Evaluation] = field(default_factory=list)
    """Their evaluations on test."""

    def mean(self, metric: str) -> float:
        """Mean over seeds."""
        return float(np.mean(self.values[metric]))

    def std(self, metric: str) -> float:
        """Sample standard deviation over seeds; exactly 0 where they agree."""
        values = self.values[metric]
        return float(np.std(values, ddof=1)) if len(set(values)) > 1 else 0.0


@dataclass(eq=False, repr=False)
class Comparison(Result):
    """The leaderboard of one data set."""

    data: LogitSet
    results: dict[str, MethodResult]
    floor: dict[str, Floor]
    """Noise floors of the uncalibrated model's own confidences."""
    metric: str = "ece"
    tied: dict[str, bool] = field(default_factory=dict)
    """Method -> whether the paired bootstrap cannot tell it from the best by the primary metric."""
    best: str | None = None

    def __repr__(self) -> str:
        return f"Comparison({self.data!r}, {len(self.results)} methods, best by {self.metric}: {self.best})"

    def to_dict(self) -> dict[str, Any]:
        return {
            "data": describe_data(self.data),
            "floor": {name: floor_dict(floor) for name, floor in self.floor.items()},
            "best": self.best,
            "primary_metric": self.metric,
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
            "metrics": {
                metric: {
                    "mean": result.mean(metric),
                    "std": result.std(metric),
                    "low": result.intervals[metric].low,
                    "high": result.intervals[metric].high,
                }
                for metric in result.intervals
            },
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
                for metric in result.intervals:
                    row[metric] = result.mean(metric)
                    row[f"{metric}_std"] = result.std(metric)
                    row[f"{metric}_low"] = result.intervals[metric].low
                    row[f"{metric}_high"] = result.intervals[metric].high
                for metric, floor in result.floor.items():
                    row[f"{metric}_floor_q95"] = floor.q95
            rows.append(row)
        return pd.DataFrame(rows).set_index("method")


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
) -> Comparison:
    """Fit the methods on validation and judge them on test.

    `settings` gives a method's own settings by its id. `on_result` sees each row as soon as it is finished. A
    method that fails explains itself in its row; the others go on.
    """
    ids = select(list(methods) if not isinstance(methods, str) else methods)
    metric_named(metric)
    if seeds < 1:
        raise CalibrationError(f"seeds={seeds} must be at least 1.")
    run = Run(progress, cancel)
    results: dict[str, MethodResult] = {}
    for number, id in enumerate(ids):
        part = run.part(number / len(ids), (number + 1) / len(ids))
        results[id] = judge_method(
            id, data, seeds, bins=bins, settings=(settings or {}).get(id), device=device, run=part
        )
        if on_result is not None:
            on_result(results[id])
    run.tick(1.0, "done")
    return summarise(data, results, metric=metric, bins=bins)


def judge_method(
    id: str,
    data: LogitSet,
    seeds: int = 5,
    *,
    bins: int = 15,
    settings: Settings | None = None,
    device: str = "auto",
    run: Run | None = None,
) -> MethodResult:
    """One row: fits over seeds, metrics, intervals and floors."""
    line = run or Run()
    reason = unavailable(id, data)
    if reason is not None:
        return MethodResult(id, available=False, reason=reason)
    label = all_methods()[id].label
    wanted = seeds_for(id, seeds)
    result = MethodResult(id, available=True)
    seconds = []
    try:
        for number, seed in enumerate(wanted):
            span = line.part(number / len(wanted), (number + 0.8) / len(wanted))
            fit = fit_method(id, data, seed=seed, settings=settings, device=device, run=span)
            line.tick((number + 0.9) / len(wanted), f"{label}: judging seed {seed}")
            seconds.append(fit.seconds)
            result.calibrators.append(fit.calibrator)
            result.evaluations.append(judge(fit, data.test, bins, Run(cancel=line.cancel)))
        first = result.calibrators[0]
        result.parameters, result.keeps_top1, result.notices = (
            first.parameters,
            first.keeps_top1,
            list(first.notices_),
        )
        result.fit_seconds = float(np.mean(seconds))
        measure(result, bins, line)
    except Cancelled:
        raise
    except SmartError as error:
        return MethodResult(id, available=False, reason=str(error))
    except Exception as error:
        return MethodResult(id, available=False, reason=f"failed: {type(error).__name__}: {error}")
    return result


def measure(result: MethodResult, bins: int, run: Run) -> None:
    """Fill in a row's values, intervals and floors from its evaluations."""
    for name in METRICS:
        result.values[name] = [METRICS[name].value(evaluation, bins) for evaluation in result.evaluations]
    label = all_methods()[result.id].label
    for name in HEADLINE:
        run.tick(1.0, f"{label}: interval of {METRICS[name].label}")
        result.intervals[name] = mean_interval(
            [evaluation_interval(name, evaluation, bins) for evaluation in result.evaluations]
        )
    result.floor = evaluation_floors(result.evaluations[0], bins)
    result.evaluations = [
        evaluation if number == 0 and keeps_cells(evaluation) else evaluation.without_cells()
        for number, evaluation in enumerate(result.evaluations)
    ]


def keeps_cells(evaluation: Evaluation) -> bool:
    """Whether the classwise sums are small enough to be kept with a row once its figures are computed."""
    return evaluation.cells is not None and evaluation.cells.classes <= CELLS_KEPT_UP_TO


def evaluation_interval(metric: str, evaluation: Evaluation, bins: int = 15) -> Interval:
    """The 95 % interval of a metric's population value, from one evaluation."""
    return interval(
        metric,
        evaluation.confidence,
        evaluation.correct,
        nll=evaluation.nll,
        brier=evaluation.brier,
        cells=evaluation.cells,
        bins=bins,
    )


def evaluation_floors(evaluation: Evaluation, bins: int = 15) -> dict[str, Floor]:
    """Noise floors of the metrics that have one."""
    names = ("ece", "adaece", "cece", "smce", "smece")
    return {name: noise_floor(name, evaluation.confidence, cells=evaluation.cells, bins=bins) for name in names}


def mean_interval(intervals: Sequence[Interval]) -> Interval:
    """Ends averaged over seeds: the typical interval of one fit."""
    first = intervals[0]
    low = float(np.mean([item.low for item in intervals]))
    high = float(np.mean([item.high for item in intervals]))
    return Interval(low, high, first.level, first.of)


def summarise(data: LogitSet, results: dict[str, MethodResult], *, metric: str = "ece", bins: int = 15) -> Comparison:
    """A leaderboard from finished rows: the floor of the model itself, and who is tied with the best."""
    finished = {id: result for id, result in results.items() if result.available}
    comparison = Comparison(data, results, floor={}, metric=metric)
    if not finished:
        return comparison
    reference = finished.get("vanilla") or judge_method("vanilla", data, 1, bins=bins)
    comparison.floor = reference.floor
    typical = {id: typical_evaluation(result, metric) for id, result in finished.items()}
    if metric == "cece" and any(evaluation.cells is None for evaluation in typical.values()):
        comparison.best = min(finished, key=lambda id: finished[id].mean(metric))
        return comparison  # too many classes to have kept what the paired test of cwECE needs
    verdict = compare_all(metric, typical, bins=bins)
    comparison.best, comparison.tied = verdict.best, dict(verdict.tied_with_best)
    return comparison


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
