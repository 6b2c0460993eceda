"""How long a comparison of every method takes, against the 17 methods of the SMART paper's bench.

    SMART_REAL_DATA=folder python -m benchmarks.comparison

Both comparisons run in this process, one after the other, on the two halves of a set of 5,000 ImageNet logits with
features and head, or on simulated logits where that is not there. The ratio by the clock is for a quiet machine; that
of the processor's own seconds, which are listed for each method, holds beside other work too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import torch

import smart_core as sc
from benchmarks.measure import machine
from smart_core.data.simulate import simulate_set
from smart_core.experiments.method_result import MethodResult
from smart_core.kernels.compiling import make_all_ready

FIRST = [
    *("vanilla", "ts", "ets", "vector", "matrix", "dirichlet", "pts", "cts", "spline", "gc", "procal", "fc"),
    *("histogram", "isotonic", "bbq", "beta", "smart"),
]
SEEDS = 5
ALLOWED = 1.5
"""Times that the comparison of all methods may take as long as that of the first."""


def data() -> sc.LogitSet:
    """2,500 + 2,500 samples of 1000 classes."""
    path = Path(os.environ.get("SMART_REAL_DATA", "../shared/data")) / "imagenet5k_efficientnet_lite0.npz"
    return sc.load(path) if path.exists() else simulate_set(2500, 2500, 1000, seed=0)


def seconds(found: sc.LogitSet, methods: Sequence[str]) -> tuple[float, float, dict[str, float]]:
    """The seconds of a comparison by the clock and of the processor, and the processor's of each method."""
    spent = dict.fromkeys(methods, 0.0)
    start, processor = time.perf_counter(), time.process_time()
    last = processor

    def stop(row: MethodResult) -> None:
        nonlocal last
        now = time.process_time()
        spent[row.id] += now - last
        last = now

    sc.compare(found, methods, SEEDS, on_values=stop, on_result=stop)
    return time.perf_counter() - start, time.process_time() - processor, spent


def main() -> None:
    """Print the ratios and the seconds of each method."""
    make_all_ready()
    print(f"{machine()}; {torch.get_num_threads()} threads")
    found = data()
    sc.compare(found, "vanilla,ts", 1)  # what is measured or compiled once
    methods = list(sc.calibrators.methods())
    first, first_processor, _ = seconds(found, FIRST)
    every, every_processor, spent = seconds(found, methods)
    for id, value in sorted(spent.items(), key=lambda item: -item[1]):
        print(f"{value:7.2f}  {id}{'' if id in FIRST else ' *'}")
    print(f"load in the end {os.getloadavg()[0]:.1f}; {len(FIRST)} methods against all {len(methods)} (* new):")
    for what, few, many in (("clock", first, every), ("processor", first_processor, every_processor)):
        print(f"{what}: {few:.1f} s and {many:.1f} s, {many / few:.2f} x; at most {ALLOWED} x is wanted")


if __name__ == "__main__":
    main()
