"""Good files through the sandbox against the same files read in this process: `python -m benchmarks.reading`.

Both ways are measured in turn, in one run, and the fastest of each counts. The sandbox may take 50 ms or 10% more.
Each set that is loaded is looked at once, so that memory which is only promised counts as well.
"""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import smart_core as sc
from benchmarks.measure import machine
from smart_core.cli.terminal import table
from smart_core.data import sandbox

REPEATS = 7
SECONDS, SHARE = 0.05, 0.1
"""How much longer the sandbox may take: this many seconds, or this share of the other time."""


def example(rows: int, classes: int) -> dict[str, Any]:
    """Logits and labels of random numbers."""
    generator = np.random.default_rng(0)
    return {
        "logits": generator.standard_normal((rows, classes), dtype=np.float32),
        "labels": generator.integers(0, classes, rows),
    }


def written(how: Callable[[io.BytesIO], object]) -> bytes:
    """What `how` writes to a file."""
    stream = io.BytesIO()
    how(stream)
    return stream.getvalue()


def files(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each file with the arguments of `load`."""
    yield "sample:digits, npz", {"source": "sample:digits"}
    large = written(lambda stream: np.savez(stream, **example(50_000, 1000)))
    yield "200 MB npz, bytes", {"source": large, "name": "large.npz"}
    (folder / "large.npz").write_bytes(large)
    yield "200 MB npz, path", {"source": folder / "large.npz"}
    small = example(4000, 100)
    frame = pd.DataFrame(small["logits"], columns=[f"logit_{k}" for k in range(100)]).assign(label=small["labels"])
    yield "4 MB csv", {"source": frame.to_csv(index=False).encode(), "name": "a.csv"}
    middle = example(20_000, 100)
    frame = pd.DataFrame(middle["logits"], columns=[f"logit_{k}" for k in range(100)]).assign(label=middle["labels"])
    yield "8 MB parquet", {"source": written(frame.to_parquet), "name": "a.parquet"}
    tensors = {name: torch.from_numpy(array) for name, array in middle.items()}
    yield "8 MB pt", {"source": written(lambda stream: torch.save(tensors, stream)), "name": "a.pt"}


def seconds(source: dict[str, Any], isolated: bool) -> float:
    """The time of one load."""
    start = time.perf_counter()
    data = sc.load(**source, isolated=isolated)
    for part in (data.validation, data.test):
        part.logits.max()
    return time.perf_counter() - start


def measured(source: dict[str, Any]) -> tuple[float, float]:
    """(in this process, in the sandbox): the fastest of each, taken in turn."""
    times = [(seconds(source, False), seconds(source, True)) for _ in range(REPEATS)]
    return min(here for here, _ in times), min(apart for _, apart in times)


def main() -> None:
    """Print the table."""
    sandbox.start()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, source in files(Path(folder)):
            here, apart = measured(source)
            holds = apart <= here + max(SECONDS, SHARE * here)
            rows.append(
                (name, f"{1e3 * here:.0f}", f"{1e3 * apart:.0f}", f"{apart / here:.2f}", "yes" if holds else "NO")
            )
            print("  ".join(rows[-1]), flush=True)
    print(f"\n{machine()}")
    print(table(("file", "in process, ms", "sandbox, ms", "ratio", "within 50 ms or 10%"), rows))


if __name__ == "__main__":
    main()
