"""Sets beyond memory: rows per second against a plain loop, memory, Dask against threads, and reduced sets.

Run with `python -m benchmarks.scale [--rows 300000] [--classes 1000] [--tokens 4000] [--vocabulary 128000]
[--reduced 1000000] [--only pass,growth,dask,kill,tokens,reduced] [--shards FOLDER]`. The shards are made in a temporary
folder (`--folder`) and take rows x classes x 4 bytes; `--shards` names some that an earlier run left. Every figure is
from this run; those of two ways are printed with their ratio.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import smart_core as sc
from benchmarks.measure import WATCHER, machine
from smart_core.cli.terminal import table
from smart_core.data.lazy.rows import LazyPart
from smart_core.experiments.executors import scheduler
from smart_core.experiments.streaming import evaluate_all
from smart_core.fitting.reduced import CONFIDENCE_BOUND, NLL_BOUND

METHODS = "vanilla,ts,smart,isotonic"
SHARD_ROWS = 25_000
DRAWN = 4
"""Shards that are drawn at random."""
GROWTH_LOGITS = 1 << 27
"""Logits of the sets of more and more classes."""
TEMPERATURE = 1.5
"""The labels are drawn at this temperature, so that the model is overconfident."""


def shards(folder: Path, rows: int, classes: int, dtype: str = "<f4") -> Path:
    """Gaussian logits with one class raised by a random margin; labels from their softmax at `TEMPERATURE`.

    The first `DRAWN` shards are drawn; the others are these with their classes in another order, which takes less time.
    """
    folder.mkdir(parents=True)
    labels: list[np.ndarray] = []
    block = max(1, min(SHARD_ROWS, (1 << 28) // classes))
    for number, start in enumerate(range(0, rows, block)):
        size = min(block, rows - start)
        if number >= DRAWN:
            moved = 7 * number % classes
            z = np.roll(np.load(folder / f"logits_{number % DRAWN}.npy")[:size], moved, axis=1)
            labels.append((labels[number % DRAWN][:size] + moved) % classes)
        else:
            rng = np.random.default_rng(number)
            z = rng.standard_normal((size, classes), dtype=np.float32)
            raised = rng.integers(0, classes, size)
            z[np.arange(size), raised] += 3.0 + 5.0 * rng.random(size, dtype=np.float32)
            # Gumbel noise on the scaled logits draws from their softmax
            uniform = rng.random((size, classes), dtype=np.float32)
            labels.append((z / TEMPERATURE - np.log(-np.log(np.clip(uniform, 1e-12, 1 - 1e-7)))).argmax(axis=1))
        np.save(folder / f"logits_{number}.npy", z.astype(dtype, copy=False))
    np.save(folder / "labels.npy", np.concatenate(labels))
    return folder


def peak_of(*arguments: str) -> tuple[float, float]:
    """Seconds and peak megabytes of a command in a process of its own."""
    start = time.perf_counter()
    watched = subprocess.run(
        [sys.executable, "-c", WATCHER, sys.executable, *arguments], check=True, capture_output=True, text=True
    )
    return time.perf_counter() - start, int(watched.stdout.split()[-1]) / 1024


def plain_loop(data: sc.LogitSet) -> float:
    """Seconds to read every row of the shards and take one softmax of it, file by file, with PyTorch's threads."""
    assert isinstance(data.test, LazyPart)
    start = time.perf_counter()
    for shard in data.test.rows.shards:
        z = np.load(shard.path, mmap_mode="r")
        for first in range(0, len(z), 1000):
            torch.softmax(torch.from_numpy(np.array(z[first : first + 1000])), dim=1)
    return time.perf_counter() - start


Clock = Callable[[], float]


def seconds_of(function: Callable[[], object], repeats: int = 3, clock: Clock = time.perf_counter) -> float:
    """The fastest of a few runs."""
    found = []
    for _ in range(repeats):
        start = clock()
        function()
        found.append(clock() - start)
    return min(found)


def in_turn(
    ways: dict[str, Callable[[], object]], repeats: int = 5, clock: Clock = time.perf_counter
) -> dict[str, float]:
    """The fastest of a few runs of each way, one after the other, so that other work on the machine meets them all."""
    found = {name: float("inf") for name in ways}
    for _ in range(repeats):
        for name, function in ways.items():
            found[name] = min(found[name], seconds_of(function, 1, clock))
    return found


def fitted(data: sc.LogitSet) -> list[sc.calibrators.Calibrator]:
    return [sc.calibrators.get(id).fit_part(data.validation) for id in METHODS.split(",")]


