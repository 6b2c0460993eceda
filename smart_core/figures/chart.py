"""A chart (figure, words and table), and the parts that charts are built from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from smart_core.figures.theme import Style, ink, template, translucent

Array = NDArray[Any]

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings by which a spreadsheet takes a cell for a formula."""


@dataclass(frozen=True, eq=False)
class Chart:
    """The result of every figure function: a figure, its description for readers who cannot see it, and its numbers."""

    figure: go.Figure
    alt: str
    """One or two sentences for readers who cannot see the figure: what is drawn, and what it shows."""
    table: pd.DataFrame
    """The numbers drawn, one observation per row; shares as fractions."""
    name: str
    """A short name for files and keys, such as `reliability`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", without_formulas(self.table))


def without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with an apostrophe before every text and column name that a spreadsheet would run as a formula.

    A spreadsheet itself puts an apostrophe before text that is to stay text. Numbers do not change, even as text.

    >>> without_formulas(pd.DataFrame({"group": ["=1+1", "-5", "fog"]}))["group"].tolist()
    ["'=1+1", '-5', 'fog']
    """
    safe = frame.rename(columns=_as_text)
    for column, kind in enumerate(frame.dtypes):
        if kind.kind not in "biufcmM":
            safe.isetitem(column, [_as_text(cell) for cell in frame.iloc[:, column]])
    return safe


def _as_text(cell: Any) -> Any:
    """The cell, or text that would run as a formula with an apostrophe before it."""
    if not isinstance(cell, str) or not cell.startswith(FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The frames one below the other; empty if there are none."""
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


SHARES = {"range": [-0.01, 1.02], "tickvals": np.linspace(0, 1, 6), "tickformat": ".0%"}
"""An axis from 0 to 100%."""

QUIET: dict[str, Any] = {"showlegend": False, "hoverinfo": "skip"}
"""A trace without legend entry and hover text."""


class Look(TypedDict, total=False):
    """Keyword arguments of every figure function."""

    dark: bool
    """On a dark background."""
    height: int | None
    """Pixels, if not the chart's own choice."""
    uirevision: str
    """A new one forgets the reader's zoom."""


def lay_out(figure: go.Figure, look: Look, height: int, uirevision: str, **layout: Any) -> go.Figure:
    """Theme and size of a figure; `height` and `uirevision` are the chart's own."""
    return figure.update_layout(
        template=template(look.get("dark", False)),
        height=look.get("height") or height,
        uirevision=look.get("uirevision", uirevision),
        **layout,
    )


def panels(rows: int = 2, spacing: float = 0.04, heights: Sequence[float] | None = (0.78, 0.22)) -> go.Figure:
    """Panels below each other with one x-axis."""
    sizes = list(heights) if heights else None
    return make_subplots(rows=rows, cols=1, shared_xaxes=True, row_heights=sizes, vertical_spacing=spacing)


def line(x: Any, y: Any, name: str, color: str, width: float, dash: str | None = None, **trace: Any) -> go.Scatter:
    """A line without markers, and without hover text unless a `hovertemplate` is given."""
    look = {"color": color, "width": width} | ({"dash": dash} if dash else {})
    hover = {} if "hovertemplate" in trace else {"hoverinfo": "skip"}
    return go.Scatter(x=x, y=y, mode="lines", name=name, line=look, **hover, **trace)


def band(x: Array, low: Array, high: Array, color: str, opacity: float, **trace: Any) -> go.Scatter:
    """The region between `low` and `high`: a closed outline, there and back, of each stretch that has both."""
    known = np.flatnonzero(np.isfinite(low) & np.isfinite(high))
    stretches = np.split(known, np.flatnonzero(np.diff(known) > 1) + 1)
    gap = [np.nan]
    return go.Scatter(
        x=np.concatenate([part for each in stretches for part in (x[each], x[each[::-1]], gap)])[:-1],
        y=np.concatenate([part for each in stretches for part in (low[each], high[each[::-1]], gap)])[:-1],
        mode="lines",
        fill="toself",
        fillcolor=translucent(color, opacity),
        line={"width": 0},
        **{**QUIET, **trace},
    )


def bars(edges: Array, y: Array, color: str, opacity: float, **trace: Any) -> go.Bar:
    """One bar per bin, a little narrower than the bin."""
    return go.Bar(
        x=(edges[:-1] + edges[1:]) / 2,
        y=y,
        width=np.diff(edges) * 0.92,
        marker={"color": translucent(color, opacity), "line": {"width": 0}},
        **trace,
    )


def curve(x: Array, y: Array, name: str, look: Style, size: float, data: Any, hover: str, **trace: Any) -> go.Scatter:
    """A line with markers in a method's style; `hover` may use `data` as customdata."""
    return go.Scatter(
        x=x,
        y=y,
        name=name,
        customdata=data,
        hovertemplate=f"{hover}<extra>{name}</extra>",
        **{"mode": "lines+markers", "line": look.line(), "marker": marker(look, size), **trace},
    )


def cell_points(x: Array, y: Array, size: int, opacity: float, dark: bool, **trace: Any) -> go.Scatter:
    """Invisible points on the cells of a heat map, which cannot be selected themselves; `opacity` if selected."""
    return go.Scatter(
        x=x,
        y=y,
        mode="markers",
        marker={"symbol": "square", "size": size, "color": ink(dark).text, "opacity": 0},
        selected={"marker": {"opacity": opacity}},
        unselected={"marker": {"opacity": 0}},
        name="cells",
        showlegend=False,
        **trace,
    )


def outline(edges: Array, y: Array, **trace: Any) -> go.Scatter:
    """The outline of bars: several do not hide each other."""
    return go.Scatter(x=np.repeat(edges, 2)[1:-1], y=np.repeat(y, 2), mode="lines", showlegend=False, **trace)


def marker(look: Style, size: float | None = None) -> dict[str, Any]:
    """A method's marker."""
    return {"color": look.color, "symbol": look.symbol} | ({} if size is None else {"size": size})


def name_rows(figure: go.Figure, names: Sequence[str]) -> None:
    """Write names along the y-axis, at 0, 1, ... from the top."""
    many = len(names)
    figure.update_yaxes(tickvals=list(range(many)), ticktext=list(names), range=[many - 0.4, -0.6], showgrid=False)


def error_bars(values: Any, low: Any, high: Any, **look: Any) -> dict[str, Any]:
    """Bars from `low` to `high` around the values of a trace."""
    above, below = np.subtract(high, values), np.subtract(values, low)
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below, **look}


