"""One row of the leaderboard: a method fitted over seeds, with its metrics, intervals and noise floors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np

from smart_core.calibrators import methods as all_methods
from smart_core.calibrators.base import Calibrator
from smart_core.data.logitset import LogitSet
from smart_core.errors import Cancelled
from smart_core.evaluation import HEADLINE, METRICS, Evaluation
from smart_core.experiments.fitting import (
    Fit,
    FitCache,
    Settings,
    fit_key,
    fit_method,
    judge,
    seeds_for,
    unavailable,
    what_went_wrong,
)
from smart_core.metrics.floor import Floor, noise_floor
from smart_core.metrics.intervals import Interval, interval
from smart_core.progress import Run

CELLS_KEPT_UP_TO = 2000
"""Classes up to which a row keeps the classwise sums of its first seed: 8 kB a class."""

WITH_A_FLOOR = ("ece", "adaece", "cece", "smce", "smece")
"""The metrics that noise alone lifts above zero."""

FITTED, JUDGED = 0.8, 0.9
"""How much of a seed's progress is behind it once it is fitted, and once it is judged."""

T = TypeVar("T")


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
    """What the fit had to say, and which interval, floor or seed is missing and why."""
    calibrators: list[Calibrator] = field(default_factory=list)
    """The fitted calibrators, one a seed."""
    evaluations: list[Evaluation] = field(default_factory=list)
    """Their evaluations on test; only the first keeps its classwise sums."""

    def mean(self, metric: str) -> float:
        """Mean over seeds."""
        return float(np.mean(self.values[metric]))

    def std(self, metric: str) -> float:
        """Sample standard deviation over seeds; exactly 0 where they agree."""
        values = self.values[metric]
        return float(np.std(values, ddof=1)) if len(set(values)) > 1 else 0.0


def judge_method(
    id: str,
    data: LogitSet,
    seeds: int = 5,
    *,
    bins: int = 15,
    settings: Settings | None = None,
    device: str = "auto",
    run: Run | None = None,
    cache: FitCache | None = None,
) -> MethodResult:
    """One row: fits over seeds, metrics, intervals and floors.

    `cache` is asked for each seed's fit and given each new one as soon as it is judged, so that a row that was
    cancelled, or is asked for again, fits only what is new. A seed that fails is left out and said in `notices`;
    the row is unavailable only if every seed fails.
    """
    line = run or Run()
    reason = unavailable(id, data)
    if reason is not None:
        return MethodResult(id, available=False, reason=reason)
    wanted = seeds_for(id, seeds)
    row = MethodResult(id, available=True)
    seconds: list[float] = []
    found: dict[str, list[Interval]] = {name: [] for name in HEADLINE}
    failures: list[str] = []
    for number, seed in enumerate(wanted):
        span = line.part(number / len(wanted), (number + 1) / len(wanted))
        try:
            fit, evaluation = _one_seed(id, data, seed, bins, settings, device, span, cache)
        except Cancelled:
            raise
        except Exception as error:
            failures.append(f"Seed {seed}: {what_went_wrong(error)}")
            continue
        seconds.append(fit.seconds)
        row.calibrators.append(fit.calibrator)
        row.evaluations.append(bounded(evaluation, seed))
        measure(row, evaluation, found, bins, span)
    if not row.calibrators:
        return MethodResult(id, available=False, reason=failures[0].partition(": ")[2])
    first = row.calibrators[0]
    row.parameters, row.keeps_top1 = first.parameters, first.keeps_top1
    row.fit_seconds = float(np.mean(seconds))
    row.intervals = {name: interval_over_seeds(each) for name, each in found.items() if each}
    row.notices = list(dict.fromkeys([*first.notices_, *failures, *row.notices]))
    return row


