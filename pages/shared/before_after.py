"""The first look at a data set, on Start: its verdict, and its reliability before and after calibration."""

from __future__ import annotations

import streamlit as st

from pages.shared import cache, charts, datasets, navigation, quick_fit, recommendation, session
from pages.shared.components import plain_text
from pages.shared.session import MAX_DATASETS
from smart_core import Evaluation, LogitSet
from smart_core.calibrators import methods
from smart_core.evaluation import metric_value
from smart_core.figures import Curve, reliability_diagram
from smart_core.metrics.binning import reliability

HEIGHT = 380
"""Pixels of a chart: both are on the first screen."""


def draw(data: LogitSet, bins: int) -> None:
    """Draw the verdict on the selected data set, and its reliability before and after calibration."""
    before, fit = cache.uncalibrated(data), quick_fit.find(data)
    st.markdown(f"#### {plain_text(datasets.current_title())}. {cache.diagnosis(before, bins).words}")
    recommendation.brief(recommendation.current(data))
    removed = st.session_state.pop(session.REMOVED_DATASET, None)
    if removed is not None:
        st.warning(
            f"{plain_text(removed)} was removed: a session keeps at most {MAX_DATASETS} data sets of your own. "
            "Undo brings it back."
        )
    label = methods()[quick_fit.method(data)].label
    left, right = st.columns(2)
    with left:
        _card("Before calibration", before, "vanilla", bins)
        if st.button("Diagnose the model", type="primary", key="start-diagnose"):
            navigation.go("pages/diagnose.py")
    with right:
        if fit is None:
            st.markdown(f"**After {label}**")
            st.caption(f"{label} is being fitted on the validation part. The result appears here.")
        else:
            _card(f"After {label}, fitted on the validation part", fit[2], quick_fit.method(data), bins)
        if st.button("Compare all methods", key="start-compare"):
            navigation.go("pages/compare.py")


def _card(title: str, evaluation: Evaluation, method: str, bins: int) -> None:
    """Draw the reliability diagram of one fit on test, with its ECE."""
    found = cache.diagnosis(evaluation, bins)
    ece, floor = metric_value("ece", found.ece), metric_value("ece", found.floor.q95)
    st.markdown(f"**{title}**  \nECE {ece}, noise floor {floor}")
    curve = Curve(reliability(evaluation.confidence, evaluation.correct, bins), method)
    chart = reliability_diagram([curve], **charts.look(datasets.current()))
    chart.figure.update_layout(height=HEIGHT)
    charts.show(chart, f"start-{method}")
