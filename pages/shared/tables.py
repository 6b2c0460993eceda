"""Tables of numbers with buttons to download them: of a chart, of margin groups, of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st

from pages.shared import datasets, downloads
from smart_core import Evaluation, LogitSet
from smart_core.analysis.margin_groups import MarginGroup, margin_text
from smart_core.evaluation import MEASURED_AND_TRUE, TRUE_RANGE
from smart_core.formatting import MISSING, percent
from smart_core.types import IntArray, Vector

MAX_SAMPLES = 1000
"""Samples that are listed."""


def show(frame: pd.DataFrame, key: str, name: str, shares: Sequence[str] = ()) -> None:
    """Draw a table with buttons to download it; the fractions in the columns `shares` are shown as percentages."""
    numbers = frame.select_dtypes("floating").columns
    forms = {name: partial(percent, decimals=2) if name in shares else "{:.3f}" for name in numbers}
    st.dataframe(frame.style.format(forms, na_rep=MISSING), key=key, hide_index=True)
    with st.container(horizontal=True):
        downloads.button("Download CSV", lambda: downloads.csv_bytes(frame), f"{name}.csv", f"{key}-csv")
        downloads.button("Download JSON", lambda: downloads.json_bytes(frame), f"{name}.json", f"{key}-json")


def margin_groups(groups: Sequence[MarginGroup]) -> None:
    """List margin groups, each with the interval of its ECE."""
    rows = [
        {
            "margin": margin_text(group.low, group.high),
            "samples": group.n,
            "mean confidence": group.confidence,
            "accuracy": group.accuracy,
            "ECE, measured": group.ece,
            "noise floor": group.floor_q95,
            f"{TRUE_RANGE} low": group.interval.low if group.interval else None,
            f"{TRUE_RANGE} high": group.interval.high if group.interval else None,
        }
        for group in groups
    ]
    frame = pd.DataFrame(rows)
    name = downloads.file_stem(datasets.current_title(), "margin-groups")
    show(frame, "group-table", name, tuple(frame.columns[2:]))
    st.caption(MEASURED_AND_TRUE)


def samples(
    data: LogitSet, rows: IntArray, before: Evaluation, after: Evaluation, more: Mapping[str, Vector] | None = None
) -> None:
    """List test samples with their predictions and confidences before and after calibration.

    `more` are further columns, with a value per test sample.
    """
    shown = rows[:MAX_SAMPLES]
    names = np.array(data.class_names or range(data.classes))
    frame = pd.DataFrame(
        {
            "row": shown,
            "label": names[data.test.labels[shown]],
            "prediction before": names[before.prediction[shown]],
            "prediction after": names[after.prediction[shown]],
            "confidence before": before.confidence[shown],
            "confidence after": after.confidence[shown],
            "margin": before.margin[shown],
        }
    )
    if data.test.group is not None:
        frame["group"] = data.test.group[shown]
    if after is before:
        frame = frame.drop(columns=["prediction after", "confidence after"])
        frame = frame.rename(columns={"prediction before": "prediction", "confidence before": "confidence"})
    for column, values in (more or {}).items():
        frame[column] = values[shown]
    name = downloads.file_stem(datasets.current_title(), "samples")
    show(frame, "samples", name, [column for column in frame if column.startswith("confidence")])
    if len(rows) > MAX_SAMPLES:
        st.caption(f"The first {MAX_SAMPLES:,} of {len(rows):,} samples.")
