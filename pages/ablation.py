"""Ablation: which part of SMART does the work?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import streamlit as st

import smart_core as sc
from pages.shared import library, routing, show, state, studies
from smart_core import LogitSet
from smart_core.calibrators import methods
from smart_core.evaluation import METRICS
from smart_core.experiments import paper
from smart_core.experiments.ablation import Ablation
from smart_core.experiments.data_efficiency import DEFAULT_METHODS, sizes_up_to
from smart_core.experiments.results import SeedTable
from smart_core.experiments.running import unavailable
from smart_core.experiments.traces import DEFAULT_OBJECTIVES, Traces
from smart_core.figures import divergence_chart, efficiency_curves, gradient_chart, seed_table_heatmap
from smart_core.figures.seed_tables import label_of
from smart_core.formatting import metric_value
from smart_core.indicators import INDICATORS
from smart_core.objectives import OBJECTIVES
from smart_core.progress import Run

routing.enter()

EPOCHS = 300
WATCHED = 12
"""How many times as long as a fit it takes to watch one, epoch by epoch."""

Settings = dict[str, Any]


def objectives_study(data: LogitSet, asked: Settings) -> studies.Compute:
    """TS, PTS and SMART under each objective."""
    return lambda run, publish: publish(_ablation(data, asked, run, publish, indicators=()).objectives)


def indicators_study(data: LogitSet, asked: Settings) -> studies.Compute:
    """SMART reading each indicator."""
    return lambda run, publish: publish(_ablation(data, asked, run, publish, methods=()).indicators)


def _ablation(data: LogitSet, asked: Settings, run: Run, publish: studies.Publish, **only: tuple[()]) -> Ablation:
    return sc.ablation(
        data,
        asked["seeds"],
        bins=asked["bins"],
        progress=run.progress,
        cancel=run.cancel,
        on_cell=lambda table, row, column: publish(table),
        **only,
    )


def efficiency_study(data: LogitSet, asked: Settings) -> studies.Compute:
    """Methods on growing parts of validation."""

    def compute(run: Run, publish: studies.Publish) -> None:
        publish(
            sc.data_efficiency(
                data,
                available(data),
                seeds=asked["seeds"],
                bins=asked["bins"],
                progress=run.progress,
                cancel=run.cancel,
                on_cell=lambda table, row, column: publish(table),
            )
        )

    return compute


def traces_study(data: LogitSet, asked: Settings) -> studies.Compute:
    """SMART trained on three objectives, every epoch recorded; one after the other is shown."""

    def compute(run: Run, publish: studies.Publish) -> None:
        result, many = Traces({}), len(DEFAULT_OBJECTIVES)
        for number, objective in enumerate(DEFAULT_OBJECTIVES):
            part = run.part(number / many, (number + 1) / many)
            one = sc.traces(data, [objective], epochs=asked["epochs"], progress=part.progress, cancel=part.cancel)
            result.runs.update(one.runs)
            result.complete = one.complete
            publish(result)
            if not one.complete:
                return

    return compute


def available(data: LogitSet) -> tuple[str, ...]:
    """The methods whose appetite for data is measured."""
    return tuple(id for id in DEFAULT_METHODS if unavailable(id, data) is None)


def best(table: SeedTable, metric: str) -> str:
    """The best cell in words, and its spread."""
    cells = table.mean(metric)
    done = np.isfinite(cells)
    if not done.any():
        return "No cell is finished yet."
    sign = -1.0 if METRICS[metric].higher_is_better else 1.0
    i, j = np.unravel_index(np.nanargmin(sign * cells), cells.shape)
    row, column = label_of(table.row_name, table.rows[i]), label_of(table.column_name, table.columns[j])
    value = metric_value(metric, float(cells[i, j]))
    if np.isfinite(table.metrics[metric][i, j]).sum() > 1:
        value += f" ± {metric_value(metric, float(table.std(metric)[i, j]))} over seeds"
    extreme = "Highest" if METRICS[metric].higher_is_better else "Lowest"
    some = "" if done.all() else f" in {done.sum()} of {done.size} cells"
    if table.column_name == "size":
        return f"{extreme} {METRICS[metric].label}{some}: {row} fitted on {table.columns[j]:,} samples, {value}."
    return f"{extreme} {METRICS[metric].label}{some}: {row} with {column}, {value}."


def trained(result: Traces) -> str:
    """What training did to the calibration on validation."""
    words = []
    for name, trace in result.runs.items():
        ece = np.asarray(trace["ece"])
        words.append(f"{name} from {metric_value('ece', ece[0])} to {metric_value('ece', ece[-1])}")
    return f"ECE on validation, first to last epoch: {'; '.join(words)}."


def part(
    tab: Any,
    kind: str,
    start: str,
    cost: str,
    asked: Settings,
    study_of: Callable[[LogitSet, Settings], studies.Compute],
) -> studies.Study | None:
    """A study's button and cost; what there is of its result."""
    running = studies.running(data, kind)
    shortcut = "Ctrl+Enter" if tab.open else None
    if st.button(start, type="primary", key=f"run-{kind}", shortcut=shortcut, disabled=running):
        studies.start(data, kind, start, study_of(data, asked), asked)
        st.rerun()
    st.caption(f"{cost} Cancel keeps what is finished.")
    study = studies.found(data, kind, asked)
    if study is None and running:
        st.info("Running: the first figures appear in a moment.")
    return study


