"""Charts, each with a text alternative and its numbers as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import streamlit as st

from pages.shared import tables
from pages.shared.components import plain_text
from smart_core import LogitSet
from smart_core.figures.chart import Chart

IMAGES: dict[str, dict[str, Any]] = {"SVG": {"format": "svg"}, "PNG": {"format": "png", "scale": 2}}
"""Image format of the camera button of a chart -> Plotly's options."""


def is_dark() -> bool:
    """Return whether the browser shows the dark theme."""
    return st.context.theme.type == "dark"


def look(data: LogitSet, *more: str) -> dict[str, Any]:
    """Return the arguments `dark` and `uirevision` of a figure: zoom is kept while the data set and `more` are."""
    return {"dark": is_dark(), "uirevision": " ".join((data.content_hash, *more))}


def show(
    chart: Chart,
    key: str,
    *,
    on_select: Literal["ignore", "rerun"] | Callable[[], None] = "ignore",
    selection_mode: Literal["points", "box", "lasso"] = "points",
    below: Callable[[Any], None] | None = None,
) -> Any:
    """Draw a chart with its text alternative, and below it its numbers as a table; return the selection.

    `below` is given the selection and draws what belongs right below the chart.
    """
    image = IMAGES[st.session_state.get(f"{key}-picture") or "SVG"]
    event = st.plotly_chart(
        chart.figure,
        theme=None,
        key=key,
        on_select=on_select,
        selection_mode=selection_mode,
        config={"displaylogo": False, "toImageButtonOptions": {**image, "filename": chart.name}},
        alt=chart.alt,
    )
    if below is not None:
        below(event)
    with st.expander("The numbers of this chart"):
        st.caption(plain_text(chart.alt))
        tables.show(chart.table, f"{key}-table", chart.name)
        st.segmented_control(
            "Image format of the chart's camera button",
            list(IMAGES),
            default="SVG",
            required=True,
            key=f"{key}-picture",
            persist_state="session",
        )
    return event
