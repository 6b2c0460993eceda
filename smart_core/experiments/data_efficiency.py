"""How much validation data a method needs: the metric against the size of the validation set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from smart_core.calibrators import select
from smart_core.data.logitset import LogitSet, Part
from smart_core.data.split import stratified_subset
from smart_core.experiments.results import SeedTable
from smart_core.experiments.running import Job, fill, several_sizes
from smart_core.progress import CancelToken, Progress, Run

DEFAULT_METHODS = ("ts", "pts", "cts", "spline", "gc", "smart")
SIZES = (50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)


def sizes_up_to(count: int) -> tuple[int, ...]:
    """The standard sizes below `count`, then `count` itself."""
    return (*(size for size in SIZES if size < count), count)


def data_efficiency(
    data: LogitSet,
    methods: str | Sequence[str] = DEFAULT_METHODS,
    sizes: int | Sequence[int] | None = None,
    seeds: int = 5,
    *,
    metric: str = "ece",
    bins: int = 15,
    device: str = "auto",
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
    on_cell: Callable[[SeedTable, int, int], None] | None = None,
    known: SeedTable | None = None,
) -> SeedTable:
    """Fit on nested stratified subsets of validation (a new subset and a new fit for each seed), evaluate on test.

    `known` is an earlier result of the same study that was cancelled: its finished cells are taken over.

    >>> import smart_core as sc
    >>> table = data_efficiency(sc.simulate_set(400, 400, 4, seed=0), "vanilla,ts", sizes=[50, 400], seeds=2)
    >>> table.rows, table.columns, table.mean().shape
    (('vanilla', 'ts'), (50, 400), (2, 2))
    """
    ids = tuple(select(methods))
    rows = len(data.validation)
    chosen = several_sizes(sizes, "sizes", rows) if sizes is not None else sizes_up_to(rows)
    table = SeedTable.empty("method", "size", ids, chosen, seeds, metric=metric)
    table.take_over(known)

    def subset(size: int, seed: int) -> Part:
        return data.validation.subset(stratified_subset(data.validation.labels, size, seed))

    jobs = [
        Job(table, i, {j: data.test}, method, range(seeds), validation=partial(subset, size), samples=size)
        for j, size in enumerate(chosen)
        for i, method in enumerate(ids)
    ]
    fill(jobs, data, bins=bins, device=device, run=Run(progress, cancel), on_cell=on_cell)
    return table
