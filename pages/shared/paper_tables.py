"""The paper's tables on the Benchmark page: its claims, a set of the user's beside them, and where they disagree."""

from __future__ import annotations

from typing import Any

import streamlit as st

from pages.shared import benchmarks, charts, downloads
from pages.shared.benchmark_views import show_ranking
from pages.shared.components import plain_text
from pages.shared.glossary import note
from smart_core.evaluation import METRICS
from smart_core.experiments import paper
from smart_core.experiments.benchmark_result import PAPER_TABLES, Benchmark, paper_benchmark, paper_row_of
from smart_core.experiments.paper_claims import checked
from smart_core.figures import benchmark_matrix


def show_paper(metric: str, look: dict[str, Any]) -> None:
    """The paper's table in the same views, its claims, and a set of the user's below the row of the same model."""
    if metric not in PAPER_TABLES:
        note(f"The paper has no table of {METRICS[metric].label} over all of its networks; choose ECE or AdaECE.")
        return
    for claim in checked(metric):
        st.markdown(f"{'✓' if claim.holds else '✕'} {plain_text(claim.sentence)}")
    study = benchmarks.latest()
    if study is not None and study.result.cells:
        show_beside(study.result, metric, look)
    table = paper_benchmark(metric)
    charts.show(benchmark_matrix(table, metric, **look), "paper-matrix")
    downloads.button("LaTeX table", table.to_latex(metric).encode(), "paper.tex", "paper-latex")
    show_ranking(table, metric, "paper", look)
    show_tensions(metric)
    with st.expander("Models trained with other losses", key="paper-losses-box", on_change="rerun") as losses:
        if losses.open:
            trained = paper_benchmark(metric, training=True)
            charts.show(benchmark_matrix(trained, metric, **look), "paper-losses")


def show_beside(result: Benchmark, metric: str, look: dict[str, Any]) -> None:
    """A set of the benchmark below the row of the same model in the paper."""
    printed, names = list(paper_benchmark(metric).sets), list(result.cells)
    known = [name for name in names if paper_row_of(name) is not None]
    with st.container(horizontal=True):
        name = st.selectbox("Your data set", names, names.index(known[0]) if known else 0, key="beside-set", width=300)
        own = paper_row_of(name)
        row = st.selectbox(
            "The same model in the paper",
            printed,
            printed.index(own) if own else None,
            key=f"beside-row-{name}",
            width=300,
        )
    if row is None:
        return
    both = result.beside_paper(name, row, metric)
    if both.methods:
        charts.show(benchmark_matrix(both, metric, **look), "beside-paper")
    else:
        note("The benchmark has none of the methods of the paper's table.")


def show_tensions(metric: str) -> None:
    """Where the paper disagrees with itself about a metric."""
    labels = {row.table for row in paper.rows(metric=metric)}
    for tension in paper.TENSIONS:
        if labels & set(tension.tables):
            st.caption(tension.text)
