"""A page's section with the slices of an evaluation by a column of the file."""

from __future__ import annotations

import streamlit as st

from pages.shared import cache, charts
from pages.shared.components import plain_text
from smart_core import Evaluation, LogitSet
from smart_core.analysis.slices import slices_verdict
from smart_core.figures import slice_dots


def draw(data: LogitSet, evaluation: Evaluation, bins: int) -> None:
    """Ask for a column and draw the confidence and the accuracy of its slices; nothing without columns."""
    columns = cache.columns(data)
    if not columns:
        return
    st.subheader("By column")
    column = st.selectbox(
        "Column",
        list(columns),
        format_func=plain_text,
        key="slice-column",
        persist_state="session",
        width=320,
        help="A column of the file. Numbers with many values are cut into intervals of equally many samples.",
    )
    found = cache.slices(data, evaluation, column, columns[column], bins)
    st.markdown(plain_text(slices_verdict(found, column)))
    charts.show(slice_dots(found, column, **charts.look(data, column)), "slices")
    st.caption("Each line is the 95% interval of the accuracy.")