def one_pass(folder: Path) -> None:
    """Point 1: the pass of four methods beside the plain loop, the whole command's memory, and equality in memory."""
    data = sc.open(folder)
    assert isinstance(data.test, LazyPart)
    start = time.perf_counter()
    fits = fitted(data)
    fit_seconds = time.perf_counter() - start
    ways = {
        "loop": lambda: plain_loop(data),
        "one": lambda: evaluate_all(fits[2:3], data.test),
        "four": lambda: evaluate_all(fits, data.test),
    }
    loop, one, four = in_turn(ways).values()
    found = evaluate_all(fits, data.test)
    rows = sum(shard.rows for shard in data.test.rows.shards)
    part = data.test.span(0, min(len(data.test), 150_000))
    exact = sc.Part(np.asarray(part.logits[:]), part.labels)
    errors = []
    for fit, evaluation in zip(fits, found, strict=True):
        known = sc.evaluate(fit, exact, classwise=False)
        same = evaluation.subset(np.arange(len(part)))  # type: ignore[union-attr]
        errors += [abs(known.metric(name) - same.metric(name)) for name in ("ece", "nll")]
    command = [
        "-m",
        "smart_core",
        "compare",
        str(folder),
        "--scheduler",
        "threads",
        "--methods",
        METHODS,
        "--seeds",
        "1",
    ]
    seconds, megabytes = peak_of(*command)
    print(
        table(
            ["step", "seconds", "rows per second", "ratio to the plain loop"],
            [
                [
                    f"plain loop, one softmax of every row, {torch.get_num_threads()} threads",
                    f"{loop:.1f}",
                    f"{rows / loop:,.0f}",
                    "1.00",
                ],
                ["one method (SMART), test half of the rows", f"{one:.1f}", f"{rows / one:,.0f}", f"{loop / one:.2f}"],
                [f"four methods ({METHODS})", f"{four:.1f}", f"{rows / four:,.0f}", f"{loop / four:.2f}"],
                ["fits of the four", f"{fit_seconds:.1f}", "", ""],
                [f"the command compare, peak {megabytes:,.0f} MB", f"{seconds:.1f}", "", ""],
            ],
        )
    )
    print(f"largest difference of ECE and NLL from the same {len(part):,} rows in memory: {max(errors):.1e}")


