"""How much memory a comparison takes beyond its data: the peak of each method, fitted, judged and measured.

Run with `python -m benchmarks.memory [--methods all] [--validation 10000] [--test 50000] [--classes 1000]`. The data
are simulated: penultimate features, a head, the logits that follow from them, and labels drawn from their softmax at a
temperature. A thread reads the resident memory of this process a hundred times a second (Linux only).
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from pathlib import Path
from typing import Self

import numpy as np

import smart_core as sc
from smart_core.cli.terminal import table
from smart_core.data.logitset import Head

FEATURES = 64
TEMPERATURE = 1.5
"""The labels are drawn at this temperature, so that the model is overconfident."""

INTERVAL = 0.01
"""Seconds between two readings."""

MEBIBYTE = 1 << 20


def resident_bytes() -> int:
    """The resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Watch:
    """The highest resident memory since the last `take`, inside a `with`."""

    def __init__(self) -> None:
        self.peak = resident_bytes()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._done.wait(INTERVAL):
            self.peak = max(self.peak, resident_bytes())

    def take(self) -> int:
        """The peak until now; a new one begins."""
        peak, self.peak = max(self.peak, resident_bytes()), resident_bytes()
        return peak

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()


def simulated(validation: int, test: int, classes: int) -> sc.LogitSet:
    """Parts whose logits are exactly what the head makes of the features."""
    generator = np.random.default_rng(0)
    weight = (generator.normal(size=(classes, FEATURES)) / 2.0).astype(np.float32)
    head = Head(weight, generator.normal(size=classes).astype(np.float32) / 10)
    return sc.LogitSet("simulated", *(_part(size, head, generator) for size in (validation, test)), head=head)


def _part(size: int, head: Head, generator: np.random.Generator) -> sc.Part:
    features = generator.standard_normal((size, FEATURES), dtype=np.float32)
    logits = features @ head.weight.T
    logits += head.bias
    labels = np.empty(size, dtype=np.int64)
    for start in range(0, size, 1000):
        rows = slice(start, start + 1000)
        # the largest of z / T + Gumbel noise is a draw from softmax(z / T)
        gumbel = generator.gumbel(size=logits[rows].shape)
        labels[rows] = (logits[rows] / TEMPERATURE + gumbel).argmax(axis=1)
    return sc.Part(logits, labels, features)


def data_bytes(data: sc.LogitSet) -> int:
    """The size of the arrays themselves."""
    return sum(array.nbytes for part in (data.validation, data.test) for _, array in part.arrays())


def main() -> None:
    """Print a line a method as it is done, then the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", default="all")
    parser.add_argument("--validation", type=int, default=10_000)
    parser.add_argument("--test", type=int, default=50_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    data = simulated(options.validation, options.test, options.classes)
    own = data_bytes(data)
    sc.compare(simulated(60, 60, 3), options.methods, 1)  # what is imported on demand is no method's memory
    before = resident_bytes()
    rows: list[tuple[str, ...]] = []
    began = time.perf_counter()
    with Watch() as watch:

        def take(row: sc.experiments.MethodResult) -> None:
            nonlocal began
            beyond = (watch.take() - own) / MEBIBYTE
            took, began = time.perf_counter() - began, time.perf_counter()
            rows.append((row.id, f"{beyond:.0f}", f"{row.fit_seconds:.1f}", f"{took:.1f}", row.reason or ""))
            print("  ".join(rows[-1]), flush=True)

        sc.compare(data, options.methods, options.seeds, on_result=take)
        rest = (watch.take() - own) / MEBIBYTE
    print(f"\ndata {own / MEBIBYTE:.0f} MiB; interpreter and libraries {(before - own) / MEBIBYTE:.0f} MiB")
    print(table(("method", "peak beyond the data, MiB", "fit s", "row s", "why not"), rows))
    highest = max([rest, *(float(row[1]) for row in rows)])
    print(f"paired tests: {rest:.0f} MiB; highest of all: {highest:.0f} MiB")


if __name__ == "__main__":
    main()
