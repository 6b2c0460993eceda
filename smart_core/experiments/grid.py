"""The loop of every study: methods fitted over seeds, judged on labelled parts, their metrics written into a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from smart_core.calibrators import get
from smart_core.data.logitset import LogitSet, Part
from smart_core.errors import Cancelled
from smart_core.evaluation import METRICS
from smart_core.experiments.fitting import Fit, Settings, fit_method, judge, what_went_wrong
from smart_core.experiments.table import SeedTable
from smart_core.run import Run


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

    A setting that is not allowed is an error before any work. A fit or an evaluation that fails leaves its cell
    empty, with the reason in the table. Cancelled, the tables keep finished jobs and are marked incomplete.
    """
    for job in jobs:
        get(job.method, **{"device": device, **job.settings}).check_settings()
    line = run or Run()
    for number, job in enumerate(jobs):
        try:
            _do(job, data, bins, device, line.part(number / len(jobs), (number + 1) / len(jobs)))
        except Cancelled:
            _clear(job)
            for each in jobs:
                each.table.complete = False
            return
        if on_job is not None:
            on_job(job)


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
