"""Two models on the same test samples: offered wherever two data sets have the same test labels, drawn on Benchmark."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pandas as pd
import streamlit as st

from pages.shared import cache, charts, datasets, navigation, session, tables
from pages.shared.components import plain_text
from smart_core.calibrators import method_named, methods
from smart_core.evaluation import METRICS, metric_number
from smart_core.experiments.model_pair import ModelPair
from smart_core.figures import Curve, reliability_diagram
from smart_core.formatting import MINUS, plural
from smart_core.metrics.binning import reliability

TABS, TAB = "benchmark-view", "Two models"
"""The key of the tabs of Benchmark, and the tab of this view."""

SHOWN_SAMPLES = 200


def partners(key: str, without: Collection[str] = ()) -> list[str]:
    """Return the other data sets with the same test labels in the same order."""
    labels = datasets.test_labels(key)
    others = [other for other in datasets.titles() if other != key and other not in without]
    return [other for other in others if labels and datasets.test_labels(other) == labels]


def groups_of_titles(names: list[str]) -> list[list[str]]:
    """Return the titles in groups of the same test labels; those without another are left out."""
    keys = {title: key for key, title in datasets.titles().items() if title in names}
    groups: dict[str, list[str]] = {}
    for name in names:
        if name in keys:
            groups.setdefault(datasets.test_labels(keys[name]), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def offer() -> None:
    """Offer to compare the selected data set with another that has the same test labels."""
    own = session.current().datasets
    unread = {key for key in own if key != datasets.current_key() and not own[key].is_open}
    found = partners(datasets.current_key(), unread)
    if not found:
        return
    titles = datasets.titles()
    with st.container(horizontal=True, vertical_alignment="center"):
        others = plain_text(titles[found[0]]) + (f" and {len(found) - 1} more" if len(found) > 1 else "")
        st.caption(f"{others}: predictions of the same test samples.", width="content")
        if st.button("Compare the two models", key="offer-pair", type="tertiary"):
            st.session_state[TABS] = TAB
            navigation.go("pages/benchmark.py")


def draw(bins: int, look: dict[str, Any]) -> None:
    """Two data sets with the same test labels, compared sample by sample."""
    titles = datasets.titles()
    here, found = datasets.current(), partners(datasets.current_key())
    if not found:
        st.caption(
            f"No other data set has the test labels of {plain_text(datasets.current_title())}. Open the predictions of "
            "a second model on the same test samples, in the same order."
        )
        return
    with st.container(horizontal=True):
        other = st.selectbox(
            f"Compare {plain_text(datasets.current_title())} with",
            found,
            format_func=titles.__getitem__,
            key="pair-with",
        )
        method = st.selectbox(
            "Both calibrated by",
            list(methods()),
            format_func=lambda id: method_named(id).label,
            key="pair-method",
            width=200,
        )
    pair = cache.model_pair(here, datasets.get(other), method, bins)
    names = (datasets.current_title(), titles[other])
    _differences(pair, names)
    curves = [
        Curve(reliability(one.confidence, one.correct, bins), drawn_as, name)
        for name, one, drawn_as in zip(names, pair.evaluations, ("vanilla", "ts"), strict=True)
    ]
    charts.show(reliability_diagram(curves, **look), "pair-reliability")
    rows = pair.disagreeing[:SHOWN_SAMPLES]
    st.markdown(f"The two models disagree on {plural(len(pair.disagreeing), 'sample')} of {len(here.test):,}.")
    if len(rows):
        first, second = pair.evaluations
        tables.show(
            pd.DataFrame(
                {
                    "row": rows,
                    "label": here.test.labels[rows],
                    f"{names[0]} predicts": first.prediction[rows],
                    f"{names[0]} confidence": first.confidence[rows],
                    f"{names[1]} predicts": second.prediction[rows],
                    f"{names[1]} confidence": second.confidence[rows],
                }
            ),
            "pair-samples",
            "disagreement",
            (f"{names[0]} confidence", f"{names[1]} confidence"),
        )


def _differences(pair: ModelPair, names: tuple[str, str]) -> None:
    rows = []
    for name, found in pair.differences.items():
        values = [metric_number(name, one.metric(name)) for one in pair.evaluations]
        mean, low, high = (
            metric_number(name, each).replace("-", MINUS) for each in (found.mean, found.low, found.high)
        )
        real = "significant" if found.low > 0 or found.high < 0 else "not significant"
        unit = ", %" if METRICS[name].percent else ""
        rows.append((f"{METRICS[name].label}{unit}", *values, mean, f"{low} to {high}", real))
    frame = pd.DataFrame(rows, columns=["metric", *names, "difference", "difference, 95%", "verdict"])
    tables.show(frame, "pair-differences", "two-models")
