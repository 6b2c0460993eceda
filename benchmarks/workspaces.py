"""How long a workspace of about 1 GB takes to its first page: `python -m benchmarks.workspaces [gigabytes]`.

The workspace is filled, the server is started anew, and a client opens the workspace's link as a browser would: from
the request to the end of the first run of the page, with every element sent. The same page of an empty workspace on
the same server, opened just before, is the comparison.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import smart_core as sc
from pages.shared.saved_items import session_of
from pages.shared.session import LoadedDataset
from smart_core.export.workspaces import Store
from smart_core.export.workspaces.store import new_id
from tests.robustness.sessions_client import Visitor
from tests.robustness.sessions_server import running

CLASSES, SETS = 1000, 8


def fill(folder: Path, gigabytes: float) -> tuple[str, str]:
    """Save data sets of so many bytes in all; return the id and the key of a small one, which is selected."""
    store = Store(folder)
    here = session_of(store, new_id(), None)
    rows = int(gigabytes * 1e9 / SETS / 4 / CLASSES / 2)
    generator = np.random.default_rng(0)
    for number in range(SETS - 1):
        logits = generator.standard_normal((2 * rows, CLASSES), dtype=np.float32)
        labels = generator.integers(0, CLASSES, 2 * rows)
        data = sc.LogitSet("large", sc.Part(logits[:rows], labels[:rows]), sc.Part(logits[rows:], labels[rows:]))
        here.datasets[f"large{number}"] = LoadedDataset(data, f"large {number}", {"whole": ["large.npz"]})
    small = sc.simulate_set(2000, 2000, 10, seed=0)
    here.datasets["small"] = LoadedDataset(small, "small", {"whole": ["small.npz"]})
    size = store.entries()[0].bytes
    store.close()
    print(f"{SETS} data sets, {size / 1e9:.2f} GB")
    return here.id, "small"


def first_page(address: str, page: str, query: str) -> float:
    """Seconds from the first request to the end of the first run."""
    begin = time.perf_counter()
    visitor = Visitor(address)
    visitor.open(page, query)
    seconds = time.perf_counter() - begin
    assert not visitor.problems, visitor.problems
    visitor.leave()
    return seconds


def main(gigabytes: float = 1.0) -> None:
    """Print the times."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "workspaces"
        id, small = fill(folder, gigabytes)
        with running(Path(name) / "log", folder=folder) as server:
            first_page(server.address, "guide", "")  # loads what every page needs
            first_page(server.address, "diagnose", "data=digits")
            empty = first_page(server.address, "diagnose", "data=digits")
            for what, page, query in (
                ("a small data set of it", "diagnose", f"workspace={id}&data={small}"),
                ("the guide, a large data set selected", "guide", f"workspace={id}&data=large0"),
                ("the link alone, on Start", "start", f"workspace={id}"),
            ):
                seconds = first_page(server.address, page, query)
                print(f"{what}: {seconds:.2f} s, an empty workspace {empty:.2f} s")


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
