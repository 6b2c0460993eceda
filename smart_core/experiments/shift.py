"""Does the repair survive a shift: fitted on one set's validation part, evaluated on its groups and on other sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from smart_core.calibrators import select
from smart_core.data.logitset import LogitSet, Part
from smart_core.errors import CalibrationError
from smart_core.experiments.results import SeedTable
from smart_core.experiments.running import Job, fill, seeds_for, unavailable
from smart_core.progress import CancelToken, Progress, Run
from smart_core.types import FloatArray

DEFAULT_METHODS = ("ts", "pts", "cts", "spline", "gc", "procal", "fc", "smart")


@dataclass(eq=False)
class Shift(SeedTable):
    """Methods by targets; the first row is always the uncalibrated model."""

    def reduction(self, metric: str | None = None) -> FloatArray:
        """`1 - error / error of the uncalibrated model`, (methods, targets): 1 is perfect, below 0 is harm."""
        values = self.mean(metric)
        return 1.0 - values / np.where(values[:1] > 0.0, values[:1], np.nan)


def shift(
    data: LogitSet,
    methods: str | Sequence[str] = DEFAULT_METHODS,
    seeds: int = 5,
    *,
    by: str = "group",
    others: Mapping[str, LogitSet | Part] | None = None,
    metric: str = "ece",
    bins: int = 15,
    device: str = "auto",
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
    on_row: Callable[[SeedTable, int], None] | None = None,
    known: SeedTable | None = None,
) -> Shift:
    """Fit on `data`'s validation part; evaluate on each group of its test part and on the test part of each other set.

    The groups are the values of the column `by`: `group`, or one of the metadata, whose numbers are cut into intervals.
    Methods whose arrays are missing are left out.

    `known` is an earlier result of the same study that was cancelled: its finished cells are taken over.

    >>> import smart_core as sc
    >>> data, other = (sc.simulate_set(300, 300, 4, law=law, seed=0) for law in ("constant", "linear"))
    >>> table = shift(data, "ts", seeds=1, others={"linear": other})
    >>> table.rows, table.columns
    (('vanilla', 'ts'), ('linear',))
    """
    targets = shift_targets(data, others, by)
    wanted = [id for id in select(methods) if id != "vanilla"]
    ids = ("vanilla", *(id for id in wanted if unavailable(id, data) is None))
    table = Shift.empty("method", "target", ids, tuple(targets), seeds, metric=metric)
    table.take_over(known)
    columns = dict(enumerate(targets.values()))
    jobs = [Job(table, i, columns, id, seeds_for(id, seeds)) for i, id in enumerate(ids)]
    on_cell = None if on_row is None else (lambda table, row, column: on_row(table, row))
    fill(jobs, data, bins=bins, device=device, run=Run(progress, cancel), on_cell=on_cell)
    return table


def shift_targets(
    data: LogitSet, others: Mapping[str, LogitSet | Part] | None = None, by: str = "group"
) -> dict[str, Part]:
    """Name -> labelled part: the groups of the test part by a column, then the other sets."""
    if by != "group" and by not in data.test.columns:
        known = ", ".join(data.test.columns) or "none"
        raise CalibrationError(f"{data.name} has no column '{by}' in test; its columns are: {known}.")
    targets = data.test.groups(by)
    for name, other in (others or {}).items():
        part = other.test if isinstance(other, LogitSet) else other
        if part.classes != data.classes:
            raise CalibrationError(
                f"{name} has {part.classes} classes and {data.name} {data.classes}; "
                "a calibrator is fitted to one number of classes."
            )
        targets[name] = part
    if not targets:
        raise CalibrationError(
            f"{data.name} has no groups; give another set, or a test_group array with one name per sample."
        )
    return targets
