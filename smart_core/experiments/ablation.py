"""The paper's ablations: which objective (for TS, PTS and SMART), and which indicator (for SMART)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smart_core.data.logitset import LogitSet
from smart_core.errors import Cancelled
from smart_core.evaluation import METRICS
from smart_core.experiments.fitting import Settings, fit_method, judge, seeds_for
from smart_core.experiments.result import Result
from smart_core.experiments.table import SeedTable
from smart_core.indicators import INDICATORS
from smart_core.objectives import OBJECTIVES
from smart_core.run import CancelToken, Progress, Run

if TYPE_CHECKING:
    import pandas as pd

OBJECTIVE_METHODS = ("ts", "pts", "smart")


@dataclass(eq=False)
class Ablation(Result):
    """Both tables of the study."""

    objectives: SeedTable
    """Rows are methods, columns objectives."""
    indicators: SeedTable
    """One row (SMART), columns indicators."""

    def to_dict(self) -> dict[str, Any]:
        return {"objectives": self.objectives.to_dict(), "indicators": self.indicators.to_dict()}

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        return pd.concat([self.objectives.to_frame(), self.indicators.to_frame()], ignore_index=True)


def ablation(
    data: LogitSet,
    seeds: int = 5,
    *,
    methods: Sequence[str] = OBJECTIVE_METHODS,
    objectives: Sequence[str] = tuple(OBJECTIVES),
    indicators: Sequence[str] = tuple(INDICATORS),
    settings: Mapping[str, Settings] | None = None,
    metric: str = "ece",
    bins: int = 15,
    device: str = "auto",
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
    on_cell: Callable[[SeedTable, int, int], None] | None = None,
) -> Ablation:
    """Fit each method with each objective, and SMART with each indicator; judge on test.

    `settings` gives a method's other settings by its id.
    """
    run = Run(progress, cancel)
    names = tuple(METRICS)
    by_objective = SeedTable.empty("method", "objective", tuple(methods), tuple(objectives), seeds, names, metric)
    by_indicator = SeedTable.empty("method", "indicator", ("smart",), tuple(indicators), seeds, names, metric)
    cells: list[tuple[SeedTable, int, int, str, Settings]] = [
        *(
            (by_objective, i, j, method, {"objective": objective})
            for i, method in enumerate(methods)
            for j, objective in enumerate(objectives)
        ),
        *((by_indicator, 0, j, "smart", {"indicator": indicator}) for j, indicator in enumerate(indicators)),
    ]
    for number, (table, i, j, method, chosen) in enumerate(cells):
        try:
            part = run.part(number / len(cells), (number + 1) / len(cells))
            own = {**(settings or {}).get(method, {}), **chosen}
            fill_cell(table, i, j, method, data, own, seeds, bins, device, part)
        except Cancelled:
            by_objective.complete = by_indicator.complete = False
            break
        if on_cell is not None:
            on_cell(table, i, j)
    return Ablation(by_objective, by_indicator)


def fill_cell(
    table: SeedTable,
    i: int,
    j: int,
    method: str,
    data: LogitSet,
    settings: Settings,
    seeds: int,
    bins: int,
    device: str,
    run: Run,
) -> None:
    """Fit over seeds and write every metric of the cell."""
    wanted = seeds_for(method, seeds)
    for seed in wanted:
        span = run.part(seed / len(wanted), (seed + 1) / len(wanted))
        fit = fit_method(method, data, seed=seed, settings=settings, device=device, run=span)
        evaluation = judge(fit, data.test, bins)
        for name in table.metrics:
            table.metrics[name][i, j, seed] = METRICS[name].value(evaluation, bins)
