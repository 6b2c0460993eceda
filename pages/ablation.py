"""Ablation: which part of SMART does the work?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

import smart_core as sc
from pages.shared import charts, datasets, estimates, navigation, resume, session, studies
from pages.shared.components import python_code, seeds_input
from pages.shared.glossary import note, say
from pages.shared.verdicts import ablation_verdict, training_verdict
from smart_core import LogitSet
from smart_core.calibrators import method_named
from smart_core.experiments import paper
from smart_core.experiments.data_efficiency import DEFAULT_METHODS, sizes_up_to
from smart_core.experiments.running import unavailable
from smart_core.experiments.traces import DEFAULT_OBJECTIVES, Traces
from smart_core.figures import divergence_chart, efficiency_curves, gradient_chart, seed_table_heatmap
from smart_core.fitting.objectives import OBJECTIVES
from smart_core.progress import Run

navigation.enter()

EPOCHS = 300
RECORDED_COST = 16
"""A fit that records every epoch takes this many times as long as a plain one."""

Settings = studies.Settings


def run_options(settings: Settings, known: Any, run: Run, publish: studies.Publish) -> dict[str, Any]:
    """Return the arguments that the table studies share; each finished cell is published."""
    return {
        "seeds": settings["seeds"],
        "bins": settings["bins"],
        "progress": run.progress,
        "cancel": run.cancel,
        "on_cell": lambda table, row, column: publish(table),
        "known": known,
    }


def objectives_study(data: LogitSet, settings: Settings, known: Any) -> studies.Compute:
    """Compare TS, PTS and SMART under each objective."""
    return lambda run, publish: publish(
        sc.ablation(data, indicators=(), **run_options(settings, known, run, publish)).objectives
    )


def indicators_study(data: LogitSet, settings: Settings, known: Any) -> studies.Compute:
    """Compare SMART on each indicator."""
    return lambda run, publish: publish(
        sc.ablation(data, methods=(), **run_options(settings, known, run, publish)).indicators
    )


def efficiency_study(data: LogitSet, settings: Settings, known: Any) -> studies.Compute:
    """Fit methods on growing subsets of validation."""
    return lambda run, publish: publish(
        sc.data_efficiency(data, efficiency_methods(data), **run_options(settings, known, run, publish))
    )


def training_study(data: LogitSet, settings: Settings, known: Any) -> studies.Compute:
    """Train SMART on three objectives and record every epoch; each finished objective is published."""

    def compute(run: Run, publish: studies.Publish) -> None:
        result, number = Traces({} if known is None else dict(known.runs)), len(DEFAULT_OBJECTIVES)
        for i, objective in enumerate(DEFAULT_OBJECTIVES):
            if OBJECTIVES[objective].label in result.runs:
                continue
            part = run.part(i / number, (i + 1) / number)
            one = sc.traces(data, [objective], epochs=settings["epochs"], progress=part.progress, cancel=part.cancel)
            result.runs.update(one.runs)
            result.complete = one.complete
            publish(result)
            if not one.complete:
                return

    return compute


def efficiency_methods(data: LogitSet) -> tuple[str, ...]:
    """Return the methods of the study of validation sizes that can run on this data set."""
    return tuple(id for id in DEFAULT_METHODS if unavailable(id, data) is None)


def run_panel(
    tab: Any,
    kind: str,
    label: str,
    cost: tuple[int, float],
    settings: Settings,
    study_of: Callable[[LogitSet, Settings, Any], studies.Compute],
) -> studies.Study | None:
    """Draw a study's button and its cost, fits and seconds; return its result so far."""

    def start(chosen: Settings) -> None:
        known = studies.unfinished(data, kind, chosen)
        studies.start(data, kind, label, study_of(data, chosen, known), chosen, cost[1])

    resume.study(kind, start)
    running = studies.running(data, kind)
    shortcut = "Ctrl+Enter" if tab.open else None
    if st.button(label, type="primary", key=f"run-{kind}", shortcut=shortcut, disabled=running):
        start(settings)
        st.rerun()
    note(estimates.text(*cost))
    study = studies.find(data, kind, settings)
    if study is None and running:
        st.info("Running. The first results will appear here.")
    return study


