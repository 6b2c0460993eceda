"""The view of the margin bounds: the temperatures that give a target confidence, and the paper's numerical study."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from pages.shared import charts, datasets
from pages.shared.components import IN_URL, plain_text
from pages.shared.theory.symbols import meaning
from smart_core import LogitSet
from smart_core.figures.theory_margin import feasible_chart, target_chart
from smart_core.formatting import join_words, percent
from smart_core.theory.margin_bounds import (
    HALF_LINE,
    IMPOSSIBLE,
    INTERVAL,
    TargetStudy,
    case_of,
    random_study,
    target_study,
    temperature_bounds,
)

STUDY_ROWS = 1000
RANDOM, LOADED = "Random samples", "Test samples"


@st.cache_resource(max_entries=16, show_spinner=False, scope="session")
def random_rows(target: float, classes: int) -> TargetStudy:
    """Run the numerical study on random samples."""
    return random_study(target, classes, STUDY_ROWS)


@st.cache_resource(max_entries=16, show_spinner="Solving for the temperatures", scope="session")
def loaded_rows(content_hash: str, target: float, _data: LogitSet) -> TargetStudy:
    """Run it on test samples, evenly spaced if there are more than a thousand."""
    rows = np.linspace(0, len(_data.test) - 1, min(STUDY_ROWS, len(_data.test))).astype(np.int64)
    return target_study(_data.test.logits[rows], target)


def bounds_verdict(target: float, classes: int, margin: float) -> str:
    """Say which T gives a sample of this margin the target confidence."""
    case, found = case_of(target, classes), temperature_bounds(margin, target, classes)
    sample = f"A sample with {classes} classes and margin {margin:g}"
    if case == INTERVAL and classes == 2:
        return (
            f"{sample} reaches {percent(target, 0)} at exactly T = {found.lower[0]:.3f}: with two classes, T is unique."
        )
    if case == INTERVAL:
        return f"{sample} reaches {percent(target, 0)} at a T between {found.lower[0]:.3f} and {found.upper[0]:.3f}."
    if case == HALF_LINE:
        return (
            f"{sample} reaches {percent(target, 0)} at a T of at least {found.lower[0]:.3f}; there is no upper bound."
        )
    least = f"The largest of {classes} probabilities is at least {percent(1 / classes)}"
    if case == IMPOSSIBLE:
        return f"{least}: no temperature gives {percent(target, 0)}."
    return f"{least}, with equality only if all logits are equal: no sample with margin {margin:g} reaches it."


def spread_verdict(study: TargetStudy) -> str:
    """Say how well each indicator determines T."""
    factors = [f"{study.spread(name):.2f} at equal {name}" for name in study.indicators]
    outside = study.outside()
    bounds = f"none of {study.temperature.size:,} samples lies outside the bounds"
    if outside:
        bounds = f"VIOLATED: {outside:,} of {study.temperature.size:,} samples lie outside the bounds"
    return f"T varies by a factor of {join_words(factors)}; {bounds}."


def view(data: LogitSet, look: dict[str, Any]) -> str:
    """Draw the view and return its Python code."""
    st.markdown(
        "Which temperatures can give a sample the target confidence, if only its margin and the number of classes are "
        "known? The margin bounds T from both sides; the largest logit alone does not bound it."
    )
    with st.container(horizontal=True):
        target = st.slider("Target confidence", 0.05, 0.99, 0.8, 0.01, key="theory-target", **IN_URL, width=260)
        classes = st.slider("Classes", 2, 100, 10, key="theory-classes", **IN_URL, width=260)
        margin = st.slider("Margin", 0.1, 10.0, 2.0, 0.1, key="theory-margin", **IN_URL, width=260)
    st.markdown(f"##### {bounds_verdict(target, classes, margin)}", help=meaning("T", "m", "p"))
    case = case_of(target, classes)
    if case in (INTERVAL, HALF_LINE):
        charts.show(feasible_chart(target, classes, margin=margin, **look), "feasible")
        now = temperature_bounds([margin, 2 * margin], target, classes)
        if case == INTERVAL and classes > 2:
            st.caption(
                f"The paper says that the interval shrinks as the margin grows. Both ends are proportional to the "
                f"margin, so it grows: its width is {now.width[0]:.3f} at margin {margin:g} and {now.width[1]:.3f} at "
                f"{2 * margin:g}. The ratio of its ends stays {now.upper[0] / now.lower[0]:.2f}."
            )
    st.subheader("The numerical study")
    source = st.segmented_control(
        "Samples", [RANDOM, LOADED], default=RANDOM, required=True, key="theory-rows", persist_state="session"
    )
    if source == RANDOM:
        study = random_rows(target, classes)
    else:
        study = loaded_rows(data.content_hash, target, data)
        title = plain_text(datasets.current_title())
        st.caption(f"Test samples of {title}, {data.classes} classes; the slider for classes has no effect here.")
    if not study.temperature.size:
        st.info(f"No temperature gives any of these samples a confidence of {percent(target, 0)}.")
    else:
        (st.error if study.outside() else st.markdown)(f"##### {spread_verdict(study)}")
        whose = "" if source == RANDOM else datasets.current_title()
        for place, name in zip(st.columns(3), study.indicators, strict=True):
            with place:
                key = f"target-{name.replace(' ', '-')}"
                charts.show(target_chart(study, name, source=whose, **look), key)
    st.caption(
        "The paper uses 1,000 random samples of 10 classes and target 0.8, and names neither their distribution nor "
        "its normalisation. Here the logits are independent and normal, and a normalised logit is the largest minus "
        "the mean, divided by its standard deviation. The factor is the ratio of the 95% to the 5% "
        "quantile of T among 40 neighbouring samples; the median over all such groups is given."
    )
    rows, drawn = f"random_study({target:g}, {classes})", ""
    if source == LOADED:
        rows = f"target_study(data.test.logits[rows], {target:g})"
        drawn = f"rows = np.linspace(0, len(data.test) - 1, min({STUDY_ROWS}, len(data.test))).astype(int)\n"
    return f"""
import numpy as np

from smart_core.theory.margin_bounds import random_study, target_study, temperature_bounds

bounds = temperature_bounds([{margin:g}], {target:g}, {classes})
print(bounds.case, bounds.lower, bounds.upper)
{drawn}study = {rows}
print(study.outside(), {{name: study.spread(name) for name in study.indicators}})
"""
