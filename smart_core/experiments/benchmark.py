"""Many data sets by many methods: the main table of a calibration paper on one's own files.

A record is one fit and its metrics on test, under the `fit_key` of the data's content, the method, its settings and the
seed, and the number of bins. Records are kept in a `RecordFile`, a JSON file that can be committed and merged: run
again, extended by a set, a method or a seed, or resumed after a stop, a benchmark makes only the fits that the file
lacks.

Every fit runs in one thread, so that its numbers do not depend on how many processes share the work.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from itertools import groupby
from multiprocessing import get_context

import joblib
from threadpoolctl import threadpool_limits

from smart_core.calibrators import get, method_named, select
from smart_core.data.lazy.rows import LazyPart
from smart_core.data.logitset import LogitSet
from smart_core.device import one_thread
from smart_core.errors import CalibrationError, Cancelled
from smart_core.evaluation import HEADLINE, METRICS, Evaluation, metric_named
from smart_core.experiments.benchmark_records import Record, RecordFile
from smart_core.experiments.benchmark_result import Benchmark, SetInfo, cell_of
from smart_core.experiments.cost import evaluation_seconds, fit_seconds
from smart_core.experiments.method_result import changed_settings, fit_key
from smart_core.experiments.running import Fit, Settings, check_count, failure, fit_method, seeds_for, unavailable
from smart_core.experiments.streaming import evaluate_all, evaluate_one, passes
from smart_core.metrics.summed import SummedEvaluation
from smart_core.metrics.uncertainty import holm, noise_floor, paired_difference
from smart_core.progress import CancelToken, Progress, Run, attempt

DEFAULT_BINS = 15
"""Bins of records whose keys do not name them."""

MEMORY_PER_LOGIT = 40
"""Bytes that a worker may need for each logit of the largest set: float32 values, and several float64 copies."""

LEVEL = 0.95
"""Confidence level of the paired tests."""

FITTED = 0.9
"""Share of the progress at which all fits are made, and the paired tests begin."""


@dataclass(frozen=True)
class _Task:
    """One fit that is to be made."""

    key: str
    set_name: str
    split: int
    settings: Settings
    about: Record
    """What is fitted, without its metrics."""


Done = tuple[_Task, Record, Evaluation | None]


def benchmark(
    sets: Mapping[str, LogitSet],
    methods: str | Sequence[str] = "all",
    seeds: int = 5,
    splits: int = 1,
    *,
    bins: int = DEFAULT_BINS,
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
    run = Run(progress, cancel)
    parts = {name: _splits(data, splits) for name, data in sets.items()}
    result = Benchmark({}, tuple(ids), {}, metric, False)
    tasks: dict[tuple[str, str], list[_Task]] = {}
    for name, each in parts.items():
        run.tick(0.0, f"looking at {name}")
        result.sets[name], result.cells[name] = _info(each, bins), {}
        store.sets[each[0].content_hash] = {"name": name, **asdict(result.sets[name])}
        for id in ids:
            tasks[name, id] = [
                _task(name, split, data, id, chosen[id], seed, bins)
                for split, data in enumerate(each)
                for seed in seeds_for(id, seeds)
            ]
            reason, first = unavailable(id, each[0]), tasks[name, id][0]
            if reason is not None:
                tasks[name, id] = [first]
                store.records.setdefault(first.key, replace(first.about, reason=reason))

    def fill(cell: tuple[str, str]) -> None:
        """Make the cell if all of its records are there."""
        if all(task.key in store.records for task in tasks[cell]):
            result.cells[cell[0]][cell[1]] = cell_of({task.key: store.records[task.key] for task in tasks[cell]})

    try:
        store.save()
        for cell in tasks:
            fill(cell)
        missing = [task for cell in tasks for task in tasks[cell] if task.key not in store.records]
        fitting = run.part(0.0, FITTED)
        whole, done = sum(_seconds(task, parts) for task in missing), 0.0
        for task, record, evaluation in _done(missing, parts, workers, fitting):
            store.add(task.key, record, evaluation)
            fill((task.set_name, record.method))
            done += _seconds(task, parts)
            fitting.tick(done / whole, f"{task.set_name}: {method_named(record.method).label}")
            if on_result is not None:
                on_result(result)
        result.complete = True
        mark_ties(result, store, metric, run=run.part(FITTED, 1.0))
    except Cancelled:
        return result
    finally:
        store.save()
    return result


def _task(name: str, split: int, data: LogitSet, id: str, settings: Settings, seed: int, bins: int) -> _Task:
    own = changed_settings(get(id, **settings))
    about = Record(data=data.content_hash, method=id, settings=own, seed=seed, bins=bins)
    return _Task(record_key(data, id, settings, seed, bins), name, split, settings, about)


def record_key(data: LogitSet, id: str, settings: Settings, seed: int, bins: int) -> str:
    """The key of a fit among the records."""
    key = fit_key(data, id, settings, seed)
    return key if bins == DEFAULT_BINS else f"{key}-{bins}"


def mark_ties(result: Benchmark, records: RecordFile, metric: str, *, run: Run | None = None) -> None:
    """Add to `result.tied` which methods a paired test cannot tell from the best of their set, by this metric.

    Tests compare the first fits of two methods on the same test samples; p-values are corrected with Holm's method, and
    are kept in `records`. A set is left out if a test is new and the per-sample vectors are no longer there, as is a
    metric without a paired test (MCE, L2 ECE, AURC).
    """
    marked = result.tied.setdefault(metric, {})
    if metric not in HEADLINE:
        return
    for (name, cells), span in (run or Run()).each(list(result.cells.items())):
        keys = {id: cell.key for id, cell in cells.items() if metric in cell.values and cell.key in records.records}
        values = {id: METRICS[metric].sort_key(records.records[key].metrics[metric]) for id, key in keys.items()}
        values = {id: value for id, value in values.items() if math.isfinite(value)}
        best = min(values, key=values.__getitem__, default=None)
        if best is None:
            continue
        test = f"{metric} {keys[best]}"
        p_values = dict(records.tests.get(test, {}))
        for id, stage in span.each([id for id in values if id != best and keys[id] not in p_values]):
            stage.tick(0.0, f"{name}: testing {method_named(id).label} against the best")
            first, second = records.evaluation(keys[id]), records.evaluation(keys[best])
            if first is None or second is None or not (METRICS[metric].known(first) and METRICS[metric].known(second)):
                break
            bins = records.records[keys[id]].bins
            p_values[keys[id]] = paired_difference(metric, first, second, bins=bins, level=LEVEL).p_value
        else:
            adjusted = holm({id: p_values[keys[id]] for id in values if id != best})
            marked[name] = {id: id == best or adjusted[id] > 1.0 - LEVEL for id in values}
        if p_values != records.tests.get(test, {}):
            records.tests[test] = p_values


def _seconds(task: _Task, parts: Mapping[str, Sequence[LogitSet]]) -> float:
    """The predicted seconds of a fit and its evaluation: its share of the progress."""
    data = parts[task.set_name][task.split]
    rows = len(data.validation)
    return fit_seconds(task.about.method, rows, data.classes, task.settings) + evaluation_seconds(
        task.about.method, data
    )


def _splits(data: LogitSet, splits: int) -> list[LogitSet]:
    """The set as it was loaded and, if its split was drawn at random, `splits` - 1 further random splits."""
    if not any(notice.code == "split" for notice in data.notices):
        return [data]
    rows = len(data.validation) + len(data.test)
    return [data, *(data.resplit(len(data.validation) / rows, seed) for seed in range(1, splits))]


def _info(splits: Sequence[LogitSet], bins: int) -> SetInfo:
    data = splits[0]
    model = evaluate_one(get("vanilla").fit_part(data.validation), data.test, bins=bins, classwise=False)
    summed = isinstance(model, SummedEvaluation)
    floor = model.floor("ece") if isinstance(model, SummedEvaluation) else noise_floor("ece", model, bins=bins)
    return SetInfo(
        data.classes,
        len(data.validation),
        len(data.test),
        model.metric("accuracy", bins),
        model.metric("over", bins) - model.metric("under", bins),
        math.nan if summed or model.margin is None else float(model.margin.std()),
        floor.q95,
        tuple(each.content_hash for each in splits),
    )


def _done(tasks: Sequence[_Task], parts: Mapping[str, Sequence[LogitSet]], workers: int, run: Run) -> Iterator[Done]:
    """Every task with its record, as they are finished; those of lazy sets first, in passes over their shards."""
    lazy = {name for name, (data, *_) in parts.items() if isinstance(data.test, LazyPart)}
    of_shards = [task for task in tasks if task.set_name in lazy]
    for (name, split), some in groupby(of_shards, lambda task: (task.set_name, task.split)):
        yield from _in_passes(parts[name][split], list(some), run)
    tasks = [task for task in tasks if task.set_name not in lazy]
    whole = [data for name, (data, *_) in parts.items() if name not in lazy]
    most = max((max(data.classes, 1) * (len(data.validation) + len(data.test)) for data in whole), default=1)
    workers = min(workers, len(tasks), max(1, _free_memory() // (MEMORY_PER_LOGIT * most)))
    if workers <= 1:
        for task, span in run.each(tasks, [_seconds(task, parts) for task in tasks]):
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
            try:
                for future in finished:
                    yield (waiting.pop(future), *future.result())
            except BrokenProcessPool as error:
                problem = "The system ended a process that made fits, probably because memory ran out."
                raise CalibrationError(f"{problem} Run it again with fewer workers: finished fits are kept.") from error


def _in_passes(data: LogitSet, tasks: Sequence[_Task], run: Run) -> Iterator[Done]:
    """The tasks of one lazy set: their fits, then evaluations that share a pass over the shards."""
    quiet = Run(cancel=run.cancel)
    fits: list[tuple[_Task, Fit]] = []
    for task in tasks:
        about = task.about
        fit = attempt(partial(fit_method, about.method, data, seed=about.seed, settings=task.settings, run=quiet))
        if isinstance(fit, Exception):
            yield task, replace(about, reason=failure(fit)), None
        else:
            fits.append((task, fit))
    calibrators = [fit.calibrator for _, fit in fits]
    for rows in passes(calibrators, data.test):
        found = evaluate_all(calibrators[rows], data.test, bins=tasks[0].about.bins, run=quiet)
        for (task, fit), evaluation in zip(fits[rows], found, strict=True):
            if isinstance(evaluation, Exception):
                yield task, replace(task.about, reason=failure(evaluation)), None
            else:
                yield (task, *_record(task, fit, evaluation))


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
    about = task.about
    try:
        with one_thread(), threadpool_limits(1):
            fit = fit_method(about.method, data, seed=about.seed, settings=task.settings, run=run)
            evaluation = evaluate_one(fit.calibrator, data.test, bins=about.bins, run=run and Run(cancel=run.cancel))
            return _record(task, fit, evaluation)
    except Cancelled:
        raise
    except Exception as error:
        return replace(about, reason=failure(error)), None


def _record(task: _Task, fit: Fit, evaluation: Evaluation) -> tuple[Record, Evaluation | None]:
    about = task.about
    values = {name: evaluation.metric(name, about.bins) for name in METRICS}
    first = about.seed == 0 and task.split == 0 and not isinstance(evaluation, SummedEvaluation)
    record = replace(about, metrics=values, seconds=fit.seconds, parameters=fit.calibrator.parameters)
    return record, evaluation if first else None


@lru_cache(maxsize=1)
def _opened(path: str) -> LogitSet:
    """A split that another process wrote; arrays are mapped from the file, so that workers share them."""
    data: LogitSet = joblib.load(path, mmap_mode="r")
    return data


def _fit_from(path: str, task: _Task) -> tuple[Record, Evaluation | None]:
    """`_fit` in a worker."""
    return _fit(_opened(path), task)