def cells(kind: str, study: studies.Study | None, asked: Settings) -> None:
    """A table over seeds: the answer, then its cells."""
    if study is None:
        return
    with studies.shown(study, data, kind, asked):
        st.markdown(f"##### {best(study.result, metric)}")
        draw = efficiency_curves if kind == "efficiency" else seed_table_heatmap
        show.chart(draw(study.result, metric, **look), kind)
    st.caption(f"The lowest is chosen on test, so its own figure is too good. {studies.chance(data, metric, bins)}")


bins: int = st.session_state[state.BINS]
metric: str = st.session_state[state.METRIC]
data = library.current()
look: dict[str, Any] = {"dark": show.dark(), "uirevision": data.content_hash}
st.title("Ablation")
st.markdown(
    "Which part of SMART does the work? The objective, the indicator, the size of validation and the training, each "
    "varied on its own."
)
seeds = st.number_input(
    "Seeds",
    1,
    20,
    3,
    key="ablation-seeds",
    bind="query-params",
    persist_state="session",
    width=120,
    help="Fits in each cell, each from other initial weights. The paper takes 5.",
)
asked = {"seeds": seeds, "bins": bins}
seconds = studies.fit_seconds(data)

# the open tab stands in the address, and its button is the one that the keyboard presses
tabs = st.tabs(["Objectives", "Indicators", "Validation size", "Training"], key="part", bind="query-params")
objectives, indicators, efficiency, training = tabs
with objectives:
    st.markdown("TS, PTS and SMART, each trained on six objectives.")
    cost = studies.estimate(len(OBJECTIVES) * (1 + 2 * seeds), seconds, len(OBJECTIVES) * 2 * seeds)
    cells("objectives", part(objectives, "objectives", "Run the objectives", cost, asked, objectives_study), asked)
    if st.toggle("The paper's own table", key="paper-objectives-shown", bind="query-params"):
        model = st.selectbox("ImageNet network", ["ResNet-50", "ViT-B/16"], key="paper-objectives", width=200)
        theirs = seed_table_heatmap(paper.objectives(model), "ece", source=f"paper, {model}", **look)
        show.chart(theirs, "paper-objectives-map")
with indicators:
    st.markdown("SMART reading six indicators of hardness.")
    cost = studies.estimate(len(INDICATORS) * seeds, seconds)
    cells("indicators", part(indicators, "indicators", "Run the indicators", cost, asked, indicators_study), asked)
    if st.toggle("The paper's own table", key="paper-indicators-shown", bind="query-params"):
        show.chart(seed_table_heatmap(paper.indicators(), "ece", source="paper", **look), "paper-indicators-map")
with efficiency:
    ids = available(data)
    st.markdown(f"{', '.join(methods()[id].label for id in ids)} on growing, nested parts of validation.")
    each = len(sizes_up_to(len(data.validation))) * seeds
    cost = studies.estimate(len(ids) * each, seconds, sum(methods()[id].stochastic for id in ids) * each)
    cells("efficiency", part(efficiency, "efficiency", "Run the sizes", cost, asked, efficiency_study), asked)
    st.caption("Band: spread over seeds; each seed draws its own part of validation.")
with training:
    st.markdown("SMART trained on NLL, SoftECE and Charbonnier-SoftECE, watched epoch by epoch on validation.")
    watched = {"epochs": EPOCHS}
    cost = studies.estimate(len(DEFAULT_OBJECTIVES), seconds, WATCHED * len(DEFAULT_OBJECTIVES))
    study = part(training, "traces", "Run the training", cost, watched, traces_study)
    if study is not None and study.result.runs:
        st.markdown(f"##### {trained(study.result)}")
        left, right = st.columns(2)
        with left:
            st.subheader("NLL against calibration")
            show.chart(divergence_chart(study.result, **look), "divergence")
            st.caption("The paper's point: on the NLL the loss may fall while the ECE rises.")
        with right:
            st.subheader("SoftECE against Charbonnier")
            if len(study.result.runs) > 1:  # NLL, the first to be trained, is not among them
                show.chart(gradient_chart(study.result, **look), "gradient")
                st.caption("The paper's point: Charbonnier smoothing keeps the gradient's norm from jumping.")

show.python(
    library.load_code()
    + f"""
tables = sc.ablation(data, seeds={seeds}, bins={bins}, metric="{metric}")
print(tables.objectives.to_frame()[["method", "objective", "{metric}"]])
print(tables.indicators.to_frame()[["indicator", "{metric}"]])
sizes = sc.data_efficiency(data, {list(ids)}, seeds={seeds}, bins={bins})
print(sizes.to_frame()[["method", "size", "{metric}"]])
print(sc.traces(data, epochs={EPOCHS}).to_frame().tail())
"""
)