def _one_seed(
    id: str,
    data: LogitSet,
    seed: int,
    bins: int,
    settings: Settings | None,
    device: str,
    run: Run,
    cache: FitCache | None,
) -> tuple[Fit, Evaluation]:
    """A fit and its evaluation on test, from the cache as far as it has them.

    A remembered evaluation whose classwise sums were dropped to save memory, or have other bins, is made anew; its
    fit is not.
    """
    if cache is None:
        fit = fit_method(id, data, seed=seed, settings=settings, device=device, run=run.part(0.0, FITTED))
        return fit, _judged(fit, data, seed, bins, run)
    key = fit_key(data, id, {"device": device, **(settings or {})}, seed)
    known = cache.get(key)
    if known is None:
        fit, evaluation = _one_seed(id, data, seed, bins, settings, device, run, None)
    else:
        fit, evaluation = Fit(*known[:2]), known[2]
        if evaluation.cells is not None and evaluation.cells.bins == bins:
            return fit, evaluation
        evaluation = _judged(fit, data, seed, bins, run)
    cache[key] = (fit.calibrator, fit.seconds, bounded(evaluation, seed))
    return fit, evaluation


def _judged(fit: Fit, data: LogitSet, seed: int, bins: int, run: Run) -> Evaluation:
    run.tick(FITTED, f"{fit.calibrator.label}: judging seed {seed}")
    return judge(fit, data.test, bins, Run(cancel=run.cancel))


def bounded(evaluation: Evaluation, seed: int) -> Evaluation:
    """What is kept of an evaluation: its classwise sums only for the first seed, and only up to so many classes."""
    keeps = seed == 0 and evaluation.cells is not None and evaluation.cells.classes <= CELLS_KEPT_UP_TO
    return evaluation if keeps else evaluation.without_cells()


def measure(
    row: MethodResult, evaluation: Evaluation, intervals: dict[str, list[Interval]], bins: int, run: Run
) -> None:
    """Add one seed's values and intervals to a row, and the floors of the first; what fails is said in its notices."""
    for name, metric in METRICS.items():
        value = _or_notice(partial(metric.value, evaluation, bins), f"No {metric.label}", row.notices)
        row.values.setdefault(name, []).append(math.nan if value is None else value)
    floors = {
        name: _or_notice(
            partial(evaluation_floor, name, evaluation, bins), f"No floor of {METRICS[name].label}", row.notices
        )
        for name in WITH_A_FLOOR
    }
    row.floor = row.floor or {name: floor for name, floor in floors.items() if floor is not None}
    method = all_methods()[row.id].label
    for number, name in enumerate(HEADLINE):
        label = METRICS[name].label
        run.tick(JUDGED + (1.0 - JUDGED) * number / len(HEADLINE), f"{method}: interval of {label}")
        compute = partial(evaluation_interval, name, evaluation, bins, floors.get(name))
        ends = _or_notice(compute, f"No interval of {label}", row.notices)
        if ends is not None:
            intervals[name].append(ends)


def _or_notice(compute: Callable[[], T], missing: str, notices: list[str]) -> T | None:
    """The figure, or None and a notice: one that cannot be computed must not cost the others."""
    try:
        return compute()
    except Cancelled:
        raise
    except Exception as error:
        notices.append(f"{missing}: {what_went_wrong(error)}")
        return None


def evaluation_interval(metric: str, evaluation: Evaluation, bins: int = 15, floor: Floor | None = None) -> Interval:
    """The 95 % interval of a metric's population value, from one evaluation and, if it is known, its noise floor."""
    return interval(
        metric,
        evaluation.confidence,
        evaluation.correct,
        nll=evaluation.nll,
        brier=evaluation.brier,
        cells=evaluation.cells,
        floor=floor,
        bins=bins,
    )


def evaluation_floor(metric: str, evaluation: Evaluation, bins: int = 15) -> Floor:
    """The noise floor of a metric of `WITH_A_FLOOR`."""
    return noise_floor(metric, evaluation.confidence, cells=evaluation.cells, bins=bins)


def evaluation_floors(evaluation: Evaluation, bins: int = 15) -> dict[str, Floor]:
    """Noise floors of the metrics that have one."""
    return {name: evaluation_floor(name, evaluation, bins) for name in WITH_A_FLOOR}


def interval_over_seeds(intervals: Sequence[Interval]) -> Interval:
    """Ends averaged over seeds: the typical interval of one fit."""
    first = intervals[0]
    low = float(np.mean([item.low for item in intervals]))
    high = float(np.mean([item.high for item in intervals]))
    return Interval(low, high, first.level, first.of)