def growth(folder: Path, place: Path) -> None:
    """The pass of four methods over more and more rows, and over more and more classes of as many logits.

    In seconds of the processor, which other work on the machine changes little.
    """
    paths = sorted(folder.glob("logits_*.npy"), key=lambda path: int(path.stem.split("_")[1]))
    labels, rows = np.load(folder / "labels.npy"), []

    def add(data: sc.LogitSet) -> None:
        assert isinstance(data.test, LazyPart)
        fits, count = fitted(data), sum(shard.rows for shard in data.test.rows.shards)
        ways = {"loop": lambda: plain_loop(data), "four": lambda: evaluate_all(fits, data.test)}
        loop, four = in_turn(ways, 2, time.process_time).values()
        size, per = f"{count:,} x {data.classes:,}", 1e9 * four / (count * data.classes)
        rows.append([size, f"{loop:.2f}", f"{four:.2f}", f"{per:.2f}", f"{loop / four:.2f}"])
        print(*rows[-1], flush=True)

    for count in (4, 12, 40, 120):
        if count <= len(paths):
            add(sc.open(paths[:count], labels=labels[: count * SHARD_ROWS]))
    for classes in (8_000, 32_000, 128_000):
        made = shards(place / f"classes_{classes}" / "shards", GROWTH_LOGITS // classes, classes)
        add(sc.open(made))
        shutil.rmtree(made)
    print(table(["rows x classes", "plain loop, s", "four methods, s", "ns per logit read", "ratio"], rows))


def dask(folder: Path) -> None:
    """Point 2: a warm cluster of 2 and of 4 workers, and a cold one, against one process; one thread in each."""
    from distributed import default_client

    data = sc.open(folder)
    fits = fitted(data)
    rows = []
    with scheduler("threads", 1):
        evaluate_all(fits, data.test)
        alone = seconds_of(lambda: evaluate_all(fits, data.test))
    rows.append(["one process", f"{alone:.1f}", "1.00", ""])
    for workers in (2, 4):
        start = time.perf_counter()
        with scheduler("local", workers):
            evaluate_all(fits, data.test)
            cold = time.perf_counter() - start
            warm = seconds_of(lambda: evaluate_all(fits, data.test))
            peak = max(default_client().run(peak_megabytes).values())
        rows.append([f"{workers} workers of Dask, warm", f"{warm:.1f}", f"{alone / warm:.2f}", f"{peak:,.0f}"])
        rows.append([f"{workers} workers, started for the pass", f"{cold:.1f}", f"{alone / cold:.2f}", ""])
    print(table(["four methods on test, one thread per process", "seconds", "speed-up", "peak MB of a worker"], rows))


def peak_megabytes() -> float:
    """The most memory that this process has used."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def kill(folder: Path, times: int = 20) -> bool:
    """Point 4: workers killed while they evaluate; whether every result is the same, bit by bit."""
    from distributed import Status, default_client

    data = sc.open(folder)
    fits = fitted(data)
    expected = evaluate_all(fits, data.test)
    killed, passes, equal, done = 0, 0, True, threading.Event()
    with scheduler("local", 2):
        client = default_client()

        def killer() -> None:
            nonlocal killed
            gone: set[int] = set()
            while killed < times and not done.wait(0.2):
                processes = [each.process for each in client.cluster.workers.values() if each.process is not None]
                alive = [each.pid for each in processes if each.status == Status.running and each.pid not in gone]
                if alive:
                    gone.add(alive[0])
                    os.kill(alive[0], signal.SIGKILL)
                    killed += 1

        thread = threading.Thread(target=killer)
        thread.start()
        while killed < times or passes == 0:
            found = evaluate_all(fits, data.test)
            passes += 1
            equal &= all(
                np.array_equal(getattr(one, name), getattr(other, name))
                for one, other in zip(found, expected, strict=True)
                for name in ("confidence", "nll", "brier", "correct")
            )
        done.set()
        thread.join()
    print(f"{killed} workers killed with -9 during {passes} passes; every result the same bits: {equal}")
    return equal and killed == times


def tokens(folder: Path) -> None:
    """Point 3: many classes in float16, reduced; SMART from the reduced set; errors against softmax in float64."""
    out = folder.parent / "tokens.parquet"
    seconds, megabytes = peak_of("-m", "smart_core", "reduce", str(folder), "--out", str(out))
    fit_seconds, fit_megabytes = peak_of(
        "-m", "smart_core", "fit", str(out), "--method", "smart", "--out", f"{out}.cal"
    )
    smart, data, lazy = sc.load_calibrator(f"{out}.cal"), sc.load(out), sc.open(folder)
    found = sc.evaluate(smart, data.test)
    assert found.temperature is not None
    worst_p = worst_nll = 0.0
    for rows, z in lazy.test.logits.blocks(64):
        scaled = (z - z.max(axis=1, keepdims=True)).astype(np.float64) / found.temperature[rows, None]
        log_sum = np.log(np.exp(scaled).sum(axis=1))
        nll = log_sum - scaled[np.arange(len(z)), lazy.test.labels[rows]]
        worst_p = max(worst_p, float(np.abs(np.exp(-log_sum) - found.confidence[rows]).max()))
        worst_nll = max(worst_nll, float(np.abs(nll - found.nll[rows]).max()))
    size = sum(path.stat().st_size for path in folder.glob("logits_*.npy"))
    total = len(data.validation) + len(data.test)
    print(
        table(
            ["step", "seconds", "peak MB"],
            [
                [f"reduce {size / 1e9:.1f} GB, {total:,} x {data.classes:,}", f"{seconds:.1f}", f"{megabytes:,.0f}"],
                ["fit SMART from the reduced set", f"{fit_seconds:.1f}", f"{fit_megabytes:,.0f}"],
            ],
        )
    )
    print(
        f"{out.stat().st_size / total:.0f} bytes a row; largest error of {len(found):,} test rows: confidence "
        f"{worst_p:.1e} (bound {CONFIDENCE_BOUND:.0e}), NLL {worst_nll:.1e} (bound {NLL_BOUND:.0e})"
    )


def reduced(folder: Path, rows: int) -> None:
    """Point 5, without the browser: load a reduced set of many rows, and evaluate it."""
    made = sc.reduce(folder, folder.parent / "many.parquet")
    copies = max(1, rows // made.rows)
    paths = [folder.parent / f"piece_{number}.parquet" for number in range(copies)]
    for path in paths:
        path.write_bytes(made.path.read_bytes())
    start = time.perf_counter()
    data = sc.load(paths)
    opened = time.perf_counter() - start
    model = sc.Vanilla().fit_part(data.validation)
    start = time.perf_counter()
    sc.evaluate(model, data.test)
    seconds = time.perf_counter() - start
    total = len(data.validation) + len(data.test)
    print(f"{total:,} reduced rows: load {opened:.1f} s, evaluate half of them {seconds:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=4_000)
    parser.add_argument("--vocabulary", type=int, default=128_000)
    parser.add_argument("--reduced", type=int, default=1_000_000)
    parser.add_argument("--only", default="pass,growth,dask,kill,tokens,reduced")
    parser.add_argument("--folder", default=None)
    parser.add_argument("--shards", type=Path, default=None)
    options = parser.parse_args()
    wanted = options.only.split(",")
    with tempfile.TemporaryDirectory(dir=options.folder) as place:
        size = f"{options.rows:,} x {options.classes:,} float32"
        print(f"{machine()}; {options.shards or size}")
        if options.shards:
            folder = options.shards
        elif {"pass", "growth", "dask", "kill", "reduced"} & {*wanted}:
            folder = shards(Path(place) / "images" / "shards", options.rows, options.classes)
        if "pass" in wanted:
            one_pass(folder)
        if "growth" in wanted:
            growth(folder, Path(place))
        if "dask" in wanted:
            dask(folder)
        if "kill" in wanted:
            kill(folder)
        if "reduced" in wanted:
            reduced(folder, options.reduced)
        if "tokens" in wanted:
            tokens(shards(Path(place) / "words" / "shards", options.tokens, options.vocabulary, "<f2"))
        print(f"load average at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
