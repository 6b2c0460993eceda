"""The jobs of the Benchmark page: the benchmark itself, and paired tests by another metric."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence

import streamlit as st

from pages.shared import datasets, estimates, leaderboard, session
from pages.shared.studies import Settings, Study
from smart_core.calibrators import methods
from smart_core.evaluation import METRICS
from smart_core.experiments import benchmark as engine
from smart_core.experiments.benchmark import FITTED, record_key
from smart_core.experiments.benchmark_result import Benchmark
from smart_core.experiments.running import seeds_for, unavailable
from smart_core.formatting import plural
from smart_core.progress import Run

KIND = "benchmark"
EVERY_SET = "every set"
"""Stands for the data set of a job that is about several."""

LABELS = {id: method.label for id, method in methods().items()}
DEFAULT_METHODS = ("vanilla", "ts", "ets", "vector", "isotonic", "spline", "smart")


def cost(keys: Sequence[str], methods: Sequence[str], seeds: int, splits: int, bins: int) -> tuple[int, float]:
    """Return the number of fits that are still to be made on data sets, and their estimated seconds."""
    records, number, seconds = session.current().records.records, 0, 0.0
    for key in keys:
        data = datasets.get(key)
        times = splits if any(notice.code == "split" for notice in data.notices) else 1
        for id in methods:
            if unavailable(id, data) is None:
                settings = {"device": "auto", **leaderboard.chosen_settings(id)}
                known = (record_key(data, id, settings, seed, bins) in records for seed in seeds_for(id, seeds))
                missing = times * len(seeds_for(id, seeds)) - sum(known)
                number += missing
                seconds += estimates.fits(data, id, missing, settings=settings)
    return number, seconds / FITTED


def start(made_with: Settings, estimate: float | None = None) -> None:
    """Start the benchmark as a job; finished fits of earlier benchmarks are used.

    `made_with` has the keys of the data sets and the arguments of `benchmark`. Data sets that are gone are left out.
    """
    here, titles = session.current(), datasets.titles()
    here.datasets.save()
    keys = [key for key in made_with["sets"] if key in titles]
    if not keys:
        st.toast("Its data sets are no longer in the workspace.")
        return
    sets = {titles[key]: datasets.get(key) for key in keys}
    options = {name: value for name, value in made_with.items() if name != "sets"}
    settings = {id: leaderboard.chosen_settings(id) for id in made_with["methods"]}
    studies, records = here.studies, here.records  # the job must not reference the session itself

    def publish(result: Benchmark) -> None:
        studies[KIND] = Study(copy.deepcopy(result), made_with, time.time())

    def work(run: Run) -> None:
        publish(
            engine.benchmark(
                sets,
                **options,
                settings=settings,
                records=records,
                progress=run.progress,
                cancel=run.cancel,
                on_result=publish,
            )
        )

    fits = f"{plural(len(made_with['methods']), 'method')} on {plural(len(sets), 'data set')}"
    note = {"data": session.data_key(), "settings": made_with}
    here.jobs.start(f"Benchmark: {fits}", work, kind=KIND, data_hash=EVERY_SET, note=note, estimate=estimate)


def mark_ties(metric: str) -> None:
    """Run the paired tests of the benchmark by another metric, as a job."""
    here, study = session.current(), latest()
    if study is None:
        return
    studies, records, result = here.studies, here.records, copy.deepcopy(study.result)

    def work(run: Run) -> None:
        try:
            engine.mark_ties(result, records, metric, run=run)
        finally:
            studies[KIND] = Study(result, study.settings, time.time())

    here.jobs.start(f"Paired tests by {METRICS[metric].label}", work, kind=KIND, data_hash=EVERY_SET)


def running() -> bool:
    """Return whether a benchmark is being computed."""
    return session.current().jobs.active(KIND, EVERY_SET) is not None


def latest() -> Study | None:
    """Return the benchmark so far."""
    found: Study | None = session.current().studies.get(KIND)
    return found
