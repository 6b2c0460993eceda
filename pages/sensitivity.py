"""Sensitivity: how much does SMART depend on its bandwidth and its smoothing?"""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

import smart_core as sc
from pages.shared import board, library, routing, settings_form, show, state, studies
from smart_core import LogitSet
from smart_core.evaluation import METRICS
from smart_core.experiments import paper
from smart_core.experiments.sensitivity import PAPER_DELTAS, PAPER_SIGMAS, Sensitivity
from smart_core.figures import sensitivity_heatmap
from smart_core.formatting import metric_value
from smart_core.progress import Run

routing.enter()

KIND = "sensitivity"
MOST = 20
"""Values along one side of the grid."""


def values(label: str, key: str, default: tuple[float, ...], help: str) -> tuple[float, ...]:
    """Numbers typed by hand; the paper's where they cannot be read."""
    text = st.text_input(
        label,
        ", ".join(f"{value:g}" for value in default),
        key=key,
        bind="query-params",
        persist_state="session",
        width=280,
        help=help,
    )
    try:
        found = tuple(sorted({float(part) for part in text.replace(";", ",").split(",") if part.strip()}))
    except ValueError:
        found = ()
    if not found or len(found) > MOST or not all(0 < value < 100 for value in found):
        st.warning(
            f"{label}: give 1 to {MOST} positive numbers below 100, with commas between. The paper's are taken instead."
        )
        return default
    return found


def begin(data: LogitSet, made_with: dict[str, Any]) -> None:
    """Start the study; each finished cell is shown at once."""

    def compute(run: Run, publish: studies.Publish) -> None:
        publish(
            sc.sensitivity(
                data,
                made_with["sigma"],
                made_with["delta"],
                made_with["seeds"],
                bins=made_with["bins"],
                progress=run.progress,
                cancel=run.cancel,
                on_cell=lambda row, column, result: publish(result),
            )
        )

    studies.start(data, KIND, "Sensitivity", compute, made_with)


def verdict(result: Sensitivity, metric: str) -> str:
    """How far the cells lie apart, and where the paper's choice stands among them."""
    cells = result.mean(metric)
    done = np.isfinite(cells)
    if not done.any():
        return "No cell is finished yet."
    least, most = (metric_value(metric, end(cells)) for end in (np.nanmin, np.nanmax))
    spread = f"{METRICS[metric].label} runs from {least} to {most}"
    words = f"{spread} over {done.sum()} of {cells.size} cells"
    here = [(i, j) for i, s in enumerate(result.sigmas) for j, d in enumerate(result.deltas) if (s, d) == paper.DEFAULT]
    if here and done[here[0]]:
        words += f"; the paper's choice gives {metric_value(metric, float(cells[here[0]]))}"
        if result.seeds > 1:
            words += f" ± {metric_value(metric, float(result.std(metric)[here[0]]))} over seeds"
    return f"{words}."


def selected(event: Any, result: Sensitivity) -> tuple[float, float] | None:
    """Sigma and delta of the cell that was clicked."""
    points = event.selection.points
    if not points:
        return None
    row, column = int(points[0]["y"]), int(points[0]["x"])
    if row >= len(result.sigmas) or column >= len(result.deltas):  # clicked in an earlier, larger grid
        return None
    return result.sigmas[row], result.deltas[column]


def load_cell(data: LogitSet, cell: tuple[float, float] | None, seeds: int, bins: int) -> None:
    """Offer to make a cell SMART's setting on every page, and say what SMART is set to."""
    if cell is None:
        st.caption("Click a cell to fit SMART with its settings, for every page.")
    elif st.button(f"Fit SMART with sigma {cell[0]:g} and delta {cell[1]:g}", key="load-cell"):
        for name, value in zip(("sigma", "delta"), cell, strict=True):
            settings_form.put("smart", name, value)
        board.fit(data, ["smart"], seeds=seeds, bins=bins)
        st.rerun()
    chosen = board.chosen_settings("smart")
    if {"sigma", "delta"} & set(chosen):
        sigma, delta = (chosen.get(name, usual) for name, usual in zip(("sigma", "delta"), paper.DEFAULT, strict=True))
        state_of = "being fitted" if studies.running(data, "compare") else "set"
        st.info(f"SMART is {state_of} with sigma {sigma:g} and delta {delta:g} on every page; Compare resets it.")


bins: int = st.session_state[state.BINS]
metric: str = st.session_state[state.METRIC]
data = library.current()
st.title("Sensitivity")
st.markdown(
    "How much does SMART depend on its two settings? It is fitted anew for every bandwidth sigma of its soft bins and "
    "every Charbonnier delta, and judged on test."
)

with st.container(horizontal=True, vertical_alignment="bottom"):
    sigmas = values("Sigma", "sigmas", PAPER_SIGMAS, "Bandwidths of the soft bins. The paper's default is 0.05.")
    deltas = values("Delta", "deltas", PAPER_DELTAS, "Charbonnier smoothing. The paper's default is 0.001.")
    seeds = st.number_input(
        "Seeds",
        1,
        20,
        5,
        key="sensitivity-seeds",
        bind="query-params",
        persist_state="session",
        width=120,
        help="Fits in each cell, each from other initial weights. The paper takes 5.",
    )
made_with = {"sigma": sigmas, "delta": deltas, "seeds": seeds, "bins": bins}
running = studies.running(data, KIND)
if st.button("Run the grid", type="primary", key="run-sensitivity", shortcut="Ctrl+Enter", disabled=running):
    begin(data, made_with)
    st.rerun()
cost = studies.estimate(len(sigmas) * len(deltas) * seeds, studies.fit_seconds(data))
st.caption(f"{cost} Cancel keeps the cells that are finished.")

study = studies.found(data, KIND, made_with)
look: dict[str, Any] = {"dark": show.dark(), "uirevision": data.content_hash}
if study is not None:
    st.markdown(f"##### {verdict(study.result, metric)}")
    st.caption(studies.chance(data, metric, bins))
left, right = st.columns(2)
with left:
    st.subheader("Here")
    if study is None:
        st.caption("The cells appear as they are finished." if running else "Not run yet.")
    else:
        with studies.shown(study, data, KIND, made_with):
            chart = sensitivity_heatmap(study.result, metric, **look)
            cell = selected(show.chart(chart, "sensitivity", on_select="rerun"), study.result)
        load_cell(data, cell, seeds, bins)
        st.caption(
            "Outlined: the paper's choice. The best cell is the best on these test samples: choosing it by them is "
            "selection on test, and its figure is then too good."
        )
with right:
    st.subheader("In the paper")
    model = st.selectbox(
        "ImageNet network",
        ["ResNet-50", "ViT-B/16"],
        key="paper-grid",
        persist_state="session",
        width=200,
        help="The paper prints the ECE of two networks.",
    )
    grid = paper.sensitivity_grid("ImageNet", model)
    show.chart(sensitivity_heatmap(grid, "ece", source=f"paper, {model}", **look), "paper-sensitivity")
    for tension in paper.TENSIONS:
        if grid.table in tension.tables:
            st.caption(tension.text)

show.python(
    library.load_code()
    + f"""
sigmas, deltas = {list(sigmas)}, {list(deltas)}
result = sc.sensitivity(data, sigmas, deltas, seeds={seeds}, bins={bins}, metric="{metric}")
print(result.to_frame()[["sigma", "delta", "{metric}", "{metric}_std"]])
"""
)
