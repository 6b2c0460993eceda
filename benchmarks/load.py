"""How much longer each method takes beside other busy processes: with all cores taken, at most three times as long.

Run with `python -m benchmarks.load` on a machine that is otherwise idle; it takes less than three minutes, prints the
worst ratio and PASS or FAIL, and writes benchmarks/LOAD.md. Each method is fitted alone and beside one busy process per
core, in turn, in one process: the busy processes are stopped and continued, so that the ratios depend little on what
else the machine does.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.measure import machine
from smart_core.calibrators import get, methods
from smart_core.cli.terminal import table
from smart_core.data.logitset import Head, LogitSet, Part
from smart_core.evaluation import evaluate
from smart_core.experiments.running import fit_method, unavailable

SAMPLES, FEATURES = 2500, 128
CLASSES = (10, 1000)
BOUND = 3.0
"""A process that shares two cores with two busy ones gets half of the time; the rest is what waiting costs."""

SHORTEST = 0.01
"""Seconds of the shortest fit that is held to the bound: one of fewer waits several times as long for its turn."""

PAIRS, ENOUGH, AT_LEAST = 5, 1.5, 0.2
"""Pairs of runs per method, the seconds after which no further pair begins, and the least seconds of a run: a short fit
is repeated, because the scheduler gives a busy process some milliseconds at a time."""

REPORT = Path(__file__).with_name("LOAD.md")


def data_set(classes: int, samples: int = SAMPLES, features: int = FEATURES) -> LogitSet:
    """Simulated features, a random head, and labels drawn at a temperature that falls with the margin."""
    draw = np.random.default_rng(0)
    weight = draw.normal(0, 4 / features**0.5, (classes, features)).astype(np.float32)

    def part() -> Part:
        x = draw.exponential(1, (samples, features)).astype(np.float32)
        z = x @ weight.T
        first, second = np.sort(z, axis=1)[:, :-3:-1].T
        noise = draw.gumbel(size=z.shape) * (1 + 2 * np.exp(-(first - second) / 3))[:, None]
        return Part(z, np.argmax(z + noise, axis=1), features=x)

    return LogitSet(f"{classes} classes", part(), part(), head=Head(weight, np.zeros(classes, np.float32)))


@contextmanager
def busy_processes(count: int) -> Iterator[Callable[[bool], None]]:
    """Yield a switch that lets `count` processes run in an endless loop, or stops them."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]

    def switch(on: bool) -> None:
        for process in processes:
            process.send_signal(signal.SIGCONT if on else signal.SIGSTOP)
        time.sleep(0.02)

    switch(False)
    try:
        yield switch
    finally:
        for process in processes:
            process.kill()
            process.wait()


def seconds(action: Callable[[], object]) -> float:
    """Return how long the action takes, the mean over repetitions if it is short."""
    start, count = time.perf_counter(), 0
    while count == 0 or time.perf_counter() - start < AT_LEAST:
        action()
        count += 1
    return (time.perf_counter() - start) / count


def pairs(action: Callable[[], object], switch: Callable[[bool], None], warm: bool) -> tuple[float, float]:
    """Return the median seconds alone and beside the busy processes, measured in turn; `warm` runs it once before."""
    if warm:
        action()
    alone, beside, begin = [], [], time.perf_counter()
    while len(alone) < PAIRS and (not alone or time.perf_counter() - begin < ENOUGH):
        alone.append(seconds(action))
        switch(True)
        beside.append(seconds(action))
        switch(False)
    return statistics.median(alone), statistics.median(beside)


def rows(data: LogitSet, switch: Callable[[bool], None], warm: bool) -> list[tuple[str, float, float]]:
    """Return the label and both times of every fit, and of one evaluation with every classwise sum."""
    found = []
    for id, method in methods().items():
        if unavailable(id, data) is not None:
            continue
        get(id).prepare()
        found.append((method.label, *pairs(lambda id=id: fit_method(id, data), switch, warm)))  # type: ignore[misc]
    fitted = fit_method("ts", data).calibrator
    found.append(("evaluation", *pairs(lambda: evaluate(fitted, data.test), switch, warm)))
    return found


def main() -> None:
    """Measure every method, print the table and write it."""
    cores, begin = os.cpu_count() or 1, time.perf_counter()
    with busy_processes(cores) as switch:
        # the first set compiles the loops and loads the libraries
        measured = {k: rows(data_set(k), switch, warm=k == CLASSES[0]) for k in CLASSES}
    heads = ("method", *(f"{what}, K = {k:,}" for k in CLASSES for what in ("alone", f"beside {cores}", "ratio")))
    listed = [
        (each[0][0], *(text for _, a, b in each for text in (f"{a:.3f}", f"{b:.3f}", f"{b / a:.1f}")))
        for each in zip(*measured.values(), strict=True)
    ]
    everyone = [(b / a, a, b - a, f"{label}, K = {k:,}") for k, found in measured.items() for label, a, b in found]
    worst, place = max((ratio, label) for ratio, a, _, label in everyone if a >= SHORTEST)
    more = max(waited for _, a, waited, _ in everyone if a < SHORTEST)
    summary = (
        f"The largest ratio of fits of at least {1000 * SHORTEST:.0f} ms is {worst:.1f} ({place}); the bound is "
        f"{BOUND:.0f}. Shorter ones take at most {1000 * more:.0f} ms more."
    )
    print(table(heads, listed), summary, f"{time.perf_counter() - begin:.0f} s in all", sep="\n")
    print("PASS" if worst <= BOUND else "FAIL")
    lines = [heads, ("---",) * len(heads), *listed]
    REPORT.write_text(
        "# Beside other work\n\n"
        f"`python -m benchmarks.load`: seconds of a fit on {SAMPLES:,} samples, alone and beside {cores} busy "
        f"processes. {summary} {machine()}.\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
    )


if __name__ == "__main__":
    main()
