"""Downloads of what was computed on a data set: tables of the leaderboard, the report, and all figures."""

from __future__ import annotations

import streamlit as st

from pages.shared import benchmarks, datasets, downloads, leaderboard, session, studies
from smart_core import LogitSet
from smart_core.evaluation import METRICS
from smart_core.experiments import Comparison
from smart_core.experiments.sensitivity import Sensitivity
from smart_core.export import comparison_csv, comparison_latex
from smart_core.formatting import plural
from smart_core.report import Findings, figures_html, report_html
from smart_core.report.reproduce import compare_code

# The page with the figures runs in a frame that may run scripts and save files, and can reach nothing of the app.
FRAME = """export default function ({ data, parentElement }) {
  const frame = parentElement.querySelector("iframe") ?? document.createElement("iframe");
  frame.sandbox = "allow-scripts allow-downloads";
  frame.title = "Download all figures";
  frame.style = "border: 0; width: 100%; height: 56px; color-scheme: auto";
  if (frame.srcdoc !== data.page) frame.srcdoc = data.page;
  if (!frame.isConnected) parentElement.append(frame);
}"""


def tables(ranking: Comparison) -> None:
    """Draw the downloads of the leaderboard."""
    st.caption(f"{plural(len(ranking.results), 'method')}, with ties by {METRICS[ranking.metric].label}.")
    name = downloads.file_stem(datasets.current_title(), "metrics")
    with st.container(horizontal=True):
        downloads.button("Download CSV", lambda: comparison_csv(ranking).encode(), f"{name}.csv", "export-metrics-csv")
        downloads.button("Download JSON", lambda: ranking.to_json().encode(), f"{name}.json", "export-metrics-json")
        downloads.button(
            "Download LaTeX",
            lambda: comparison_latex(ranking, methods="rows").encode(),
            f"{name}.tex",
            "export-metrics-latex",
        )
        downloads.button(
            "Download LaTeX, methods as columns",
            lambda: comparison_latex(ranking, methods="columns", metrics=[ranking.metric]).encode(),
            f"{name}-across.tex",
            "export-metrics-latex-across",
            help="The paper's layout: one row for the data set, one column per method.",
        )


def report(ranking: Comparison, bins: int) -> None:
    """Draw the download of the report on everything that is fitted."""
    results, title = ranking.results, datasets.current_title()
    seeds = max(row.seeds for id, row in leaderboard.rows(ranking.data).items() if id in results)
    settings = {id: leaderboard.chosen_settings(id) for id in results}
    code = compare_code(datasets.load_code(), list(results), seeds, bins, ranking.metric, settings)
    grid, selected = _sensitivity_grid(ranking.data, bins), session.selected()
    over_sets = benchmarks.latest()
    more = over_sets.result if over_sets is not None and over_sets.result.cells else None
    found = Findings(ranking, bins, grid, title, code, selected=selected, benchmark=more)
    by_margin = ", reliability by margin group, temperature curve" if ranking.data.kind == "logits" else ", reliability"
    st.caption(
        f"Verdict, leaderboard{by_margin}, settings, and the benchmark if there is one: one HTML file of about 5 MB "
        "that opens offline and prints. Each figure can be saved as SVG, PNG, CSV and JSON."
    )
    name = f"{downloads.file_stem(title, 'report')}.html"
    with st.container(horizontal=True):
        downloads.button("Download report", lambda: report_html(found).encode(), name, "export-report")
        wanted = st.button("Prepare all figures", key="export-figures", help="A zip of SVG, PNG, CSV and JSON files.")
    if wanted:
        with st.spinner("Drawing the figures"):
            page = figures_html(found, downloads.file_stem(title, "figures"))
        st.session_state[session.FIGURES] = (found, page)
    prepared = st.session_state.get(session.FIGURES)
    if prepared is not None and _same(prepared[0], found):  # a rerun, such as when a job ends, leaves it there
        st.components.v2.component("figures", js=FRAME)(data={"page": prepared[1]}, key="figures-frame")


def _same(one: Findings, other: Findings) -> bool:
    """Return whether two reports are on the same results."""
    shared = all(getattr(one, name) is getattr(other, name) for name in ("comparison", "sensitivity", "benchmark"))
    return shared and (one.name, one.bins, one.selected) == (other.name, other.bins, other.selected)


def _sensitivity_grid(data: LogitSet, bins: int) -> Sensitivity | None:
    """Return the latest sensitivity grid of this data set, if it is complete and uses these bins."""
    study = studies.find(data, "sensitivity")
    if study is None or not isinstance(study.result, Sensitivity):
        return None
    return study.result if study.result.complete and study.settings.get("bins") == bins else None
