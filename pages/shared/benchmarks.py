"""The Benchmark page's jobs and smaller views: improvement, the paper's claims, two models on the same samples."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from pages.shared import cache, charts, datasets, leaderboard, session, tables
from pages.shared.components import plain_text
from pages.shared.studies import Study
from smart_core import LogitSet
from smart_core.calibrators import method_named, methods
from smart_core.evaluation import METRICS, metric_number
from smart_core.experiments import paper
from smart_core.experiments.benchmark import benchmark
from smart_core.experiments.benchmark_result import Benchmark
from smart_core.experiments.model_pair import ModelPair, same_test_labels
from smart_core.figures import Curve, reliability_diagram
from smart_core.formatting import plural
from smart_core.metrics.binning import reliability
from smart_core.progress import Run

KIND = "benchmark"
EVERY_SET = "every set"
"""Stands for the data set of a job that is about several."""

DEFAULT_METHODS = ("vanilla", "ts", "ets", "vector", "isotonic", "spline", "smart")
SHOWN_SAMPLES = 200


def start(sets: Mapping[str, LogitSet], chosen: Sequence[str], **options: Any) -> None:
    """Start the benchmark as a job; finished fits of earlier benchmarks are used."""
    here = session.current()
    studies, records = here.studies, here.records  # the job must not reference the session itself

    made_with = {"sets": list(sets), "methods": list(chosen), **options}
    settings = {id: leaderboard.chosen_settings(id) for id in chosen}

    def publish(result: Benchmark) -> None:
        studies[KIND] = Study(copy.deepcopy(result), made_with, time.time())

    def work(run: Run) -> None:
        publish(
            benchmark(
                sets,
                list(chosen),
                **options,
                settings=settings,
                records=records,
                progress=run.progress,
                cancel=run.cancel,
                on_result=publish,
            )
        )

    fits = f"{plural(len(chosen), 'method')} on {plural(len(sets), 'data set')}"
    here.jobs.start(f"Benchmark: {fits}", work, kind=KIND, data_hash=EVERY_SET)


def running() -> bool:
    """Return whether a benchmark is being computed."""
    return session.current().jobs.active(KIND, EVERY_SET) is not None


def latest() -> Study | None:
    """Return the benchmark so far."""
    found: Study | None = session.current().studies.get(KIND)
    return found


def show_improvement(result: Benchmark) -> None:
    """Post-hoc improvement in proper scores for each set, and the time of fits."""
    if "vanilla" not in result.methods:
        st.caption("The improvement is over the uncalibrated model: add Vanilla to the methods.")
        return
    labels = {id: method.label for id, method in methods().items()}
    scores = {METRICS[name].label: name for name in ("nll", "brier")}
    score = st.segmented_control("Proper score", list(scores), default="NLL", required=True, key="benchmark-score")
    st.markdown(f"By how much each method lowers the model's {score}, as a share of it.")
    frame = result.improvement(scores[score]).rename(columns=labels).rename_axis("data set").reset_index()
    tables.show(frame, "benchmark-improvement", "improvement", list(frame.columns[1:]))
    seconds = result.to_frame().groupby("method", sort=False)["fit_seconds"].mean()
    times = seconds.rename(index=labels).rename("seconds per fit, mean over sets").reset_index()
    tables.show(times, "benchmark-seconds", "fit-seconds")


def show_claims(metric: str) -> None:
    """The paper's claims over its networks, where its own cells disagree with them."""
    labels = {row.table for row in paper.rows(metric=metric)}
    for tension in paper.TENSIONS:
        if labels & set(tension.tables):
            st.caption(tension.text)


def show_two_models(bins: int, look: dict[str, Any]) -> None:
    """Two data sets with the same test labels, compared sample by sample."""
    titles = datasets.titles()
    here = datasets.current()
    others = [key for key in titles if key != datasets.current_key() and datasets.classes(key) == here.classes]
    partners = [key for key in others if same_test_labels(here, datasets.get(key))]
    if not partners:
        st.caption(
            f"No other data set has the test labels of {plain_text(datasets.current_title())}. Open the predictions of "
            "a second model on the same test samples, in the same order."
        )
        return
    with st.container(horizontal=True):
        other = st.selectbox(
            f"Compare {plain_text(datasets.current_title())} with",
            partners,
            format_func=titles.__getitem__,
            key="pair-with",
        )
        method = st.selectbox(
            "Both calibrated by",
            list(methods()),
            format_func=lambda id: method_named(id).label,
            key="pair-method",
            width=200,
        )
    pair = cache.model_pair(here, datasets.get(other), method, bins)
    names = (datasets.current_title(), titles[other])
    _differences(pair, names)
    curves = [
        Curve(reliability(one.confidence, one.correct, bins), drawn_as, name)
        for name, one, drawn_as in zip(names, pair.evaluations, ("vanilla", "ts"), strict=True)
    ]
    charts.show(reliability_diagram(curves, **look), "pair-reliability")
    rows = pair.disagreeing[:SHOWN_SAMPLES]
    st.markdown(f"The two models disagree on {plural(len(pair.disagreeing), 'sample')} of {len(here.test):,}.")
    if len(rows):
        first, second = pair.evaluations
        tables.show(
            pd.DataFrame(
                {
                    "row": rows,
                    "label": here.test.labels[rows],
                    f"{names[0]} predicts": first.prediction[rows],
                    f"{names[0]} confidence": first.confidence[rows],
                    f"{names[1]} predicts": second.prediction[rows],
                    f"{names[1]} confidence": second.confidence[rows],
                }
            ),
            "pair-samples",
            "disagreement",
            (f"{names[0]} confidence", f"{names[1]} confidence"),
        )


def _differences(pair: ModelPair, names: tuple[str, str]) -> None:
    rows = []
    for name, found in pair.differences.items():
        values = [metric_number(name, one.metric(name)) for one in pair.evaluations]
        ends = " to ".join(metric_number(name, end) for end in (found.low, found.high))
        real = "real" if found.low > 0 or found.high < 0 else "may be noise"
        unit = ", %" if METRICS[name].percent else ""
        rows.append((f"{METRICS[name].label}{unit}", *values, metric_number(name, found.mean), ends, real))
    frame = pd.DataFrame(rows, columns=["metric", *names, "difference", "difference, 95 %", "verdict"])
    tables.show(frame, "pair-differences", "two-models")
