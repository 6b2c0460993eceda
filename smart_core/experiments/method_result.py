"""One row of the leaderboard: a method fitted over seeds, with its metrics, intervals and noise floors."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from smart_core import __version__
from smart_core.calibrators import get, method_named
from smart_core.calibrators.base import Calibrator
from smart_core.data.lazy.rows import LazyPart
from smart_core.data.logitset import LogitSet
from smart_core.evaluation import CALIBRATION_ERRORS, DETAILS, HEADLINE, METRICS, Evaluation
from smart_core.experiments.results import OverSeeds, json_value
from smart_core.experiments.running import Fit, Settings, failure, fit_method, seeds_for, unavailable
from smart_core.experiments.streaming import CLASSWISE_UP_TO, evaluate_all, evaluate_one
from smart_core.metrics.classwise import ClasswiseCells
from smart_core.metrics.summed import SummedEvaluation
from smart_core.metrics.uncertainty import Floor, Interval, interval, noise_floor
from smart_core.progress import Run, attempt

CELLS_KEPT_UP_TO = 2000
"""Classes up to which a row keeps the classwise sums of its first seed: 8 kB per class."""

FIT_PROGRESS_SHARE = 0.9
"""Share of a seed's progress that its fit takes; its evaluation takes the rest."""

CLASSWISE = "cece"
"""The metric of the classwise sums."""

FitCache = MutableMapping[str, tuple[Calibrator, float, Evaluation]]
"""Fits by `fit_key`: the calibrator, the seconds its fit took, and its evaluation on test."""

T = TypeVar("T")


def fit_key(data: LogitSet, method: str, settings: Settings | None = None, seed: int = 0) -> str:
    """The key of a fit and its evaluation in a cache: SHA-256 of everything that the fit depends on.

    That is the content of the data, the method, all of its settings with defaults filled in (so that a setting given as
    its default changes nothing), the seed and the version of this package. The bins of the evaluation are not part of
    it: they matter to its classwise sums only, which carry their own number of bins.
    """
    calibrator = get(method, **{"seed": seed, **(settings or {})})
    parts = [data.content_hash, method, json_value(calibrator.settings_dict()), int(seed), __version__]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def changed_settings(calibrator: Calibrator) -> Settings:
    """The settings that are not at their defaults, but the seed and the device."""
    defaults = {item.name: item.default for item in calibrator.settings() if item.name not in ("seed", "device")}
    given = calibrator.settings_dict()
    return {name: json_value(given[name]) for name, default in defaults.items() if given[name] != default}


@dataclass(eq=False)
class MethodResult:
    """One row of the leaderboard."""

    id: str
    available: bool
    reason: str | None = None
    """Why there is no result: arrays that are missing, or what went wrong."""
    parameters: int = 0
    keeps_top1: bool = True
    fit_seconds: float = 0.0
    """Mean over seeds."""
    values: dict[str, list[float]] = field(default_factory=dict)
    """Metric -> its value for each seed."""
    intervals: dict[str, Interval] = field(default_factory=dict)
    """Metric -> 95% interval of the population value over test samples; ends averaged over seeds."""
    floor: dict[str, Floor] = field(default_factory=dict)
    """Binned metric -> what a perfectly calibrated model with these confidences would show."""
    notices: list[str] = field(default_factory=list)
    """Notices of the fit, and which interval, floor or seed is missing and why."""
    calibrators: list[Calibrator] = field(default_factory=list)
    """The fitted calibrators, one per seed."""
    evaluations: list[Evaluation] = field(default_factory=list)
    """Their evaluations on test; only the first keeps its classwise sums."""

    @property
    def label(self) -> str:
        return method_named(self.id).label

    def matches(self, data: LogitSet) -> bool:
        """Return whether the row can be about a data set: the numbers of classes and of samples are the same."""
        return all(fit.classes_ == data.classes for fit in self.calibrators) and all(
            len(evaluation) == len(data.test) for evaluation in self.evaluations
        )

    def mean(self, metric: str) -> float:
        """Mean over seeds."""
        return float(OverSeeds.of(self.values[metric]).mean)

    def std(self, metric: str) -> float:
        """Sample standard deviation over seeds: NaN below two, exactly 0 where they agree."""
        return float(OverSeeds.of(self.values[metric]).std)

    def ends(self, metric: str) -> tuple[float, float]:
        """Both ends of the interval; NaN where it could not be computed."""
        known = self.intervals.get(metric)
        return (math.nan, math.nan) if known is None else (known.low, known.high)

    def floor_q95(self, metric: str) -> float:
        """The 95% quantile of the noise floor; NaN for a metric without one."""
        return self.floor[metric].q95 if metric in self.floor else math.nan

    def figures(self, metric: str) -> dict[str, float]:
        """Mean and spread over seeds and the interval's ends, as JSON and tables give them."""
        over_seeds = OverSeeds.of(self.values[metric])
        low, high = self.ends(metric)
        return {"mean": float(over_seeds.mean), "std": float(over_seeds.published_std), "low": low, "high": high}

    def typical(self, metric: str) -> Evaluation:
        """The evaluation closest to the mean over seeds (for cwECE, the one whose sums were kept)."""
        if metric == "cece":
            return self.evaluations[0]
        return self.evaluations[int(np.nanargmin(np.abs(np.asarray(self.values[metric]) - self.mean(metric))))]


