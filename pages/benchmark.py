"""Benchmark: which calibrator is best over many data sets, and is that more than chance?"""

from __future__ import annotations

from typing import Any

import streamlit as st

from pages.shared import benchmarks, charts, datasets, downloads, navigation, session
from pages.shared.components import IN_URL, plain_text, python_code, seeds_input
from pages.shared.glossary import note
from smart_core.calibrators import methods
from smart_core.errors import SmartError
from smart_core.evaluation import METRICS
from smart_core.experiments.benchmark_result import PROPERTIES, Benchmark, paper_benchmark
from smart_core.experiments.set_ranking import wilcoxon
from smart_core.figures import benchmark_matrix, critical_difference_diagram, property_scatter, win_matrix
from smart_core.formatting import plural

navigation.enter()

MAX_SPLITS = 20
FEWEST_SETS = 5
"""Sets from which on a test over sets is reported: below, not even a method that wins on all of them is significant."""
LABELS = {id: method.label for id, method in methods().items()}


def controls(bins: int, metric: str) -> None:
    """Choose sets and methods, and start the job."""
    titles = datasets.titles()
    with st.container(horizontal=True, vertical_alignment="bottom"):
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
        seeds = seeds_input("benchmark-seeds", 3, "Fits of each method with random initial weights.")
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
    if run:
        benchmarks.start(
            {titles[key]: datasets.get(key) for key in sets},
            chosen,
            seeds=seeds,
            splits=splits,
            bins=bins,
            metric=metric,
        )
        st.rerun()
    if not running:
        note("Cells fill in as they finish. Finished fits are kept: add a set or a method and run again.")


def open_clicked(event: Any, result: Benchmark) -> None:
    """Open the set of a clicked cell on Compare."""
    points = event.selection.points
    names = list(result.cells)
    if not points or int(points[0]["y"]) >= len(names):
        note("Click a cell to open its data set on Compare.")
        return
    name = names[int(points[0]["y"])]
    keys = [key for key, title in datasets.titles().items() if title == name]
    if keys and st.button(f"Open {plain_text(name)} on Compare", key="open-set"):
        datasets.select(keys[0])
        navigation.go("pages/compare.py")


def show_ranking(result: Benchmark, metric: str, key: str, look: dict[str, Any]) -> None:
    """Mean ranks with the critical difference, and who beats whom."""
    ranking = result.ranking(metric)
    if ranking is None:
        note("The ranking needs two methods with values on every set.")
        return
    test = ranking.friedman
    if ranking.sets < FEWEST_SETS:
        note(f"{plural(ranking.sets, 'data set')}: too few for a claim over data sets.")
    elif test is not None:
        different = "rank differently beyond chance" if test.f_p < 0.05 else "cannot be told apart over these sets"
        st.markdown(f"The methods {different} (Friedman test with Iman and Davenport's F, p = {test.f_p:.2g}).")
    left, right = st.columns(2)
    with left:
        charts.show(critical_difference_diagram(ranking, **look), f"{key}-ranks")
    with right:
        charts.show(win_matrix(ranking, **look), f"{key}-wins")
    pair = st.multiselect(
        "Compare two methods",
        list(ranking.methods),
        default=[id for id in ("smart", "ts") if id in ranking.methods],
        max_selections=2,
        format_func=lambda id: LABELS.get(id, id),
        key=f"{key}-pair",
        persist_state="session",
    )
    if len(pair) == 2:
        values = result.matrix(metric).dropna()
        p_value = wilcoxon(values[pair[0]].to_numpy(), values[pair[1]].to_numpy())
        first, second = (LABELS.get(id, id) for id in pair)
        won = ranking.wins[ranking.methods.index(pair[0]), ranking.methods.index(pair[1])]
        st.markdown(
            f"{first} beats {second} on {won:.0%} of the sets; Wilcoxon's signed-rank test of no difference: "
            f"p = {p_value:.2g}."
        )


def show_properties(result: Benchmark, metric: str, look: dict[str, Any]) -> None:
    """Where a method wins: a metric against a property of the sets."""
    with st.container(horizontal=True):
        of = st.selectbox(
            "Against", list(PROPERTIES), format_func=PROPERTIES.__getitem__, key="benchmark-property", width=300
        )
        known = [id for id in result.methods if id != "vanilla"]
        drawn = st.multiselect(
            "Methods", known, default=known[:4], format_func=LABELS.__getitem__, key="benchmark-drawn", max_selections=6
        )
    if drawn:
        charts.show(property_scatter(result, of, drawn, metric, **look), "benchmark-where")


def show_result(result: Benchmark, metric: str, look: dict[str, Any]) -> None:
    """The matrix first, then the statistics over sets."""
    event = charts.show(benchmark_matrix(result, metric, **look), "benchmark-matrix", on_select="rerun")
    note(
        "Bold: best of the set. Underlined: second. Star: a paired test on the same samples, with Holm's correction, "
        "cannot tell it from the best. The darker a cell, the further it is from the best of its set."
    )
    open_clicked(event, result)
    with st.container(horizontal=True):
        downloads.button("LaTeX table", result.to_latex(metric).encode(), "benchmark.tex", "benchmark-latex")
        downloads.button("JSON", result.to_json().encode(), "benchmark.json", "benchmark-json")
    ranks, where, improvement = st.tabs(["Ranking over sets", "Where a method wins", "Improvement and time"])
    with ranks:
        show_ranking(result, metric, "benchmark", look)
    with where:
        show_properties(result, metric, look)
    with improvement:
        benchmarks.show_improvement(result)


bins, metric = session.bins(), session.metric()
st.title("Benchmark")
st.markdown("Which calibrator is best over many data sets, and is that more than chance?")
controls(bins, metric)
own, paper, two = st.tabs(["Your data sets", "The paper", "Two models"])
look = charts.look(datasets.current(), metric)
with own:
    study = benchmarks.latest()
    if study is None:
        note("Cells appear as they finish." if benchmarks.running() else "Not run yet.")
    else:
        show_result(study.result, metric, look)
with paper:
    try:
        table = paper_benchmark(metric)
        charts.show(benchmark_matrix(table, metric, **look), "paper-matrix")
        show_ranking(table, metric, "paper", look)
        benchmarks.show_claims(metric)
    except SmartError:
        note(f"The paper has no table of {METRICS[metric].label} over all of its networks; choose ECE or AdaECE.")
with two:
    benchmarks.show_two_models(bins, look)

python_code(
    """
sets = {"first": data, "second": sc.load("another_file.npz")}
result = sc.benchmark(sets, methods="all", seeds=3, records="results.json")
print(result.matrix(), result.summary(), result.to_latex())
"""
)
