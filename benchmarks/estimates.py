"""The estimates of every run button: what was promised beside it, and how true the estimate was as the work went on.

Run with `python -m benchmarks.estimates`; it takes about five minutes, prints the worst factor of each button and PASS
or FAIL, and writes benchmarks/ESTIMATES.md. With `quiet`, `busy` or names of pages it runs these only and writes
nothing. Each button is clicked on three data sets, with one seed, on a quiet machine and beside a busy process. From a
tenth of the time on, the estimated total is to stay within a factor of 1.5 of what the job took, and it never grows to
more than 1.5 times what was promised.

The buttons that fit selected rows, stale rows or the settings of a Sensitivity cell start the same job as those of
Compare.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
SAMPLES, CLASSES = 1500, 500
"""The third data set: validation and test samples, and classes."""

LOADS = ("quiet", "busy")
REPORT = Path(__file__).with_name("ESTIMATES.md")
BUTTONS = {
    "compare": ("fit-recommended", "fit-all", "fit-chain"),
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
    """One click, and how the estimate changed until the job ended."""

    page: str
    button: str
    data: str
    load: str
    promised: float
    """Seconds estimated beside the button."""
    taken: float
    worst: float
    """Estimated total over the time taken, at its worst after the first tenth."""
    growth: float
    """The largest estimate over the promised one."""
    state: str

    @property
    def factor(self) -> float:
        """How many times too long or too short the estimate was."""
        return max(self.worst, 1 / self.worst)

    @property
    def passed(self) -> bool:
        """Whether the job was done and its estimate held, or it was too short for one."""
        held = self.factor <= BOUND and self.growth <= BOUND + 1e-9
        return self.state == "done" and (self.taken < SHORT or held)


def watched(job: Job) -> dict[str, Any]:
    """Watch a job until it ends."""
    seen: list[tuple[float, float]] = []
    while job.active:
        left = job.remaining()
        if left is not None:
            seen.append((job.elapsed(), job.elapsed() + left))
        elif job.state == "running" and job.estimate is not None and job.elapsed() > job.estimate:
            seen.append((job.elapsed(), job.elapsed()))
        time.sleep(0.05)
    taken, promised = job.elapsed(), job.estimate or float("nan")
    ratios = [total / taken for at, total in seen if at >= 0.1 * taken] or [1.0]
    worst = max(ratios, key=lambda ratio: max(ratio, 1 / ratio))
    # a job that goes on after its last estimate shows none
    growth = max((total / promised for at, total in seen if total > at), default=1.0)
    return {"promised": promised, "taken": taken, "worst": worst, "growth": growth, "state": job.state}


def app_of(page: str, data: str, file: Path | None) -> AppTest:
    """Open a page with a sample, or with a file."""
    app = open_page(page, data if file is None else "digits", **QUERY.get(page, {}))
    if file is not None:
        own = LoadedDataset(load(file), file.stem, {"whole": [str(file)]})
        session_of(app).datasets["own"] = own
        app.session_state[NEXT_DATASET] = "own"
        app.run()
    return app


def clicks(data: str, file: Path | None, load_name: str, pages: Sequence[str]) -> list[Run]:
    """Click every button of the pages that the data set has."""
    found = []
    for page in pages:
        for key in BUTTONS[page]:
            if page in ("theory", "benchmark") and data != "digits":
                continue  # neither depends on the selected data set
            app = app_of(page, data, file)
            buttons = [button for button in app.button if button.key == key and not button.disabled]
            if not buttons:
                continue
            buttons[0].click().run()
            jobs = [job for job in session_of(app).jobs if job.kind != "quick fit"]
            if jobs:
                found.append(Run(page, key, data, load_name, **watched(jobs[0])))
    return found


def by_button(runs: list[Run]) -> list[tuple[str, ...]]:
    """Return a row for each button: its worst factor and growth over sets and loads, and where."""
    rows = []
    for page, button in dict.fromkeys((run.page, run.button) for run in runs):
        own = [run for run in runs if (run.page, run.button) == (page, button)]
        worst = max(own, key=lambda run: (run.taken >= SHORT, run.factor))
        growth = max(run.growth for run in own)
        verdict = "" if all(run.passed for run in own) else "FAIL"
        where, seconds = f"{worst.data}, {worst.load}", f"{worst.promised:.1f} / {worst.taken:.1f}"
        rows.append((page, button, f"{worst.factor:.2f}", f"{growth:.2f}", where, seconds, verdict))
    return rows


def main(chosen: Sequence[str]) -> None:
    """Click the buttons under each load, and print the table; without a choice, also write it."""
    runs: list[Run] = []
    loads = [each for each in LOADS if each in chosen] or LOADS
    pages = [page for page in BUTTONS if page in chosen] or list(BUTTONS)
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, menu_is_known():
        wide = Path(folder) / f"{SAMPLES:,} x {CLASSES:,}.npz"
        np.savez(wide, **dict(simulate_set(SAMPLES, SAMPLES, CLASSES, seed=0).arrays()))
        sets: dict[str, Path | None] = {"digits": None, "cifar10_corrupted": None, wide.stem: wide}
        for load_name in loads:
            context: Callable[[], object] = nullcontext if load_name == "quiet" else lambda: busy_processes(1)
            with context() as switch:  # type: ignore[attr-defined]
                if switch is not None:
                    switch(True)
                for name, file in sets.items():
                    runs += clicks(name, file, load_name, pages)
    long = [run for run in runs if run.taken >= SHORT]
    factors = [run.factor for run in long] or [1.0]
    summary = (
        f"{sum(run.passed for run in long)} of {len(long)} runs of at least {SHORT:.0f} s stay within a factor of "
        f"{BOUND}; the median is {statistics.median(factors):.2f}, the worst {max(factors):.2f}."
    )
    print(table(("page", "button", "factor", "growth", "worst on", "promised / taken, s", ""), by_button(runs)))
    print(summary, f"{time.perf_counter() - begin:.0f} s in all", sep="\n")
    print("PASS" if all(run.passed for run in runs) else "FAIL")
    if chosen:
        return
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
    lines = [heads, ("---",) * len(heads), *listed]
    REPORT.write_text(
        "# Estimates\n\n`python -m benchmarks.estimates`: seconds promised beside each run button and taken, and the "
        f"estimated total over the time taken, at its worst after the first tenth. {summary} {machine()}.\n\n"
        + "\n".join(f"| {' | '.join(line)} |" for line in lines)
        + "\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
