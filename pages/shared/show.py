"""What every page draws the same way: charts with their table, code, empty states, the way on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import streamlit as st

from pages.shared import downloads
from smart_core.figures.chart import Chart


def dark() -> bool:
    """Whether the browser shows the dark theme."""
    return st.context.theme.type == "dark"


PICTURES: dict[str, dict[str, Any]] = {"SVG": {"format": "svg"}, "PNG": {"format": "png", "scale": 2}}
"""What the camera in a chart's corner may save, drawn by the browser itself -> Plotly's options."""


def chart(
    drawn: Chart,
    key: str,
    *,
    on_select: Literal["ignore", "rerun"] | Callable[[], None] = "ignore",
    selection_mode: str = "points",
) -> Any:
    """A figure with its words for those who cannot see it, its numbers as a table, and figure and numbers as files."""
    picture = PICTURES[st.session_state.get(f"{key}-picture") or "SVG"]
    event = st.plotly_chart(
        drawn.figure,
        theme=None,
        key=key,
        on_select=on_select,
        selection_mode=selection_mode,
        config={"displaylogo": False, "toImageButtonOptions": {**picture, "filename": drawn.name}},
        alt=drawn.alt,
    )
    with st.expander("The numbers of this chart"):
        st.caption(drawn.alt)
        table(drawn.table, f"{key}-table", drawn.name)
        st.segmented_control(
            "The camera in the chart's corner saves",
            list(PICTURES),
            default="SVG",
            required=True,
            key=f"{key}-picture",
            persist_state="session",
        )
    return event


def table(frame: Any, key: str, name: str, percent: tuple[str, ...] = ()) -> None:
    """A table of plain numbers, shares in `percent`, and the buttons to keep it."""
    shares = {column: st.column_config.NumberColumn(format="percent") for column in percent}
    st.dataframe(frame, key=key, hide_index=True, column_config=shares)
    with st.container(horizontal=True):
        for form, (mime, write) in downloads.NUMBERS.items():
            st.download_button(
                f"Download {form}",
                data=lambda write=write: write(frame),
                file_name=f"{name}.{form.lower()}",
                mime=mime,
                key=f"{key}-{form.lower()}",
                on_click="ignore",
            )


def python(code: str) -> None:
    """The Python that computes what the page shows."""
    with st.expander("Show the Python for this view"):
        st.code(code.strip() + "\n", language="python")


def empty(words: str, action: str, key: str, *, shortcut: str | None = None) -> bool:
    """Nothing to see yet: why, and the one thing to do; True when it was asked for."""
    with st.container(border=True, key=f"empty-{key}"):
        st.markdown(words)
        return st.button(action, type="primary", key=key, shortcut=shortcut)
