"""The views of a finished benchmark: sets by methods, ranking, properties of the sets, improvement and losses."""

from __future__ import annotations

from typing import Any

import streamlit as st

from pages.shared import benchmarks, charts, datasets, downloads, model_pairs, navigation, tables
from pages.shared.benchmarks import LABELS
from pages.shared.components import plain_text
from pages.shared.glossary import note
from smart_core.evaluation import HEADLINE, METRICS
from smart_core.experiments.benchmark_result import PROPERTIES, Benchmark
from smart_core.experiments.set_ranking import wilcoxon
from smart_core.figures import benchmark_matrix, critical_difference_diagram, property_scatter, win_matrix


def show_result(result: Benchmark, metric: str, look: dict[str, Any]) -> None:
    """The matrix first, then the statistics over sets."""
    label = METRICS[metric].label
    orders = {"": "as chosen", **PROPERTIES} | {id: f"{label} of {LABELS.get(id, id)}" for id in result.methods}
    order = st.selectbox(
        "Sort data sets by", list(orders), format_func=orders.__getitem__, key="benchmark-order", width=300
    )
    shown = result.by(order, metric) if order else result
    event = charts.show(benchmark_matrix(shown, metric, **look), "benchmark-matrix", on_select="rerun")
    note(
        "Bold: best of the set. Underlined: second. Star: not significantly different from the best (paired test, "
        "Holm's correction). The stronger the colour, the further a cell is from the best of its set. Click a cell to "
        "open its data set on Compare."
    )
    show_ties(result, metric)
    open_clicked(event, shown)
    with st.container(horizontal=True):
        downloads.button("LaTeX table", result.to_latex(metric).encode(), "benchmark.tex", "benchmark-latex")
        downloads.button("JSON", result.to_json().encode(), "benchmark.json", "benchmark-json")
    ranks, where, improvement, losses = st.tabs(
        ["Ranking over sets", "Where a method wins", "Improvement and time", "Training losses"]
    )
    with ranks:
        show_ranking(result, metric, "benchmark", look)
    with where:
        show_properties(result, metric, look)
    with improvement:
        show_improvement(result)
    with losses:
        show_losses(result, metric, look)


def open_clicked(event: Any, result: Benchmark) -> None:
    """Open the set of a clicked cell on Compare."""
    points = event.selection.points
    names = list(result.cells)
    if not points or int(points[0]["y"]) >= len(names):
        return
    name = names[int(points[0]["y"])]
    keys = [key for key, title in datasets.titles().items() if title == name]
    if keys and st.button(f"Open {plain_text(name)} on Compare", key="open-set"):
        datasets.select(keys[0])
        navigation.go("pages/compare.py")


def show_ties(result: Benchmark, metric: str) -> None:
    """Offer the paired tests by a metric that the benchmark was not run with."""
    if metric not in HEADLINE:
        note(f"There is no paired test of {METRICS[metric].label}.")
    elif result.complete and metric not in result.tied and not benchmarks.running():
        if st.button(f"Test which methods are tied by {METRICS[metric].label}", key="mark-ties"):
            benchmarks.mark_ties(metric)
            st.rerun()
    elif len(result.tied.get(metric, {})) < len(result.sets) and not benchmarks.running():
        note("Sets without stars were not tested: their predictions are no longer there, or the tests were cancelled.")


def show_ranking(result: Benchmark, metric: str, key: str, look: dict[str, Any]) -> None:
    """Mean ranks with the critical difference, and who beats whom."""
    ranking = result.ranking(metric)
    if ranking is None:
        note("The ranking needs two methods with values on every set.")
        return
    st.markdown(plain_text(result.verdict(metric)))
    left, right = st.columns(2)
    with left:
        charts.show(critical_difference_diagram(ranking, **look), f"{key}-ranks")
    with right:
        charts.show(win_matrix(ranking, **look), f"{key}-wins")
    summary = result.summary(metric).rename(index=LABELS).rename_axis("method").reset_index()
    summary.columns = [column.replace("_", " ") for column in summary]
    rates = [column for column in summary if column.startswith("win rate")]
    tables.show(summary, f"{key}-summary", "ranking", rates)
    note("Win rate: share of pairwise comparisons won. Low, high: 95% bootstrap interval over data sets.")
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
            "Property (x-axis)",
            list(PROPERTIES),
            format_func=PROPERTIES.__getitem__,
            key="benchmark-property",
            width=300,
        )
        known = [id for id in result.methods if id != "vanilla"]
        drawn = st.multiselect(
            "Methods", known, default=known[:4], format_func=LABELS.__getitem__, key="benchmark-drawn", max_selections=6
        )
    if drawn:
        charts.show(property_scatter(result, of, drawn, metric, **look), "benchmark-where")


def show_improvement(result: Benchmark) -> None:
    """Post-hoc improvement in proper scores for each set, and the time of fits."""
    if "vanilla" not in result.methods:
        st.caption("The improvement is over the uncalibrated model: add Vanilla to the methods.")
        return
    scores = {METRICS[name].label: name for name in ("nll", "brier")}
    score = st.segmented_control("Proper score", list(scores), default="NLL", required=True, key="benchmark-score")
    st.markdown(f"Relative reduction of the uncalibrated model's {score}.")
    frame = result.improvement(scores[score]).rename(columns=LABELS).rename_axis("data set").reset_index()
    tables.show(frame, "benchmark-improvement", "improvement", list(frame.columns[1:]))
    seconds = result.to_frame().groupby("method", sort=False)["fit_seconds"].mean()
    times = seconds.rename(index=LABELS).rename("seconds per fit, mean over sets").reset_index()
    tables.show(times, "benchmark-seconds", "fit-seconds")


def show_losses(result: Benchmark, metric: str, look: dict[str, Any]) -> None:
    """Models of the same test samples, such as one trained with several losses, before and after a method."""
    groups = model_pairs.groups_of_titles(list(result.sets))
    after = [id for id in result.methods if id != "vanilla"]
    if "vanilla" not in result.methods or not after or not groups:
        note(
            "Models of the same test samples, trained with different losses, are compared here before and after a "
            "method: run the benchmark with several of them, Vanilla and another method."
        )
        return
    method = st.selectbox(
        "After",
        after,
        after.index("smart") if "smart" in after else 0,
        lambda id: LABELS.get(id, id),
        key="losses-after",
        width=200,
    )
    for number, names in enumerate(groups):
        view = result.view(names, ("vanilla", method))
        charts.show(benchmark_matrix(view, metric, **look), f"losses-{number}")
        downloads.button("LaTeX table", view.to_latex(metric).encode(), "losses.tex", f"losses-{number}-latex")
