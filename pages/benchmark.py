"""Benchmark: which calibrator is best over many data sets, and is that more than chance?"""

from __future__ import annotations

import streamlit as st

from pages.shared import (
    benchmark_views,
    benchmarks,
    charts,
    datasets,
    estimates,
    model_pairs,
    navigation,
    paper_tables,
    resume,
    session,
)
from pages.shared.benchmarks import LABELS
from pages.shared.components import IN_URL, python_code, seeds_input
from pages.shared.glossary import note

navigation.enter()

MAX_SPLITS = 20


def controls(bins: int, metric: str) -> None:
    """Choose sets and methods, and start the job."""
    titles = datasets.titles()
    # below each other: beside each other they hide what does not fit
    sets = st.multiselect(
        "Data sets",
        list(titles),
        default=list(titles)[:3],
        format_func=titles.__getitem__,
        key="benchmark-sets",
        persist_state="session",
        help="The samples, and every file that you opened. Open more files on Start.",
    )
    chosen = st.multiselect(
        "Methods",
        list(LABELS),
        default=list(benchmarks.DEFAULT_METHODS),
        format_func=LABELS.__getitem__,
        key="benchmark-methods",
        persist_state="session",
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        seeds = seeds_input("benchmark-seeds", 3)
        about = "Random splits of files that have no split of their own; others are used as they are."
        splits = st.number_input("Splits", 1, MAX_SPLITS, 1, key="benchmark-splits", **IN_URL, width=130, help=about)
        running = benchmarks.running()
        run = st.button(
            "Run the benchmark",
            type="primary",
            key="run-benchmark",
            shortcut="Ctrl+Enter",
            disabled=running or not sets or not chosen,
        )
    own = session.current().datasets
    read = all(own[key].is_open for key in sets if key in own)  # an estimate is not worth reading large files
    number, seconds = benchmarks.cost(sets, chosen, seeds, splits, bins) if read else (0, None)
    if run:
        options = {"seeds": seeds, "splits": splits, "bins": bins, "metric": metric}
        benchmarks.start({"sets": sets, "methods": chosen, **options}, seconds)
        st.rerun()
    if not running:
        left = "" if seconds is None else f"{estimates.text(number, seconds)} " if number else "All fits are done. "
        note(f"{left}Finished fits are reused, so you can add a data set or a method and run again.")


bins, metric = session.bins(), session.metric()
st.title("Benchmark")
st.markdown("Which calibrator is best over many data sets, and is that more than chance?")
controls(bins, metric)
resume.study(benchmarks.KIND, benchmarks.start)
look = charts.look(datasets.current(), metric)
own, paper, two = st.tabs(["Your data sets", "The paper", model_pairs.TAB], key=model_pairs.TABS, bind="query-params")
if own.open:
    with own:
        study = benchmarks.latest()
        if study is None:
            note("Cells appear as they finish." if benchmarks.running() else "Not run yet.")
        else:
            benchmark_views.show_result(study.result, metric, look)
if paper.open:
    with paper:
        paper_tables.show_paper(metric, look)
if two.open:
    with two:
        model_pairs.draw(bins, look)

python_code(
    """
sets = {"first": data, "second": sc.load("another_file.npz")}
result = sc.benchmark(sets, methods="all", seeds=3, records="results.json")
print(result.matrix(), result.summary(), result.to_latex())
"""
)
