"""Steps common to all experiments: check the arguments, fit on validation, evaluate on labelled parts, fill a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, islice
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from smart_core.calibrators import get, method_named
from smart_core.calibrators.base import Calibrator
from smart_core.calibrators.inputs import EVERY_CLASS, REDUCED, TWO_CLASSES
from smart_core.data.lazy.rows import LazyPart
from smart_core.data.logitset import Head, LogitSet, Part
from smart_core.errors import CalibrationError, Cancelled, SmartError
from smart_core.evaluation import Evaluation
from smart_core.experiments.cost import BATCHED, evaluation_seconds, fit_seconds
from smart_core.experiments.smart_batch import Metrics, SmartBatch
from smart_core.experiments.smart_batch import Settings as Settings
from smart_core.experiments.streaming import evaluate_all, evaluate_one, passes
from smart_core.metrics.binning import check_bins
from smart_core.progress import Run, attempt

if TYPE_CHECKING:
    from smart_core.experiments.results import SeedTable


def check_count(value: Any, name: str) -> None:
    """Refuse a number of seeds or repetitions that is not a whole number of at least 1."""
    if not _whole(value) or value < 1:
        raise CalibrationError(f"{name}={value!r} must be a whole number, at least 1.")


def several(values: Any, name: str) -> tuple[Any, ...]:
    """The values in order; a single number counts as one value, and a string lists values separated by commas."""
    if isinstance(values, str):
        return tuple(part.strip() for part in values.split(",") if part.strip())
    if isinstance(values, Real):
        return (values,)
    if not isinstance(values, Iterable):
        raise CalibrationError(f"{name}={values!r} is not a list.")
    return tuple(values)


def several_numbers(values: Any, name: str) -> tuple[float, ...]:
    """`several` as floats."""
    try:
        return tuple(float(value) for value in several(values, name))
    except (TypeError, ValueError) as error:
        raise CalibrationError(f"{name}={values!r} must be numbers, such as [0.01, 0.05].") from error


def several_sizes(values: Any, name: str, most: int) -> tuple[int, ...]:
    """`several` as whole numbers from 1 to `most`."""
    sizes = several(values, name)
    for size in sizes:
        if not _whole(size) or not 1 <= size <= most:
            raise CalibrationError(f"{name}: {size!r} is not a whole number from 1 to {most:,}, the number of rows.")
    return tuple(int(size) for size in sizes)


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted calibrator and the seconds its fit took."""

    calibrator: Calibrator
    seconds: float


def fit_method(
    id: str,
    data: LogitSet,
    *,
    seed: int = 0,
    settings: Settings | None = None,
    device: str = "auto",
    run: Run | None = None,
    validation: Part | None = None,
    trace: bool = False,
) -> Fit:
    """Fit a method on the validation part, or on the part given instead.

    Features that only one of validation and test has cannot be used: a method that works without them does so, with a
    notice.
    """
    part = data.validation if validation is None else validation
    calibrator = get(id, **{"seed": seed, "device": device, **(settings or {})})
    one_sided = (part.features is None) != (data.test.features is None)
    fit = fit_part(calibrator, part, data.head, run, trace=trace, features=not one_sided)
    if one_sided and "features" in calibrator.uses:
        side = "test" if part.features is None else "validation"
        calibrator.notices_.insert(0, f"Only the {side} part has features.")
    return fit


def fit_part(
    calibrator: Calibrator,
    part: Part,
    head: Head | None = None,
    run: Run | None = None,
    *,
    trace: bool = False,
    features: bool = True,
) -> Fit:
    """Fit a calibrator on a labelled part, with its features unless told otherwise, and time it."""
    run = run or Run()
    calibrator.prepare()
    start = time.perf_counter()
    calibrator.fit_part(
        part,
        head=head,
        features=features,
        progress=None if run.progress is None else run.tick,
        cancel=run.cancel,
        trace=trace,
    )
    return Fit(calibrator, time.perf_counter() - start)


def unavailable(id: str, data: LogitSet) -> str | None:
    """Why a method cannot run on this data, or None if it can."""
    return method_named(id).missing(available([data.validation, data.test], data.head))


