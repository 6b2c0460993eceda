"""The estimates of every run button: what was promised beside it, and how true the estimate was as the work went on.

Run with `python -m benchmarks.estimates [quiet] [busy]`; it takes less than ten minutes and writes
benchmarks/ESTIMATES.md. Each button is clicked on three data sets, with one seed, on a quiet machine and beside a busy
process. From a tenth of the time on, the estimated total is to stay within a factor of 1.5 of what the job took.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from streamlit.testing.v1 import AppTest

from benchmarks.load import busy_processes
from benchmarks.measure import machine
from pages.shared.jobs import Job
from pages.shared.session import NEXT_DATASET, LoadedDataset
from smart_core import load
from smart_core.cli.terminal import table
from smart_core.data.simulate import simulate_set
from tests.app.driver import menu_is_known, open_page, session_of

BOUND = 1.5
SHORT = 2.0
"""Seconds: below, an estimate matters little, and the ticks of the clock a lot."""

REPORT = Path(__file__).with_name("ESTIMATES.md")
BUTTONS = {
    "compare": ("fit-recommended", "fit-all"),
    "margin_groups": ("fit-two",),
    "temperature": ("fit-curve",),
    "sensitivity": ("run-sensitivity",),
    "ablation": ("run-objectives", "run-indicators", "run-efficiency", "run-traces"),
    "shift": ("run-shift",),
    "export": ("export-fit",),
    "theory": ("run-playground",),
    "hardness": ("run-attack",),
    "benchmark": ("run-benchmark",),
}
"""Page -> keys of its run buttons."""

QUERY = {
    "compare": {"seeds": "1"},
    "sensitivity": {"sensitivity-seeds": "1"},
    "ablation": {"ablation-seeds": "1"},
    "shift": {"shift-seeds": "1"},
    "theory": {"view": "Playground", "theory-seeds": "1"},
}
"""Page -> its part of the URL: with one seed, a fit that takes unusually long is not averaged with others."""


@dataclass(frozen=True)
class Run:
    """One click: the seconds promised and taken, and the worst ratio of estimated to taken after the first tenth."""

    page: str
    button: str
    data: str
    load: str
    promised: float
    taken: float
    worst: float

    @property
    def passed(self) -> bool:
        """Whether the estimate held, or the job was too short for one."""
        return self.taken < SHORT or 1 / BOUND <= self.worst <= BOUND


def watched(job: Job) -> tuple[float, float, float]:
    """Watch a job until it ends; return the seconds promised and taken, and the worst ratio after the first tenth."""
    seen: list[tuple[float, float]] = []
    while job.active:
        left = job.remaining()
        if left is not None:
            seen.append((job.elapsed(), job.elapsed() + left))
        elif job.state == "running" and job.estimate is not None and job.elapsed() > job.estimate:
            seen.append((job.elapsed(), job.elapsed()))
        time.sleep(0.02)
    taken = job.elapsed()
    ratios = [total / taken for at, total in seen if at >= 0.1 * taken] or [1.0]
    worst = max(ratios, key=lambda ratio: max(ratio, 1 / ratio))
    return job.estimate or float("nan"), taken, worst


def app_of(page: str, data: str, file: Path | None) -> AppTest:
    """Open a page with a sample, or with a file."""
    app = open_page(page, data if file is None else "digits", **QUERY.get(page, {}))
    if file is not None:
        own = LoadedDataset(load(file), file.stem, {"whole": [str(file)]})
        session_of(app).datasets["own"] = own
        app.session_state[NEXT_DATASET] = "own"
        app.run()
    return app


def clicks(data: str, file: Path | None, load_name: str) -> list[Run]:
    """Click every button that the data set has."""
    found = []
    for page, keys in BUTTONS.items():
        for key in keys:
            if page in ("theory", "benchmark") and data != "digits":
                continue  # neither depends on the selected data set
            app = app_of(page, data, file)
            buttons = [button for button in app.button if button.key == key and not button.disabled]
            if not buttons:
                continue
            buttons[0].click().run()
            jobs = [job for job in session_of(app).jobs if job.kind != "quick fit"]
            if jobs:
                found.append(Run(page, key, data, load_name, *watched(jobs[0])))
                print(found[-1], flush=True)
    return found


def main(loads: list[str]) -> None:
    """Click all buttons under each load, print the table and write it."""
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as folder, menu_is_known():
        wide = Path(folder) / "2,500 x 1,000.npz"
        np.savez(wide, **dict(simulate_set(2500, 2500, 1000, seed=0).arrays()))
        sets: dict[str, Path | None] = {"digits": None, "cifar10_corrupted": None, wide.stem: wide}
        for load_name in loads:
            context: Callable[[], object] = nullcontext if load_name == "quiet" else lambda: busy_processes(1)
            with context() as switch:  # type: ignore[attr-defined]
                if switch is not None:
                    switch(True)
                for name, file in sets.items():
                    runs += clicks(name, file, load_name)
    heads = ("page", "button", "data", "load", "promised", "taken", "worst after a tenth")
    listed = [
        (
            run.page,
            run.button,
            run.data,
            run.load,
            f"{run.promised:.1f}",
            f"{run.taken:.1f}",
            f"{run.worst:.2f}" + ("" if run.passed else " !"),
        )
        for run in runs
    ]
    long = [run for run in runs if run.taken >= SHORT]
    ratios = [max(run.worst, 1 / run.worst) for run in long] or [1.0]
    summary = (
        f"{sum(run.passed for run in long)} of {len(long)} runs of at least {SHORT:.0f} s stay within a factor of "
        f"{BOUND}; the median is {statistics.median(ratios):.2f}, the worst {max(ratios):.2f}."
    )
    print(table(heads, listed), summary, sep="\n")
    lines = [heads, ("---",) * len(heads), *listed]
    REPORT.write_text(
        "# Estimates\n\n`python -m benchmarks.estimates`: seconds promised beside each run button and taken, and the "
        f"estimated total over the time taken, at its worst after the first tenth. {summary} {machine()}.\n\n"
        + "\n".join(f"| {' | '.join(line)} |" for line in lines)
        + "\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:] or ["quiet", "busy"])
