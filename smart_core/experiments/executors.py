"""Where pieces of work run: in threads of this process, or in the workers of a Dask cluster.

The code is written once against `concurrent.futures.Executor`, which both are. Dask places the pieces, moves them from
busy workers to idle ones, and repeats those of a worker that ended; nothing here does.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from smart_core.errors import SmartError
from smart_core.progress import Run

Piece = TypeVar("Piece")
Answer = TypeVar("Answer")

WORKER_MEMORY = "1GB"
"""Memory of a worker of a local cluster; Dask restarts one that needs more."""
RETRIES = 3
"""How often Dask repeats a piece that raised an error of the system, such as a connection that was lost."""
LOST_WORKERS = 100
"""How many workers may end while they hold one piece before Dask gives it up; its default is 3."""
JOIN_SECONDS = 10
"""How long a scheduler may take to answer."""
AHEAD = 2
"""Pieces per worker that are submitted before their turn."""
TICK_EVERY = 0.1
"""Seconds between two ticks while waiting."""
REVIVE_EVERY = 5.0
"""Seconds between two looks at the workers of a local cluster: Dask starts a worker that was killed again, but gives it
up if that takes long or it is killed while it starts."""
SCHEDULERS = "threads, local (a Dask cluster on this machine), or tcp://HOST:PORT (one that runs)"


@dataclass(frozen=True)
class Workers:
    """An executor, how many pieces it works on at once, and a page that shows what it does."""

    executor: Executor
    count: int
    link: str | None = None
    revive: Callable[[], None] = lambda: None
    """Starts workers in the place of those that ended for good."""


_chosen: list[Workers] = []


@contextmanager
def scheduler(name: str = "threads", workers: int | None = None, memory: str = WORKER_MEMORY) -> Iterator[Workers]:
    """Run what reads many rows in this block on `threads`, on a `local` Dask cluster, or on the one at `tcp://...`.

    >>> with scheduler("threads", workers=2):
    ...     list(in_order(abs, [-1, -2], Run(), "counting"))
    [1, 2]
    """
    if workers is not None and workers < 1:
        raise SmartError(f"workers={workers} must be at least 1.")
    with _started(name, workers, memory) as started:
        _chosen.append(started)
        try:
            yield started
        finally:
            _chosen.remove(started)


@contextmanager
def _started(name: str, workers: int | None, memory: str) -> Iterator[Workers]:
    count = workers or os.cpu_count() or 1
    if name == "threads":
        with ThreadPoolExecutor(count) as pool:
            yield Workers(pool, count)
        return
    if name != "local" and "://" not in name:
        raise SmartError(f"there is no scheduler '{name}'", f"choose {SCHEDULERS}")
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError:
        raise SmartError(
            "this scheduler needs Dask", 'pip install "smart-calibration[dask]"', file=f"scheduler {name}"
        ) from None
    with dask.config.set({"distributed.scheduler.allowed-failures": LOST_WORKERS}), _quiet("distributed.client"):
        if name == "local":
            place: Any = LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                memory_limit=memory,
                dashboard_address=":0",
                silence_logs=logging.CRITICAL,  # errors are raised here, in one sentence
            )
        else:
            place = name
        try:
            client = Client(place, timeout=JOIN_SECONDS)
        except (OSError, TimeoutError) as error:
            problem = f"no Dask scheduler answers at {name}"
            raise SmartError(problem, "start one with dask scheduler, or check the address") from error
        try:
            threads = sum(client.nthreads().values()) or count
            # not pure: the same paths may hold other rows by now, so no result is taken from an earlier call
            revive = partial(place.scale, count) if name == "local" else Workers.revive
            executor = client.get_executor(retries=RETRIES, pure=False)
            yield Workers(executor, threads, client.dashboard_link, revive)
        finally:
            client.close()
            if name == "local":
                place.close()


@contextmanager
def _quiet(logger: str) -> Iterator[None]:
    """Without the tracebacks that a lost connection leaves: the error says it in one sentence."""
    log = logging.getLogger(logger)
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


@contextmanager
def _current_workers() -> Iterator[Workers]:
    """The scheduler that was chosen, or threads for this piece of work."""
    if _chosen:
        yield _chosen[-1]
        return
    with _started("threads", None, WORKER_MEMORY) as started:
        yield started


def in_order(
    function: Callable[[Piece], Answer],
    pieces: Iterable[Piece],
    run: Run,
    message: str | Callable[[int], str],
    total: int | None = None,
) -> Generator[Answer]:
    """`function` of every piece, in order, each as soon as it is done; a few are submitted before their turn.

    `message` is the progress text, or a function from the number of finished pieces to that text.
    """
    done = 0
    with _current_workers() as workers:
        waiting: deque[Any] = deque()
        remaining = iter(pieces)
        try:
            while True:
                while len(waiting) < AHEAD * workers.count and (piece := next(remaining, None)) is not None:
                    waiting.append(workers.executor.submit(function, piece))
                if not waiting:
                    return
                text = message if isinstance(message, str) else message(done)
                run.tick(done / (total or done + len(waiting)), text)
                last_check = time.monotonic()
                while not waiting[0].done():
                    wait([waiting[0]], timeout=TICK_EVERY)
                    run.tick(done / (total or done + len(waiting)), text)
                    if time.monotonic() - last_check > REVIVE_EVERY:
                        workers.revive()
                        last_check = time.monotonic()
                try:
                    answer = waiting.popleft().result()
                except CancelledError:  # nothing here cancels what it waits for
                    fix = "restart the scheduler, then rerun this command; finished work is kept"
                    raise SmartError("the connection to the Dask scheduler was lost", fix) from None
                yield answer
                done += 1
        finally:
            for future in waiting:
                future.cancel()