def available(parts: Sequence[Part], head: Head | None) -> dict[str, bool]:
    """What methods may need, and whether these parts of one set have it."""
    return {
        "logits": parts[0].kind == "logits",
        REDUCED: parts[0].kind == "reduced",
        EVERY_CLASS: not any(part.ragged for part in parts),
        "features": all(part.features is not None for part in parts),
        "head": head is not None,
        TWO_CLASSES: parts[0].classes == 2,
    }


def seeds_for(id: str, seeds: int) -> range:
    """All seeds for methods that draw random numbers; one for the others, whose results cannot differ."""
    return range(seeds if method_named(id).stochastic else 1)


def failure(error: Exception) -> str:
    """An error as the reason in a result: its own sentence if it is meant for users, else with its type."""
    return str(error) if isinstance(error, SmartError) else f"failed: {type(error).__name__}: {error}"


@dataclass(frozen=True, eq=False)
class Job:
    """One method fitted over seeds; each fit is evaluated on one or more parts, which fill cells of one row."""

    table: SeedTable
    row: int
    targets: Mapping[int, Part]
    """Column -> the part that its values are measured on."""
    method: str
    seeds: range
    settings: Settings = field(default_factory=dict)
    validation: Callable[[int], Part] | None = None
    """Seed -> the part to fit on; None takes the set's own validation part."""
    samples: int | None = None
    """The size of that part, for the estimate."""

    @property
    def column(self) -> int:
        """The first column that the job fills, for jobs of a single cell."""
        return next(iter(self.targets))

    def write(self, column: int, seed: int, result: Metrics | Exception) -> None:
        """Write the metrics of one evaluation into the table, or the reason why there are none."""
        cell = (self.row, column, seed)
        if isinstance(result, Exception):
            self.table.reasons[cell] = failure(result)
            return
        for name, values in self.table.metrics.items():
            values[cell] = result[name]


def fill(
    jobs: Sequence[Job],
    data: LogitSet,
    *,
    bins: int = 15,
    device: str = "auto",
    run: Run | None = None,
    on_cell: Callable[[SeedTable, int, int], None] | None = None,
) -> None:
    """Do the jobs in order, and call `on_cell(table, row, column)` after each; finished cells stay as they are.

    Invalid settings or bins are an error before any work. A fit or an evaluation that fails leaves its cell empty, with
    the reason in the table. If cancelled, the tables keep finished jobs and are marked incomplete.
    """
    check_bins(bins)
    for job in jobs:
        calibrator = get(job.method, **{"device": device, **job.settings})
        calibrator.check_settings()
        if data.kind == "confidence" and not calibrator.top_label:
            raise CalibrationError(f"{calibrator.label} needs logits; {data.name} holds confidences alone.")
        if data.kind == "reduced":
            calibrator.check_reduced(data.classes)
    jobs = [job for job in jobs if not all(job.table.finished(job.row, column, job.seeds) for column in job.targets)]
    run = run or Run()
    batch = SmartBatch(data, bins, device)
    groups = [(way, list(some)) for way, some in groupby(jobs, lambda job: _way(job, data, batch))]
    weights = [sum(_seconds(job, data, way == "batch") for job in group) for way, group in groups]
    try:
        for (way, group), span in run.each(groups, weights):
            if way == "batch":
                finished = _do_together(group, batch, span)
            elif way == "pass":
                finished = _do_in_passes(group, data, batch, bins, device, span)
            else:
                finished = _do_singly(group, data, bins, device, span)
            for job in finished:
                if on_cell is not None:
                    on_cell(job.table, job.row, job.column)
    except Cancelled:
        for each in jobs:
            each.table.complete = False


def _seconds(job: Job, data: LogitSet, together: bool = False) -> float:
    """The predicted seconds of a job, which weigh its share of the progress."""
    rows = len(data.validation) if job.samples is None else job.samples
    one = fit_seconds(job.method, rows, data.classes, job.settings) * (BATCHED if together else 1.0)
    evaluations = sum(evaluation_seconds(job.method, data, len(part)) for part in job.targets.values())
    return len(job.seeds) * (one + evaluations * (BATCHED if together else 1.0))