def show_table(kind: str, study: studies.Study | None, settings: Settings) -> None:
    """Draw the verdict and the chart of a table over seeds."""
    if study is None:
        return
    with studies.grey_if_stale(study, data, kind, settings):
        st.markdown(f"##### {ablation_verdict(study.result, metric)}")
        if kind == "efficiency":
            chart = efficiency_curves(study.result, metric, **look)
        else:
            floor = studies.noise_floor(data, metric, bins)
            chart = seed_table_heatmap(study.result, metric, floor=floor, **look)
        charts.show(chart, kind)
    noise = studies.noise_note(data, metric, bins)
    note(f"The best cell is selected on test, so its value is too optimistic. {noise}")


bins, metric = session.bins(), session.metric()
data = datasets.current()
look = charts.look(data)
st.title("Ablation")
say("Which part of SMART does the work: its objective, its indicator, its data or its training?")
seeds = seeds_input("ablation-seeds", 3, "Fits per cell, each with different initial weights. The paper uses 5.")
settings = {"seeds": seeds, "bins": bins}

# the open tab is in the URL, and Ctrl+Enter presses its button
tabs = st.tabs(["Objectives", "Indicators", "Validation size", "Training"], key="part", bind="query-params")
objectives, indicators, efficiency, training = tabs
with objectives:
    st.markdown("TS, PTS and SMART, each trained on six objectives.")
    cost = estimates.objectives(data, seeds)
    study = run_panel(objectives, "objectives", "Compare objectives", cost, settings, objectives_study)
    show_table("objectives", study, settings)
    if st.toggle("Show the paper's table", key="paper-objectives-shown", bind="query-params"):
        model = st.selectbox("ImageNet network", ["ResNet-50", "ViT-B/16"], key="paper-objectives", width=200)
        reported = seed_table_heatmap(paper.objectives(model), "ece", source=f"paper, {model}", **look)
        charts.show(reported, "paper-objectives-map")
with indicators:
    st.markdown("SMART on each of six indicators of hardness.")
    cost = estimates.indicators(data, seeds)
    study = run_panel(indicators, "indicators", "Compare indicators", cost, settings, indicators_study)
    show_table("indicators", study, settings)
    if st.toggle("Show the paper's table", key="paper-indicators-shown", bind="query-params"):
        charts.show(seed_table_heatmap(paper.indicators(), "ece", source="paper", **look), "paper-indicators-map")
with efficiency:
    ids = efficiency_methods(data)
    st.markdown(f"{', '.join(method_named(id).label for id in ids)} on growing, nested subsets of validation.")
    sizes = sizes_up_to(len(data.validation))
    parts = [estimates.fits(data, id, seeds, samples=size) for id in ids for size in sizes]
    cost = (len(parts) * seeds, sum(parts))
    study = run_panel(efficiency, "efficiency", "Compare validation sizes", cost, settings, efficiency_study)
    show_table("efficiency", study, settings)
    note("Band: spread over seeds. Each seed draws its own subsets of validation.")
with training:
    st.markdown("SMART trained on NLL, SoftECE and Charbonnier-SoftECE, evaluated on validation after every epoch.")
    number = len(DEFAULT_OBJECTIVES)
    cost = (number, estimates.fits(data, "smart", RECORDED_COST * number))
    study = run_panel(training, "traces", "Record training", cost, {"epochs": EPOCHS}, training_study)
    if study is not None and study.result.runs:
        st.markdown(f"##### {training_verdict(study.result)}")
        left, right = st.columns(2)
        with left:
            st.subheader("NLL against calibration")
            charts.show(divergence_chart(study.result, **look), "divergence")
            note("The paper's point: when training on NLL, the loss can fall while the ECE rises.")
        with right:
            st.subheader("SoftECE against Charbonnier")
            if len(study.result.runs) > 1:  # the first objective, NLL, is not drawn here
                charts.show(gradient_chart(study.result, **look), "gradient")
                note("The paper's point: Charbonnier smoothing keeps the gradient norm from jumping.")

python_code(
    f"""
tables = sc.ablation(data, seeds={seeds}, bins={bins}, metric="{metric}")
print(tables.objectives.to_frame()[["method", "objective", "{metric}"]])
print(tables.indicators.to_frame()[["indicator", "{metric}"]])
sizes = sc.data_efficiency(data, {list(ids)}, seeds={seeds}, bins={bins})
print(sizes.to_frame()[["method", "size", "{metric}"]])
print(sc.traces(data, epochs={EPOCHS}).to_frame().tail())
"""
)
