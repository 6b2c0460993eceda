"""The first look at a data set, on Start: its verdict, and its reliability before and after calibration."""

from __future__ import annotations

import streamlit as st

from pages.shared import cache, charts, datasets, navigation, quick_fit, recommendation, session, urls
from pages.shared.components import plain_text
from pages.shared.glossary import say
from pages.shared.session import MAX_DATASETS
from pages.shared.verdicts import one_temperature_verdict
from smart_core import Evaluation, LogitSet
from smart_core.calibrators import methods
from smart_core.evaluation import metric_value
from smart_core.figures import Curve, reliability_diagram

HEIGHT = 380
"""Pixels of a chart: both are on the first screen."""


def draw(data: LogitSet, bins: int) -> None:
    """Draw the verdict on the selected data set, and its reliability before and after calibration."""
    before, ranking = cache.uncalibrated(data), recommendation.current(data)
    st.markdown(f"#### {plain_text(datasets.current_title())}. {cache.diagnosis(before, bins).words}")
    if ranking is None and datasets.is_sample(data):
        say(one_temperature_verdict(cache.after_temperature_scaling(data, bins)))
    recommendation.brief(ranking)
    chosen = recommendation.row(ranking)
    # not while a link waits for its file: looking for the fit reruns Start and would undo the change of page
    waiting = urls.awaited_key() is not None
    fit = None if chosen is not None else quick_fit.known(data) if waiting else quick_fit.find(data)
    removed = st.session_state.pop(session.REMOVED_DATASET, None)
    if removed is not None:
        st.warning(
            f"{plain_text(removed)} was removed: a session keeps at most {MAX_DATASETS} data sets of your own. "
            "Undo brings it back."
        )
    left, right = st.columns(2)
    with left:
        _card("Before calibration", before, "vanilla", bins)
        if st.button("Diagnose the model", type="primary", key="start-diagnose"):
            navigation.go("pages/diagnose.py")
    with right:
        if chosen is not None:
            _card(f"After {chosen.label}, the recommended method", chosen.evaluations[0], chosen.id, bins)
        elif fit is None:
            label = methods()[quick_fit.method(data)].label
            st.markdown(f"**After {label}**")
            when = "is fitted once the link's file is open" if waiting else "is being fitted on the validation part"
            st.caption(f"{label} {when}. The result appears here.")
        else:
            id = quick_fit.method(data)
            _card(f"After {methods()[id].label}, fitted on the validation part", fit[2], id, bins)
        if st.button("Compare all methods", key="start-compare"):
            navigation.go("pages/compare.py")


def _card(title: str, evaluation: Evaluation, method: str, bins: int) -> None:
    """Draw the reliability diagram of one fit on test, with its ECE."""
    found = cache.diagnosis(evaluation, bins)
    ece, floor = metric_value("ece", found.ece), metric_value("ece", found.floor.q95)
    st.markdown(f"**{title}**  \nECE {ece}, noise floor {floor}")
    curve = Curve(evaluation.reliability(bins), method)
    chart = reliability_diagram([curve], **charts.look(datasets.current()))
    chart.figure.update_layout(height=HEIGHT)
    charts.show(chart, f"start-{method}")