def _way(job: Job, data: LogitSet, batch: SmartBatch) -> str:
    """How a job is done: in a `batch` of SMART, in a `pass` over shards with others, or `single`."""
    own = job.validation is None and len(job.targets) == 1 and job.targets[job.column] is data.test
    if own and isinstance(data.test, LazyPart):
        return "pass"
    return "batch" if own and batch.supports(job.method, job.settings) else "single"


def _do_in_passes(
    jobs: Sequence[Job], data: LogitSet, batch: SmartBatch, bins: int, device: str, run: Run
) -> Iterator[Job]:
    """The jobs in order: all fits first, then as many evaluations in one pass over the shards as memory allows."""
    first, then = run.part(0.0, 0.3), run.part(0.3, 1.0)
    asked = [(job, seed) for job in jobs for seed in job.seeds]
    if all(batch.supports(job.method, job.settings) for job in jobs):
        fits: list[Calibrator | Exception] = list(
            batch.fits([{"seed": seed, **job.settings} for job, seed in asked], first)
        )
    else:
        found = [attempt(partial(_fit, job, data, seed, device, span)) for (job, seed), span in first.each(asked)]
        fits = [fit if isinstance(fit, Exception) else fit.calibrator for fit in found]
    good = [fit for fit in fits if isinstance(fit, Calibrator)]
    values: dict[int, Metrics | Exception] = {}
    for rows, span in then.each(list(passes(good, data.test))):
        for fit, evaluation in zip(good[rows], evaluate_all(good[rows], data.test, bins=bins, run=span), strict=True):
            values[id(fit)] = _values(evaluation, jobs[0].table, bins)
    results = iter(fits)
    for job in jobs:
        for seed in job.seeds:
            one = next(results)
            job.write(job.column, seed, one if isinstance(one, Exception) else values[id(one)])
        yield job


def _values(evaluation: Evaluation | Exception, table: SeedTable, bins: int) -> Metrics | Exception:
    if isinstance(evaluation, Exception):
        return evaluation
    return {name: evaluation.metric(name, bins) for name in table.metrics}


def _do_together(jobs: Sequence[Job], batch: SmartBatch, run: Run) -> Iterator[Job]:
    """The jobs in order, each when its last seed is finished."""
    results = batch.results([{"seed": seed, **job.settings} for job in jobs for seed in job.seeds], run)
    with closing(results):
        for job in jobs:
            of_job = list(islice(results, len(job.seeds)))  # nothing is written before all seeds are finished
            for seed, result in zip(job.seeds, of_job, strict=True):
                job.write(job.column, seed, result)
            yield job


def _do_singly(jobs: Sequence[Job], data: LogitSet, bins: int, device: str, run: Run) -> Iterator[Job]:
    """The jobs in order, each when it is finished."""
    for job, span in run.each(jobs, [_seconds(job, data) for job in jobs]):
        for column, seed, result in _results(job, data, bins, device, span):
            job.write(column, seed, result)
        yield job


def _results(job: Job, data: LogitSet, bins: int, device: str, run: Run) -> list[tuple[int, int, Metrics | Exception]]:
    """Column, seed and metrics of every evaluation: a cancelled job has none, as a mean over fewer seeds misleads."""
    results: list[tuple[int, int, Metrics | Exception]] = []
    for seed, span in run.each(job.seeds):
        fit = attempt(partial(_fit, job, data, seed, device, span))
        for column, target in job.targets.items():
            if isinstance(fit, Exception):
                results.append((column, seed, fit))
            else:
                results.append((column, seed, attempt(partial(_metrics, job, fit.calibrator, target, bins, run))))
    return results


def _fit(job: Job, data: LogitSet, seed: int, device: str, run: Run) -> Fit:
    part = None if job.validation is None else job.validation(seed)
    return fit_method(job.method, data, seed=seed, settings=job.settings, device=device, run=run, validation=part)


def _metrics(job: Job, calibrator: Calibrator, target: Part, bins: int, run: Run) -> Metrics:
    evaluation = evaluate_one(calibrator, target, bins=bins, run=Run(cancel=run.cancel))
    return {name: evaluation.metric(name, bins) for name in job.table.metrics}
