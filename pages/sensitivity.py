"""Sensitivity: how much does SMART depend on sigma and delta?"""

from __future__ import annotations

from typing import Any

import streamlit as st

import smart_core as sc
from pages.shared import charts, chosen_on_test, datasets, estimates, navigation, resume, session, studies
from pages.shared.components import IN_URL, parse_numbers, python_code, seeds_input
from pages.shared.glossary import note, say
from pages.shared.verdicts import sensitivity_verdict
from smart_core import LogitSet
from smart_core.experiments import paper
from smart_core.experiments.sensitivity import PAPER_DELTAS, PAPER_SIGMAS, Sensitivity
from smart_core.figures import sensitivity_heatmap
from smart_core.progress import Run

navigation.enter()

KIND = "sensitivity"
MAX_VALUES = 20
"""Values along one side of the grid."""


def number_list(label: str, key: str, default: tuple[float, ...], help: str) -> tuple[float, ...]:
    """Ask for positive numbers; return the default if the text is invalid."""
    text = st.text_input(label, ", ".join(f"{value:g}" for value in default), key=key, **IN_URL, width=280, help=help)
    try:
        values = tuple(sorted(set(parse_numbers(text))))
    except ValueError:
        values = ()
    if not values or len(values) > MAX_VALUES or not all(0 < value < 100 for value in values):
        st.warning(
            f"{label}: enter 1 to {MAX_VALUES} positive numbers below 100, separated by commas. The paper's values are "
            "used instead."
        )
        return default
    return values


def start(data: LogitSet, settings: studies.Settings, estimate: float) -> None:
    """Start the study; each finished cell is published, and those of a run that was interrupted are kept."""
    known = studies.unfinished(data, KIND, settings)

    def compute(run: Run, publish: studies.Publish) -> None:
        publish(
            sc.sensitivity(
                data,
                settings["sigma"],
                settings["delta"],
                settings["seeds"],
                bins=settings["bins"],
                progress=run.progress,
                cancel=run.cancel,
                on_cell=lambda row, column, result: publish(result),
                known=known,
            )
        )

    studies.start(data, KIND, "Sensitivity", compute, settings, estimate)


def selected_cell(event: Any, result: Sensitivity) -> tuple[float, float] | None:
    """Return sigma and delta of the clicked cell."""
    points = event.selection.points
    if not points:
        return None
    row, column = int(points[0]["y"]), int(points[0]["x"])
    if row >= len(result.sigmas) or column >= len(result.deltas):  # clicked in an earlier, larger grid
        return None
    return result.sigmas[row], result.deltas[column]


def use_cell(data: LogitSet, cell: tuple[float, float] | None, seeds: int, bins: int) -> None:
    """Offer to use a cell's settings for SMART on every page."""
    if cell is None:
        note("Click a cell to use its settings for SMART on every page.")
    elif st.button(f"Fit SMART with sigma {cell[0]:g} and delta {cell[1]:g}", key="load-cell"):
        chosen_on_test.take(data, cell, seeds, bins)
        st.rerun()


bins, metric = session.bins(), session.metric()
data = datasets.current()
st.title("Sensitivity")
say("How much does SMART depend on its bandwidth sigma and its smoothing delta?")

with st.container(horizontal=True, vertical_alignment="bottom"):
    sigmas = number_list("Sigma", "sigmas", PAPER_SIGMAS, "Bandwidths of the soft bins. The paper's default is 0.05.")
    deltas = number_list("Delta", "deltas", PAPER_DELTAS, "Charbonnier smoothing. The paper's default is 0.001.")
    seeds = seeds_input("sensitivity-seeds", 5, "Fits per cell, each with different initial weights. The paper uses 5.")
settings = {"sigma": sigmas, "delta": deltas, "seeds": seeds, "bins": bins}
running, number = studies.running(data, KIND), len(sigmas) * len(deltas) * seeds
seconds = estimates.fits(data, "smart", number)
resume.study(KIND, lambda earlier: start(data, earlier, seconds))
if st.button("Run the grid", type="primary", key="run-sensitivity", shortcut="Ctrl+Enter", disabled=running):
    start(data, settings, seconds)
    st.rerun()
note(estimates.text(number, seconds))

chosen_on_test.warn(data, seeds=seeds)
study = studies.find(data, KIND, settings)
look = charts.look(data)
if study is not None:
    st.markdown(f"##### {sensitivity_verdict(study.result, metric)}")
left, right = st.columns(2)
with left:
    st.subheader("This data set")
    if study is None:
        note("Cells appear as they finish." if running else "Not run yet.")
    else:
        with studies.grey_if_stale(study, data, KIND, settings):
            heatmap = sensitivity_heatmap(study.result, metric, floor=studies.noise_floor(data, metric, bins), **look)
            cell = selected_cell(charts.show(heatmap, "sensitivity", on_select="rerun"), study.result)
        use_cell(data, cell, seeds, bins)
        note(
            "Outlined: the paper's settings. The best cell is best on these test samples; choosing it is selection on "
            f"test, so its value is too optimistic. {studies.noise_note(data, metric, bins)}"
        )
with right:
    st.subheader("The paper")
    model = st.selectbox(
        "ImageNet network",
        ["ResNet-50", "ViT-B/16"],
        key="paper-grid",
        persist_state="session",
        width=200,
        help="The paper reports the ECE of two networks.",
    )
    grid = paper.sensitivity_grid("ImageNet", model)
    charts.show(sensitivity_heatmap(grid, "ece", source=f"paper, {model}", **look), "paper-sensitivity")
    for tension in paper.TENSIONS:
        if grid.table in tension.tables:
            note(tension.text)

python_code(
    f"""
sigmas, deltas = {list(sigmas)}, {list(deltas)}
result = sc.sensitivity(data, sigmas, deltas, seeds={seeds}, bins={bins}, metric="{metric}")
print(result.to_frame()[["sigma", "delta", "{metric}", "{metric}_std"]])
"""
)
