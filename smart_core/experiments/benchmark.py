"""Many data sets by many methods: the main table of a calibration paper on one's own files.

A record is one fit and its metrics on test, under the `fit_key` of the data's content, the method, its settings and the
seed. Records are kept in a `RecordFile`, a JSON file that can be committed and merged: run again, extended by a set, a
method or a seed, or resumed after a stop, a benchmark makes only the fits that the file lacks.

Every fit runs in one thread, so that its numbers do not depend on how many processes share the work.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from multiprocessing import get_context

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from smart_core.calibrators import get, method_named, select
from smart_core.data.logitset import LogitSet
from smart_core.device import one_thread
from smart_core.errors import CalibrationError, Cancelled, SmartError
from smart_core.evaluation import HEADLINE, METRICS, Evaluation, evaluate, metric_named
from smart_core.experiments.benchmark_records import Record, RecordFile
from smart_core.experiments.benchmark_result import Benchmark, Cell, SetInfo
from smart_core.experiments.method_result import fit_key
from smart_core.experiments.running import Settings, check_count, failure, fit_method, seeds_for, unavailable
from smart_core.metrics.uncertainty import compare_all, noise_floor
from smart_core.progress import CancelToken, Progress, Run

MEMORY_PER_LOGIT = 40
"""Bytes that a worker may need for each logit of the largest set: float32 values, and several float64 copies."""

ON_PAIRS = tuple(name for name in HEADLINE if name != "cece")
"""Metrics with a paired test here; that of the classwise ECE needs sums that are not kept."""


@dataclass(frozen=True)
class _Task:
    """One fit that is to be made."""

    key: str
    set_name: str
    split: int
    method: str
    seed: int
    settings: Settings
    bins: int


Done = tuple[_Task, Record, Evaluation | None]


def benchmark(
    sets: Mapping[str, LogitSet],
    methods: str | Sequence[str] = "all",
    seeds: int = 5,
    splits: int = 1,
    *,
    bins: int = 15,
    metric: str = "ece",
    settings: Mapping[str, Settings] | None = None,
    device: str = "auto",
    workers: int = 1,
    records: RecordFile | str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
    on_result: Callable[[Benchmark], None] | None = None,
) -> Benchmark:
    """Fit every method on every set's validation part, evaluate it on test, and rank the methods over the sets.

    `splits` repeats the random split of sets that were loaded without one of their own; others are taken as they are.
    `records` names the JSON file that keeps every finished fit, see `RecordFile`. `workers` processes share the fits;
    fewer run at once where their memory would not suffice. `on_result` is called with the benchmark so far after each
    finished fit. A cancelled benchmark returns the cells it has, with `complete=False`.

    >>> import smart_core as sc
    >>> sets = {law: sc.simulate_set(2000, 2000, 5, law=law, seed=0) for law in ("constant", "u_shaped")}
    >>> result = benchmark(sets, "vanilla,ts", seeds=1)
    >>> result.matrix().shape, result.summary().index[0]
    ((2, 2), 'ts')
    """
    ids = select(methods)
    metric_named(metric)
    for number, what in ((seeds, "seeds"), (splits, "splits"), (workers, "workers")):
        check_count(number, what)
    if not sets:
        raise CalibrationError("A benchmark needs at least one data set.")
    chosen = {id: {"device": device, **(settings or {}).get(id, {})} for id in ids}
    for id in ids:
        get(id, **chosen[id]).check_settings()
    store = records if isinstance(records, RecordFile) else RecordFile.open(records)
    parts = {name: _splits(data, splits) for name, data in sets.items()}
    result = Benchmark({name: _info(each, bins) for name, each in parts.items()}, tuple(ids), {}, metric, False)
    store.sets.update({name: asdict(info) for name, info in result.sets.items()})
    tasks: dict[tuple[str, str], list[_Task]] = {}
    for name, each in parts.items():
        result.cells[name] = {}
        for id in ids:
            reason = unavailable(id, each[0])
            if reason is not None:
                result.cells[name][id] = Cell({}, math.nan, 0, reason)
                continue
            tasks[name, id] = [
                _Task(fit_key(data, id, chosen[id], seed), name, split, id, seed, chosen[id], bins)
                for split, data in enumerate(each)
                for seed in seeds_for(id, seeds)
            ]

    def fill(cell: tuple[str, str]) -> None:
        """Make the cell if all of its records are there."""
        if all(task.key in store.records for task in tasks[cell]):
            result.cells[cell[0]][cell[1]] = _cell([store.records[task.key] for task in tasks[cell]])

    for cell in tasks:
        fill(cell)
    open_tasks = [task for cell in tasks for task in tasks[cell] if task.key not in store.records]
    run = Run(progress, cancel)
    try:
        for number, (task, record, evaluation) in enumerate(_done(open_tasks, parts, workers, run), 1):
            store.add(task.key, record, evaluation)
            fill((task.set_name, task.method))
            run.tick(number / (len(open_tasks) + 1), f"{task.set_name}: {method_named(task.method).label}")
            if on_result is not None:
                on_result(result)
    except Cancelled:
        return result
    result.complete = True
    for name in dict.fromkeys((metric, "nll")):
        if name in ON_PAIRS:
            first = {cell: store.evaluation(of_cell[0].key) for cell, of_cell in tasks.items()}
            result.tied[name] = {
                one: _ties(name, {id: first[one, id] for id in ids if (one, id) in first}, bins) for one in parts
            }
    run.tick(1.0, "done")
    return result


def _splits(data: LogitSet, splits: int) -> list[LogitSet]:
    """The set as it was loaded and, if its split was drawn at random, `splits` - 1 further random splits."""
    if not any(notice.code == "split" for notice in data.notices):
        return [data]
    rows = len(data.validation) + len(data.test)
    return [data, *(data.resplit(len(data.validation) / rows, seed) for seed in range(1, splits))]


def _info(splits: Sequence[LogitSet], bins: int) -> SetInfo:
    data = splits[0]
    model = evaluate(get("vanilla").fit_part(data.validation), data.test, classwise=False)
    return SetInfo(
        data.classes,
        len(data.validation),
        len(data.test),
        float(model.correct.mean()),
        float(model.confidence.mean() - model.correct.mean()),
        math.nan if model.margin is None else float(model.margin.std()),
        noise_floor("ece", model, bins=bins).q95,
        tuple(each.content_hash for each in splits),
    )


def _cell(records: Sequence[Record]) -> Cell:
    good = [record for record in records if not record.reason]
    if not good:
        return Cell({}, math.nan, 0, records[0].reason)
    values = {name: [record.metrics[name] for record in good if name in record.metrics] for name in METRICS}
    return Cell(values, float(np.mean([record.seconds for record in good])), good[0].parameters)


def _ties(metric: str, evaluations: Mapping[str, Evaluation | None], bins: int) -> dict[str, bool]:
    """Method -> tied with the best; empty if the vectors of a method were not kept, for the best may be that one."""
    known = {id: evaluation for id, evaluation in evaluations.items() if evaluation is not None}
    if len(known) < len(evaluations) or not known:
        return {}
    try:
        return compare_all(metric, known, bins=bins).tied_with_best
    except SmartError:
        return {}


def _done(tasks: Sequence[_Task], parts: Mapping[str, Sequence[LogitSet]], workers: int, run: Run) -> Iterator[Done]:
    """Every task with its record, as they are finished."""
    sizes = [max(each[0].classes, 1) * (len(each[0].validation) + len(each[0].test)) for each in parts.values()]
    most = max(sizes, default=1)
    workers = min(workers, len(tasks), max(1, _free_memory() // (MEMORY_PER_LOGIT * most)))
    if workers <= 1:
        for number, task in enumerate(tasks):
            span = run.part(number / (len(tasks) + 1), (number + 1) / (len(tasks) + 1))
            yield (task, *_fit(parts[task.set_name][task.split], task, span))
        return
    with tempfile.TemporaryDirectory(prefix="smart-benchmark-") as folder, _pool(workers) as pool:
        paths: dict[tuple[str, int], str] = {}
        for place in dict.fromkeys((task.set_name, task.split) for task in tasks):
            paths[place] = f"{folder}/{len(paths)}.joblib"
            joblib.dump(parts[place[0]][place[1]], paths[place])
        waiting: dict[Future[tuple[Record, Evaluation | None]], _Task] = {
            pool.submit(_fit_from, paths[task.set_name, task.split], task): task for task in tasks
        }
        while waiting:
            finished, _ = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
            run.tick((len(tasks) - len(waiting)) / (len(tasks) + 1), "fitting")
            for future in finished:
                yield (waiting.pop(future), *future.result())


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes for fits; if the block ends early, fits that have not started are dropped and running ones ended."""
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list((pool._processes or {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _free_memory() -> int:
    """Bytes that are free on this machine, where it says so; else those of a small one."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 4 << 30


def _fit(data: LogitSet, task: _Task, run: Run | None = None) -> tuple[Record, Evaluation | None]:
    """One fit in one thread; a failure is its record's reason. The vectors of the first fit of a cell are kept."""
    try:
        with one_thread(), threadpool_limits(1):
            fit = fit_method(task.method, data, seed=task.seed, settings=task.settings, run=run)
            evaluation = evaluate(fit.calibrator, data.test, bins=task.bins, run=run and Run(cancel=run.cancel))
            values = {name: metric.value(evaluation, task.bins) for name, metric in METRICS.items()}
    except Cancelled:
        raise
    except Exception as error:
        return Record(reason=failure(error)), None
    keeps = task.seed == 0 and task.split == 0
    record = Record(values, fit.seconds, fit.calibrator.parameters)
    return record, evaluation.without_cells() if keeps else None


@lru_cache(maxsize=1)
def _opened(path: str) -> LogitSet:
    """A split that another process wrote; arrays are mapped from the file, so that workers share them."""
    data: LogitSet = joblib.load(path, mmap_mode="r")
    return data


def _fit_from(path: str, task: _Task) -> tuple[Record, Evaluation | None]:
    """`_fit` in a worker."""
    return _fit(_opened(path), task)
