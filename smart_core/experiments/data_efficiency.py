"""How much validation data a method needs: the metric against the size of the validation set."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from smart_core.calibrators import select
from smart_core.data.logitset import LogitSet
from smart_core.data.split import stratified_subset
from smart_core.errors import CalibrationError, Cancelled
from smart_core.evaluation import METRICS
from smart_core.experiments.fitting import fit_method, judge
from smart_core.experiments.table import SeedTable
from smart_core.run import CancelToken, Progress, Run

DEFAULT_METHODS = ("ts", "pts", "cts", "spline", "gc", "smart")
SIZES = (50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)


def sizes_up_to(count: int) -> tuple[int, ...]:
    """The standard sizes below `count`, then `count` itself."""
    return (*(size for size in SIZES if size < count), count)


def data_efficiency(
    data: LogitSet,
    methods: str | Sequence[str] = DEFAULT_METHODS,
    sizes: Sequence[int] | None = None,
    seeds: int = 5,
    *,
    metric: str = "ece",
    bins: int = 15,
    device: str = "auto",
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
    on_cell: Callable[[SeedTable, int, int], None] | None = None,
) -> SeedTable:
    """Fit on nested stratified subsets of validation (a new subset and a new fit for each seed), judge on test."""
    ids = tuple(select(list(methods) if not isinstance(methods, str) else methods))
    chosen = tuple(sizes) if sizes is not None else sizes_up_to(len(data.validation))
    run = Run(progress, cancel)
    table = SeedTable.empty("method", "size", ids, chosen, seeds, tuple(METRICS), metric)
    cells = [(i, j) for j in range(len(chosen)) for i in range(len(ids))]
    for number, (i, j) in enumerate(cells):
        try:
            for seed in range(seeds):
                start = (number + seed / seeds) / len(cells)
                span = run.part(start, start + 1.0 / (len(cells) * seeds))
                index = stratified_subset(data.validation.labels, chosen[j], seed)
                part = data.validation.subset(index)
                try:
                    fit = fit_method(ids[i], data, seed=seed, device=device, run=span, validation=part)
                except CalibrationError:
                    continue  # too few samples for this method: the cell stays empty
                evaluation = judge(fit, data.test, bins)
                for name in table.metrics:
                    table.metrics[name][i, j, seed] = METRICS[name].value(evaluation, bins)
        except Cancelled:
            table.complete = False
            break
        if on_cell is not None:
            on_cell(table, i, j)
    return table
