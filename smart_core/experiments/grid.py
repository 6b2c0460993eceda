"""The loop of every study: methods fitted over seeds, judged on labelled parts, their metrics written into a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby, islice

import numpy as np

from smart_core.calibrators import get
from smart_core.data.logitset import LogitSet, Part
from smart_core.errors import Cancelled
from smart_core.evaluation import METRICS
from smart_core.experiments.fitting import Fit, Settings, fit_method, judge, what_went_wrong
from smart_core.experiments.stacked import Stack
from smart_core.experiments.table import SeedTable
from smart_core.metrics.binning import check_bins
from smart_core.progress import Run


@dataclass(frozen=True, eq=False)
class Job:
    """One method fitted over seeds; each fit is judged on one or more parts, which fill cells of one row."""

    table: SeedTable
    row: int
    targets: Mapping[int, Part]
    """Column -> the part that its values are measured on."""
    method: str
    seeds: range
    settings: Settings = field(default_factory=dict)
    validation: Callable[[int], Part] | None = None
    """Seed -> the part to fit on; None takes the set's own validation part."""

    @property
    def column(self) -> int:
        """The first column that the job fills, for jobs of a single cell."""
        return next(iter(self.targets))


def fill(
    jobs: Sequence[Job],
    data: LogitSet,
    *,
    bins: int = 15,
    device: str = "auto",
    run: Run | None = None,
    on_job: Callable[[Job], None] | None = None,
) -> None:
    """Do the jobs in order, and call `on_job` after each.

    A setting or a number of bins that is not allowed is an error before any work. A fit or an evaluation that fails
    leaves its cell empty, with the reason in the table. Cancelled, the tables keep finished jobs and are marked
    incomplete.
    """
    check_bins(bins)
    for job in jobs:
        get(job.method, **{"device": device, **job.settings}).check_settings()
    line = run or Run()
    stack = Stack(data, bins, device)
    done = 0
    try:
        for together, some in groupby(jobs, lambda job: _stackable(job, data, stack)):
            group = list(some)
            span = line.part(done / len(jobs), (done + len(group)) / len(jobs))
            for job in _do_together(group, stack, span) if together else _do_singly(group, data, bins, device, span):
                if on_job is not None:
                    on_job(job)
            done += len(group)
    except Cancelled:
        for each in jobs:
            each.table.complete = False


def _stackable(job: Job, data: LogitSet, stack: Stack) -> bool:
    """Whether a job fits on the set's own validation part, is judged on its test part, and can be done with others."""
    own = job.validation is None and len(job.targets) == 1 and job.targets[job.column] is data.test
    return own and stack.takes(job.method, job.settings)


def _do_together(jobs: Sequence[Job], stack: Stack, run: Run) -> Iterator[Job]:
    """The jobs in order, each when its last seed is in."""
    cells = [(job, seed) for job in jobs for seed in job.seeds]
    results = stack.results([{"seed": seed, **job.settings} for job, seed in cells], run)
    with closing(results):
        for job in jobs:
            of_job = list(islice(results, len(job.seeds)))  # none is written before all are there
            for seed, result in zip(job.seeds, of_job, strict=True):
                cell = (job.row, job.column, seed)
                if isinstance(result, Exception):
                    job.table.reasons[cell] = what_went_wrong(result)
                    continue
                for name, values in job.table.metrics.items():
                    values[cell] = result[name]
            yield job


def _do_singly(jobs: Sequence[Job], data: LogitSet, bins: int, device: str, run: Run) -> Iterator[Job]:
    """The jobs in order, each when it is done; a cancelled one is emptied."""
    for number, job in enumerate(jobs):
        try:
            _do(job, data, bins, device, run.part(number / len(jobs), (number + 1) / len(jobs)))
        except Cancelled:
            _clear(job)
            raise
        yield job


def _do(job: Job, data: LogitSet, bins: int, device: str, run: Run) -> None:
    for number, seed in enumerate(job.seeds):
        span = run.part(number / len(job.seeds), (number + 1) / len(job.seeds))
        try:
            part = None if job.validation is None else job.validation(seed)
            fit = fit_method(
                job.method, data, seed=seed, settings=job.settings, device=device, run=span, validation=part
            )
        except Cancelled:
            raise
        except Exception as error:
            for column in job.targets:
                job.table.reasons[job.row, column, seed] = what_went_wrong(error)
            continue
        for column, target in job.targets.items():
            _write(job.table, (job.row, column, seed), fit, target, bins, Run(cancel=run.cancel))


def _write(table: SeedTable, cell: tuple[int, int, int], fit: Fit, part: Part, bins: int, run: Run) -> None:
    try:
        evaluation = judge(fit, part, bins, run)
        for name, values in table.metrics.items():
            values[cell] = METRICS[name].value(evaluation, bins)
    except Cancelled:
        raise
    except Exception as error:
        table.reasons[cell] = what_went_wrong(error)


def _clear(job: Job) -> None:
    """Empty what a cancelled job has written: a mean over fewer seeds than its neighbours' would mislead."""
    for column in job.targets:
        for values in job.table.metrics.values():
            values[job.row, column] = np.nan
        for seed in job.seeds:
            job.table.reasons.pop((job.row, column, seed), None)
