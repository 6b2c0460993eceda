"""Charts and tables of numbers, each with its data as a download."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pandas as pd
import streamlit as st

from pages.shared import downloads
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
) -> Any:
    """Draw a chart with its text alternative, and below it its numbers as a table; return the selection."""
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
    with st.expander("The numbers of this chart"):
        st.caption(chart.alt)
        table(chart.table, f"{key}-table", chart.name)
        st.segmented_control(
            "Image format of the chart's camera button",
            list(IMAGES),
            default="SVG",
            required=True,
            key=f"{key}-picture",
            persist_state="session",
        )
    return event


def table(frame: pd.DataFrame, key: str, name: str, percent: tuple[str, ...] = ()) -> None:
    """Draw a table with buttons to download it; the columns in `percent` are shown as percentages."""
    columns = {column: st.column_config.NumberColumn(format="percent") for column in percent}
    st.dataframe(frame, key=key, hide_index=True, column_config=columns)
    with st.container(horizontal=True):
        downloads.button("Download CSV", lambda: downloads.csv_bytes(frame), f"{name}.csv", f"{key}-csv")
        downloads.button("Download JSON", lambda: downloads.json_bytes(frame), f"{name}.json", f"{key}-json")
