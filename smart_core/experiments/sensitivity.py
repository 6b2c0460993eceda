"""How much SMART depends on its bandwidth sigma and its Charbonnier delta: a grid of fits over seeds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from smart_core.data.logitset import LogitSet
from smart_core.experiments.results import SeedTable
from smart_core.experiments.running import Job, Settings, fill, several_numbers
from smart_core.progress import CancelToken, Progress, Run

PAPER_SIGMAS = (0.01, 0.05, 0.1, 0.5, 1.0)
PAPER_DELTAS = (0.001, 0.01, 0.1, 1.0)


@dataclass(eq=False)
class Sensitivity(SeedTable):
    """A metric over the grid; rows are sigmas, columns deltas. Cells that were not reached are NaN."""

    seconds: float = 0.0

    @property
    def sigmas(self) -> tuple[float, ...]:
        return self.rows

    @property
    def deltas(self) -> tuple[float, ...]:
        return self.columns

    def to_dict(self) -> dict[str, Any]:
        """The published layout: one metric, rows are sigmas."""
        return {
            "sigmas": list(self.sigmas),
            "deltas": list(self.deltas),
            "metric": self.metric,
            "mean": self.mean(),
            "std": self.over_seeds().published_std,
            "seeds": self.seeds,
            "complete": self.complete,
            "seconds": self.seconds,
            "reasons": self.reasons_list(),
        }


def sensitivity(
    data: LogitSet,
    sigmas: float | Sequence[float] = PAPER_SIGMAS,
    deltas: float | Sequence[float] = PAPER_DELTAS,
    seeds: int = 5,
    *,
    metric: str = "ece",
    bins: int = 15,
    settings: Settings | None = None,
    device: str = "auto",
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
    on_cell: Callable[[int, int, Sensitivity], None] | None = None,
    known: Sensitivity | None = None,
) -> Sensitivity:
    """Fit SMART at every (sigma, delta) for every seed and evaluate it on test.

    `on_cell(row, column, result so far)` is called as cells finish. A cancelled study returns the cells it has, with
    `complete=False`.

    `known` is an earlier result of the same study that was cancelled: its finished cells are taken over.

    >>> import smart_core as sc
    >>> grid = sensitivity(sc.simulate_set(300, 300, 4, seed=0), [0.05, 1.0], [0.001], seeds=1, settings={"epochs": 5})
    >>> grid.mean().shape, grid.complete, grid.to_dict()["std"].tolist()
    ((2, 1), True, [[0.0], [0.0]])
    """
    start = time.perf_counter()
    rows, columns = several_numbers(sigmas, "sigmas"), several_numbers(deltas, "deltas")
    result = Sensitivity.empty("sigma", "delta", rows, columns, seeds, metric=metric)
    result.take_over(known)
    jobs = [
        Job(result, i, {j: data.test}, "smart", range(seeds), {**(settings or {}), "sigma": sigma, "delta": delta})
        for i, sigma in enumerate(rows)
        for j, delta in enumerate(columns)
    ]

    def finished(table: SeedTable, row: int, column: int) -> None:
        result.seconds = time.perf_counter() - start
        if on_cell is not None:
            on_cell(row, column, result)

    fill(jobs, data, bins=bins, device=device, run=Run(progress, cancel), on_cell=finished)
    result.seconds = time.perf_counter() - start
    return result