def legend_entry(name: str, mode: str = "markers", **mark: Any) -> go.Scatter:
    """An entry of the legend without a point of its own."""
    return go.Scatter(x=[None], y=[None], mode=mode, name=name, hoverinfo="skip", **mark)


def shade(figure: go.Figure, start: float, stop: float, color: str) -> None:
    """Shade an interval of the x-axis over the whole height."""
    area = {"x0": start, "x1": stop, "y0": 0, "y1": 1, "xref": "x", "yref": "paper"}
    figure.add_shape(type="rect", **area, layer="below", fillcolor=color, line={"width": 0})


def diagonal(dark: bool, name: str, width: float, **trace: Any) -> go.Scatter:
    """The line on which accuracy equals confidence."""
    return line([0, 1], [0, 1], name, ink(dark).quiet, width, "5px,4px", **trace)


@dataclass(frozen=True)
class Crowd:
    """The weights of lines, markers and legend for a number of curves: the more there are, the lighter each is."""

    curves: int

    @property
    def dense(self) -> bool:
        """Whether there are more curves than are drawn at full weight."""
        return self.curves > 6

    @property
    def fewest(self) -> int:
        """Samples that a bin needs to carry a line: among many curves, the scatter of few would hide the others."""
        return 10 if self.dense else 1

    @property
    def marker_size(self) -> int:
        """Pixels of a marker."""
        return 5 if self.dense else 8

    @property
    def legend(self) -> dict[str, Any]:
        """Layout of the legend: smaller for many."""
        return {"font": {"size": 12}} if self.dense else {}

    def line(self, look: Style) -> dict[str, Any]:
        """Keyword arguments of a method's line."""
        return {**look.line(), "width": look.width * 0.7} if self.dense else look.line()

    def outline(self, look: Style) -> dict[str, Any]:
        """Keyword arguments of a method's line in a small panel."""
        return {**look.line(), "width": 1.0 if self.dense else 1.5}

    def height(self, height: int) -> int:
        """The height with 26 pixels for each row of three legend entries that many curves add."""
        return height + 26 * max(0, (self.curves - 4) // 3)
