"""One look for every figure: a light and a dark template, the methods' own colours, dashes and markers, two colour
scales, and how text from files is escaped.

Every colour has a contrast of at least 3:1 on both backgrounds. A family of methods shares a hue; methods that share a
dash have colours that colour-blind readers can tell apart. SMART alone is vermilion, thick and solid.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from functools import cache
from typing import Any

import plotly.graph_objects as go

from smart_core.calibrators import Calibrator, is_method, method_named, methods
from smart_core.formatting import shorten


@dataclass(frozen=True)
class Style:
    """How a method is named and drawn."""

    label: str
    color: str
    dash: str
    symbol: str
    width: float = 2.0

    def line(self) -> dict[str, Any]:
        """Keyword arguments of a plotly line."""
        return {"color": self.color, "dash": self.dash, "width": self.width}


RIGHT = Style("right", "#2A80B5", "solid", "circle")
WRONG = Style("wrong", "#C4501B", "solid", "x")
"""How samples whose top label is, and is not, the true one are drawn."""

SERIES = (
    Style("", "#D9480F", "solid", "diamond", 2.5),
    Style("", "#0B72C4", "7px,3px", "square", 2.5),
    Style("", "#00875A", "8px,3px,2px,3px", "triangle-up", 2.5),
    Style("", "#7C5CD6", "2px,3px", "hexagon", 2.5),
)
"""How things that are not methods (data sets, objectives) are drawn side by side, in this order."""


@dataclass(frozen=True)
class Ink:
    """The colours of a background and what is written on it."""

    background: str
    text: str
    grid: str
    quiet: str


LIGHT = Ink(background="#FFFFFF", text="#1F2430", grid="#E4E7EC", quiet="#5B6472")
DARK = Ink(background="#0F131A", text="#E8EAED", grid="#2A313C", quiet="#9AA4B2")
FONT = '"Source Sans", system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif'


def ink(dark: bool) -> Ink:
    """The colours of the dark or the light background."""
    return DARK if dark else LIGHT


def palette() -> dict[str, Style]:
    """The style of every method by id, as the method itself defines it, in the order of tables."""
    return {id: Style(method.label, *method.style) for id, method in methods().items()}


def style(method: str) -> Style:
    """The style of a method id; an unknown id is drawn in grey under its own name."""
    if not is_method(method):
        return Style(method, *Calibrator.style)
    known = method_named(method)
    return Style(known.label, *known.style)


Scale = tuple[tuple[float, str], ...]
"""A plotly colour scale: places from 0 to 1, each with its colour."""


def sequential(dark: bool = False) -> Scale:
    """From nothing (nearly the background) to much: lightness alone orders it, so that every eye reads it."""
    if dark:
        return _even("#171D27", "#1B3A5C", "#23598C", "#3F86C2", "#82B7E6", "#D3E9FF")
    return _even("#F3F6FA", "#CFDDF0", "#94BBE0", "#4F90C9", "#1F66A8", "#0B3D73")


def diverging(dark: bool = False) -> Scale:
    """From below (blue) over nothing (nearly the background) to above (orange-red)."""
    if dark:
        return _even("#8CC4F2", "#3F86C2", "#234B70", "#232A35", "#6B3A1E", "#C2662B", "#FFB07A")
    return _even("#0B4F8A", "#4F8FC4", "#A9CBE4", "#ECEEF1", "#F3BE9B", "#DB7A3F", "#9C3A06")


def _even(*colors: str) -> Scale:
    return tuple((place / (len(colors) - 1), color) for place, color in enumerate(colors))


def plain(text: object, longest: int = 40) -> str:
    """Text from files (class, group and file names) as plotly shows it unchanged, cut to `longest` characters.

    Plotly reads tags and entities in any text, `%{...}` in hover templates and `$...$` as a formula; each of
    these is written so that it only looks the same.
    """
    return html.escape(shorten(text, longest), quote=False).replace("%{", "&#37;{").replace("$", "&#36;")


def translucent(color: str, opacity: float) -> str:
    """`#RRGGBB` as an rgba() string."""
    red, green, blue = (int(color[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {opacity})"


@cache
def template(dark: bool = False) -> go.layout.Template:
    """The plotly template of the light or the dark theme."""
    colors = ink(dark)
    axis = {
        "gridcolor": colors.grid,
        "linecolor": colors.grid,
        "zeroline": False,
        "ticks": "",
        "automargin": True,
        "title": {"standoff": 8, "font": {"size": 14}},
        "ticklabelstandoff": 3,
    }
    return go.layout.Template(
        layout={
            "paper_bgcolor": colors.background,
            "plot_bgcolor": colors.background,
            "font": {"family": FONT, "size": 14, "color": colors.text},
            "colorway": [entry.color for entry in palette().values()],
            "xaxis": axis,
            "yaxis": axis,
            "legend": {
                "orientation": "h",
                "x": 0,
                "xanchor": "left",
                "y": 1.02,
                "yanchor": "bottom",
                "bgcolor": "rgba(0, 0, 0, 0)",
            },
            # room for the toolbar, which stands upright at the right so that it covers neither legend nor curves
            "margin": {"l": 8, "r": 34, "t": 8, "b": 8},
            "modebar": {
                "orientation": "v",
                "bgcolor": "rgba(0, 0, 0, 0)",
                "color": colors.quiet,
                "activecolor": colors.text,
            },
            "hoverlabel": {"bgcolor": colors.background, "font": {"color": colors.text}},
            "hovermode": "closest",
        }
    )