def evaluate_method(id: str, data: LogitSet, seeds: int = 5, *, bins: int = 15, **options: Any) -> MethodResult:
    """One row: `point_values` with these options, then `with_intervals`."""
    return with_intervals(point_values(id, data, seeds, bins=bins, **options), bins=bins)


def point_values(
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
    """One row without intervals and floors, apart from those that need classwise sums: fits over seeds and metrics.

    Each seed's fit is taken from `cache` where it has one, and stored there as soon as it is evaluated, so that a row
    that was cancelled, or is asked for again, fits only what is new. A seed that fails is left out, with a notice; the
    row is unavailable only if every seed fails.
    """
    run = run or Run()
    reason = unavailable(id, data)
    if reason is not None:
        return MethodResult(id, available=False, reason=reason)
    row = MethodResult(id, available=True)
    seconds: list[float] = []
    intervals: dict[str, list[Interval]] = {CLASSWISE: []}
    failures: list[str] = []
    for seed, span in run.each(seeds_for(id, seeds)):
        found = attempt(partial(_one_seed, id, data, seed, bins, settings, device, span, cache))
        if isinstance(found, Exception):
            failures.append(f"Seed {seed}: {failure(found)}")
            continue
        fit, evaluation = found
        seconds.append(fit.seconds)
        row.calibrators.append(fit.calibrator)
        row.evaluations.append(trimmed_for_cache(evaluation, seed))
        for name, metric in {**METRICS, **DETAILS}.items():
            value = _or_notice(partial(evaluation.metric, name, bins), f"No {metric.label}", row.notices)
            row.values.setdefault(name, []).append(math.nan if value is None else value)
        # now, because only the first seed's classwise sums are kept
        _measure(row, evaluation, intervals, bins, span.part(FIT_PROGRESS_SHARE, 1.0))
    if not row.calibrators:
        return MethodResult(id, available=False, reason=failures[0].partition(": ")[2])
    first = row.calibrators[0]
    row.parameters, row.keeps_top1 = first.parameters, first.keeps_top1
    row.fit_seconds = float(np.mean(seconds))
    row.intervals = {name: _over_seeds(each) for name, each in intervals.items() if each}
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

    A cached evaluation whose classwise sums were dropped to save memory, or have other bins, is computed again; its fit
    is not.
    """
    key = fit_key(data, id, {"device": device, **(settings or {})}, seed) if cache is not None else ""
    known = cache.get(key) if cache is not None else None
    if known is not None and (known[0].id, known[0].classes_, len(known[2])) != (id, data.classes, len(data.test)):
        known = None  # the workspace of somebody else may hold any fit under any key
    if known is None:
        fit = fit_method(id, data, seed=seed, settings=settings, device=device, run=run.part(0.0, FIT_PROGRESS_SHARE))
    else:
        fit, evaluation = Fit(*known[:2]), known[2]
        if _is_complete_for(evaluation, data, bins):
            return fit, evaluation
    run.tick(FIT_PROGRESS_SHARE, f"{fit.calibrator.label}: evaluating seed {seed}")
    evaluation = evaluate_one(fit.calibrator, data.test, bins=bins, run=Run(cancel=run.cancel))
    if cache is not None:
        cache[key] = (fit.calibrator, fit.seconds, trimmed_for_cache(evaluation, seed))
    return fit, evaluation


def _is_complete_for(evaluation: Evaluation, data: LogitSet, bins: int) -> bool:
    """Whether nothing was dropped of a cached evaluation that its row needs."""
    if isinstance(evaluation, SummedEvaluation) and evaluation.bins != bins:
        return False
    if data.kind != "logits" or (isinstance(data.test, LazyPart) and data.classes > CLASSWISE_UP_TO):
        return True
    return evaluation.cells is not None and evaluation.cells.bins == bins


def evaluate_together(
    data: LogitSet,
    ids: Sequence[str],
    seeds: int,
    cache: FitCache,
    *,
    bins: int = 15,
    settings: Mapping[str, Settings] | None = None,
    device: str = "auto",
    run: Run | None = None,
) -> None:
    """Fill the cache with the fits of many methods, evaluated in one pass over a lazy test part.

    What fails is left out: `point_values` hits the same error and records it as the row's reason. The uncalibrated
    model is always among the methods, because every comparison needs it.
    """
    run = run or Run()
    fits, keys = [], []
    _ = data.validation.for_fit  # a shard that cannot be read is an error of the set, not of a method
    for id, span in run.part(0.0, 0.5).each(list(dict.fromkeys(["vanilla", *ids]))):
        if unavailable(id, data) is not None:
            continue
        own = {"device": device, **(settings or {}).get(id, {})}
        for seed, part in span.each(seeds_for(id, seeds)):
            key = fit_key(data, id, own, seed)
            if key in cache and _is_complete_for(cache[key][2], data, bins):
                continue
            fit = attempt(partial(fit_method, id, data, seed=seed, settings=own, device=device, run=part))
            if isinstance(fit, Fit):
                fits.append(fit)
                keys.append(key)
    found = evaluate_all([fit.calibrator for fit in fits], data.test, bins=bins, run=run.part(0.5, 1.0))
    for key, fit, evaluation in zip(keys, fits, found, strict=True):
        if not isinstance(evaluation, Exception):
            cache[key] = fit.calibrator, fit.seconds, evaluation


def trimmed_for_cache(evaluation: Evaluation, seed: int) -> Evaluation:
    """What is kept of an evaluation: classwise sums only for the first seed, and up to `CELLS_KEPT_UP_TO` classes.

    Those of a lazy part, which have no groups for intervals, are not kept.
    """
    cells = evaluation.cells
    keeps = seed == 0 and isinstance(cells, ClasswiseCells) and cells.classes <= CELLS_KEPT_UP_TO
    return evaluation if keeps else evaluation.without_cells()


def with_intervals(row: MethodResult, *, bins: int = 15, run: Run | None = None) -> MethodResult:
    """The row with every interval and noise floor."""
    if not row.available:
        return row
    new = replace(row, floor=dict(row.floor), notices=list(row.notices))
    intervals: dict[str, list[Interval]] = {name: [] for name in HEADLINE if name != CLASSWISE}
    for number, (evaluation, span) in enumerate((run or Run()).each(row.evaluations)):
        known = {name: values[number] for name, values in row.values.items() if len(values) == len(row.evaluations)}
        _measure(new, evaluation, intervals, bins, span, known)
    new.intervals = row.intervals | {name: _over_seeds(each) for name, each in intervals.items() if each}
    new.notices = list(dict.fromkeys(new.notices))
    return new


def _measure(
    row: MethodResult,
    evaluation: Evaluation,
    intervals: dict[str, list[Interval]],
    bins: int,
    run: Run,
    known: Mapping[str, float] | None = None,
) -> None:
    """Add one seed's intervals to the lists, and the first seed's floors to the row; a failure is a notice.

    `known` are values of metrics of this evaluation.
    """
    for number, name in enumerate(intervals):
        if not METRICS[name].known(evaluation):
            continue
        if name == CLASSWISE and not isinstance(evaluation.cells, ClasswiseCells):
            row.notices.append("No interval of cwECE: it needs sums over groups of samples, which shards do not give.")
            continue
        label, floor = METRICS[name].label, None
        run.tick(number / len(intervals), f"{row.label}: interval of {label}")
        if name in CALIBRATION_ERRORS:
            if isinstance(evaluation, SummedEvaluation):
                compute = partial(evaluation.floor, name)
            else:
                compute = partial(noise_floor, name, evaluation, bins=bins)
            floor = _or_notice(compute, f"No floor of {label}", row.notices)
            if floor is not None:
                row.floor.setdefault(name, floor)
        if isinstance(evaluation, SummedEvaluation):
            measure = partial(evaluation.interval, name, floor=floor)
        else:
            value = (known or {}).get(name, math.nan)
            own = None if math.isnan(value) else value
            measure = partial(interval, name, evaluation, bins=bins, floor=floor, value=own)
        ends = _or_notice(measure, f"No interval of {label}", row.notices)
        if ends is not None:
            intervals[name].append(ends)


def _or_notice(compute: Callable[[], T], missing: str, notices: list[str]) -> T | None:
    """The number, or None and a notice, so that one that cannot be computed does not cost the others."""
    found = attempt(compute)
    if isinstance(found, Exception):
        notices.append(f"{missing}: {failure(found)}")
        return None
    return found


def _over_seeds(intervals: Sequence[Interval]) -> Interval:
    """Ends averaged over seeds: the typical interval of one fit."""
    low, high = (float(np.mean(ends)) for ends in zip(*((each.low, each.high) for each in intervals), strict=True))
    return Interval(low, high, intervals[0].level, intervals[0].of)
