"""The paper's ablations: which objective (for TS, PTS and SMART), and which indicator (for SMART)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from smart_core.calibrators import select
from smart_core.data.logitset import LogitSet
from smart_core.experiments.results import Result, SeedTable
from smart_core.experiments.running import Job, Settings, fill, seeds_for, several
from smart_core.fitting.indicators import INDICATORS
from smart_core.fitting.objectives import OBJECTIVES
from smart_core.progress import CancelToken, Progress, Run

OBJECTIVE_METHODS = ("ts", "pts", "smart")


@dataclass(eq=False)
class Ablation(Result):
    """The two tables of the study."""

    objectives: SeedTable
    """Rows are methods, columns objectives."""
    indicators: SeedTable
    """One row (SMART), columns indicators."""

    def to_dict(self) -> dict[str, Any]:
        return {"objectives": self.objectives.to_dict(), "indicators": self.indicators.to_dict()}

    def records(self) -> list[dict[str, Any]]:
        return [*self.objectives.records(), *self.indicators.records()]


def ablation(
    data: LogitSet,
    seeds: int = 5,
    *,
    methods: str | Sequence[str] = OBJECTIVE_METHODS,
    objectives: str | Sequence[str] = tuple(OBJECTIVES),
    indicators: str | Sequence[str] = tuple(INDICATORS),
    settings: Mapping[str, Settings] | None = None,
    metric: str = "ece",
    bins: int = 15,
    device: str = "auto",
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
    on_cell: Callable[[SeedTable, int, int], None] | None = None,
    known: SeedTable | None = None,
) -> Ablation:
    """Fit each method with each objective, and SMART with each indicator; evaluate on test.

    `settings` gives a method's other settings by its id. Without methods, or without indicators, that table is empty.

    `known` is one of the two tables of an earlier run that was cancelled: its finished cells are taken over.

    >>> import smart_core as sc
    >>> data = sc.simulate_set(300, 300, 4, seed=0)
    >>> result = ablation(data, seeds=1, methods="ts", objectives="nll,brier", indicators=())
    >>> result.objectives.columns, result.objectives.mean().shape
    (('nll', 'brier'), (1, 2))
    """
    ids = tuple(select(methods)) if methods else ()
    objectives, indicators = several(objectives, "objectives"), several(indicators, "indicators")
    by_objective = SeedTable.empty("method", "objective", ids, objectives, seeds, metric=metric)
    by_indicator = SeedTable.empty("method", "indicator", ("smart",), indicators, seeds, metric=metric)
    for table in (by_objective, by_indicator):
        table.take_over(known if known is not None and known.column_name == table.column_name else None)
    own = settings or {}

    def job(table: SeedTable, row: int, column: int, method: str, chosen: Settings) -> Job:
        return Job(table, row, {column: data.test}, method, seeds_for(method, seeds), {**own.get(method, {}), **chosen})

    jobs = [
        *(
            job(by_objective, i, j, method, {"objective": objective})
            for i, method in enumerate(ids)
            for j, objective in enumerate(objectives)
        ),
        *(job(by_indicator, 0, j, "smart", {"indicator": indicator}) for j, indicator in enumerate(indicators)),
    ]
    fill(jobs, data, bins=bins, device=device, run=Run(progress, cancel), on_cell=on_cell)
    return Ablation(by_objective, by_indicator)
