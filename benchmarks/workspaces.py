"""How long a workspace of about 1 GB takes to its first page: `python -m benchmarks.workspaces [gigabytes]`.

The workspace is filled with what opening its pages leaves in it, the server is started anew, and a client opens the
workspace's link as a browser would: from the request to the end of the first run of the page, with every element sent.
The same page of an empty workspace on the same server, opened just before, is the comparison. The first page of all is
measured on a server of its own: Start of a sample, which is fitted in the background.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import smart_core as sc
from pages.shared import quick_fit
from pages.shared.saved_items import session_of
from pages.shared.session import LoadedDataset, Session
from smart_core.export.workspaces import Store
from smart_core.export.workspaces.store import new_id
from smart_core.progress import Run
from tests.robustness.sessions_client import Visitor
from tests.robustness.sessions_server import running

CLASSES, SETS = 1000, 5
LARGEST = 0.6
"""The share of the bytes that is in the first data set."""


def fill(folder: Path, gigabytes: float) -> tuple[str, str, str]:
    """Save data sets of so many bytes in all; return the workspace's id, the key of the largest, and of a small one."""
    store = Store(folder)
    here = session_of(store, new_id(), None)
    generator = np.random.default_rng(0)
    for number in range(SETS):
        share = LARGEST if number == 0 else (1 - LARGEST) / (SETS - 1)
        rows = int(share * gigabytes * 1e9 / 4 / CLASSES / 2)
        labels = generator.integers(0, CLASSES, 2 * rows)
        logits = generator.standard_normal((2 * rows, CLASSES), dtype=np.float32)
        logits[np.arange(2 * rows), labels] += 3
        data = sc.LogitSet("large", sc.Part(logits[:rows], labels[:rows]), sc.Part(logits[rows:], labels[rows:]))
        here.datasets[f"large{number}"] = LoadedDataset(data, f"large {number}", {"whole": ["large.npz"]})
        if number == 0:
            _visited(here, data)
    small = sc.simulate_set(2000, 2000, 10, seed=0)
    here.datasets["small"] = LoadedDataset(small, "small", {"whole": ["small.npz"]})
    _visited(here, small)
    size = store.entries()[0].bytes
    store.close()
    print(f"{SETS + 1} data sets, {size / 1e9:.2f} GB, the largest {LARGEST * gigabytes:.2f} GB", flush=True)
    return here.id, "large0", "small"


def _visited(here: Session, data: sc.LogitSet) -> None:
    """Save what Start has computed of a data set."""
    here.uncalibrated[data.content_hash] = sc.evaluate(
        sc.Vanilla().fit_part(data.validation), data.test, classwise=False
    )
    quick_fit._fit(data, here.fits, Run())


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
        id, large, small = fill(folder, gigabytes)
        with running(Path(name) / "first", folder=folder) as server:
            print(f"start, the first page of the server: {first_page(server.address, 'start', ''):.2f} s", flush=True)
        for number, (what, page, query) in enumerate(
            (
                ("the link alone", "start", f"workspace={id}"),
                ("the largest data set", "start", f"workspace={id}&data={large}"),
                ("the largest data set", "diagnose", f"workspace={id}&data={large}"),
                ("a small data set", "diagnose", f"workspace={id}&data={small}"),
            )
        ):
            with running(Path(name) / f"log{number}", folder=folder) as server:
                for other in ("guide", page):  # loads what every page needs
                    first_page(server.address, other, "data=digits")
                empty = first_page(server.address, page, "data=digits")
                seconds = first_page(server.address, page, query)
                print(f"{page}, {what}: {seconds:.2f} s; a sample in an empty workspace: {empty:.2f} s", flush=True)


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
