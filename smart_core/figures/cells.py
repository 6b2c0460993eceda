"""A grid of numbers as coloured cells with the numbers written in them: what every table-like figure is drawn with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from smart_core.evaluation import metric_named
from smart_core.figures.theme import Scale, ink, sequential, template
from smart_core.formatting import metric_number, metric_value

Array = NDArray[np.float64]

NOT_YET = "not yet"
WIDE = 6
"""Columns from which on the numbers are written smaller, for narrow screens."""


@dataclass(frozen=True, eq=False)
class OverSeeds:
    """A metric's cells over the seeds that ran."""

    mean: Array
    """(rows, columns); NaN where no seed ran."""
    std: Array
    """(rows, columns) sample standard deviation; NaN below two seeds."""
    seeds: NDArray[np.int64]
    """(rows, columns) how many ran."""

    @classmethod
    def of(cls, values: NDArray[Any]) -> OverSeeds:
        """From (rows, columns, seeds); NaN marks a seed that did not run."""
        ran = np.isfinite(values)
        count = ran.sum(axis=2)
        known = np.where(ran, values, 0.0)
        mean = np.where(count > 0, known.sum(axis=2) / np.maximum(count, 1), np.nan)
        squares = np.where(ran, (values - mean[:, :, None]) ** 2, 0.0).sum(axis=2)
        std = np.where(count > 1, np.sqrt(squares / np.maximum(count - 1, 1)), np.nan)
        return cls(mean, std, count)

    @property
    def most(self) -> int:
        """Seeds of the cell that has most."""
        return int(self.seeds.max(initial=0))

    def transposed(self) -> OverSeeds:
        """Rows and columns changed over."""
        return OverSeeds(self.mean.T, self.std.T, self.seeds.T)

    def text(self, metric: str, row: int, column: int) -> str:
        """What is written in a cell: the mean, and below it the spread if several seeds ran."""
        words = metric_number(metric, float(self.mean[row, column]))
        spread = metric_number(metric, float(self.std[row, column]))
        return f"{words}<br>±{spread}" if words and spread else words

    def words(self, metric: str, row: int, column: int) -> str:
        """A cell in words: value, spread and seeds."""
        if not self.seeds[row, column]:
            return "no value yet"
        words = f"{metric_named(metric).label} {metric_value(metric, self.mean[row, column])}"
        if self.seeds[row, column] > 1:
            words += f" ± {metric_value(metric, self.std[row, column])} over {self.seeds[row, column]} seeds"
        return words

    def record(self, metric: str, row: int, column: int) -> dict[str, Any]:
        """A cell as the last columns of a table's row."""
        label = metric_named(metric).label
        return {
            label: self.mean[row, column],
            f"{label} std over seeds": self.std[row, column],
            "seeds": int(self.seeds[row, column]),
        }


@dataclass(frozen=True)
class Mark:
    """A cell that is pointed out, and what the legend says of it."""

    row: int
    column: int
    name: str
    outline: bool = False
    """Framed if so, else with a star before its number."""


def best_cell(mean: Array, *, higher_is_better: bool) -> tuple[int, int] | None:
    """Row and column of the best mean; None while no cell is filled."""
    if not np.isfinite(mean).any():
        return None
    worst = -np.inf if higher_is_better else np.inf
    filled = np.where(np.isfinite(mean), mean, worst)
    place = int(filled.argmax() if higher_is_better else filled.argmin())
    return place // mean.shape[1], place % mean.shape[1]


def cell_heatmap(
    values: Array,
    text: Sequence[Sequence[str]],
    hover: Sequence[Sequence[str]],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    caption: str,
    marks: Sequence[Mark] = (),
    empty: str = NOT_YET,
    dark: bool,
    height: int | None,
    uirevision: str,
) -> go.Figure:
    """Cells coloured by `values` with `text` written in them; the first row is on top.

    Cells without a value are left without colour and say `empty`. `caption` says before the legend what the numbers
    are. Where columns are many, only the first line of a text is written, the rest is left to `hover`. `rows`,
    `columns` and `hover` must be escaped already. Every cell is a point that can be selected: x its column, y its row.
    """
    wide = len(columns) >= WIDE
    starred = {(mark.row, mark.column) for mark in marks if not mark.outline}
    heat = go.Heatmap(
        z=values,
        x=list(range(len(columns))),
        y=list(range(len(rows))),
        hoverinfo="skip",
        colorscale=sequential(dark),
        showscale=False,
        xgap=2,
        ygap=2,
    )
    written = [
        _written(text[i][j], empty, star=(i, j) in starred, wide=wide)
        for i in range(len(rows))
        for j in range(len(columns))
    ]
    figure = go.Figure([heat, _selectable(values, hover, dark)])
    for mark in {mark.name: mark for mark in marks}.values():  # several stars may share one entry
        figure.add_trace(_legend_entry(mark, dark))
    for mark in marks:
        if mark.outline:
            figure.add_shape(
                type="rect",
                x0=mark.column - 0.5,
                x1=mark.column + 0.5,
                y0=mark.row - 0.5,
                y1=mark.row + 0.5,
                line={"color": ink(dark).text, "width": 3},
            )
    tall = any("<br>" in words for words in written)
    figure.update_layout(
        template=template(dark),
        height=height or 90 + (46 if tall else 34) * len(rows),
        uirevision=uirevision,
        annotations=_texts(values, written, wide=wide, dark=dark),
        clickmode="event+select",
        hoverdistance=-1,  # the nearest point is always that of the cell under the pointer
        legend={"title": {"text": caption + " ", "font": {"size": 12}}, "font": {"size": 12}},
    )
    axis = {"showgrid": False, "zeroline": False, "tickmode": "array", "tickfont": {"size": 11 if wide else 13}}
    # a label that leans to the left ends at its column and is never cut off at the right
    figure.update_xaxes(
        **axis,
        autotickangles=[0, -45, -90],
        tickvals=list(range(len(columns))),
        ticktext=list(columns),
        range=[-0.5, len(columns) - 0.5],
    )
    figure.update_yaxes(**axis, tickvals=list(range(len(rows))), ticktext=list(rows), range=[len(rows) - 0.5, -0.5])
    return figure


def _written(words: str, empty: str, *, star: bool, wide: bool) -> str:
    """A cell's text; in a narrow one the star stands below its number."""
    if not words:
        return empty
    if wide:
        first = words.split("<br>")[0]
        return f"<b>{first}</b><br>★" if star else first
    return f"★ {words}" if star else words


def _texts(values: Array, written: Sequence[str], *, wide: bool, dark: bool) -> list[dict[str, Any]]:
    """The cells' texts, each in the ink that stands out on its cell; as annotations, which a selection does not dim."""
    inks = cell_inks(values, dark)
    return [
        {
            "x": place % values.shape[1],
            "y": place // values.shape[1],
            "text": words,
            "showarrow": False,
            "font": {"size": 9 if wide else 12, "color": inks[place]},
        }
        for place, words in enumerate(written)
    ]


def _selectable(values: Array, hover: Sequence[Sequence[str]], dark: bool) -> go.Scatter:
    """An unseen point a cell: a heat map's own cells cannot be selected."""
    y, x = np.indices(values.shape)
    return go.Scatter(
        x=x.ravel(),
        y=y.ravel(),
        mode="markers",
        marker={"symbol": "square", "size": 26, "color": ink(dark).text, "opacity": 0},
        selected={"marker": {"opacity": 0.25}},
        unselected={"marker": {"opacity": 0}},
        customdata=[words for line in hover for words in line],
        hovertemplate="%{customdata}<extra></extra>",
        name="cells",
        showlegend=False,
    )


def cell_inks(values: Array, dark: bool) -> list[str]:
    """Black or white for each cell, row by row, whichever has more contrast on its colour; quiet where it has none."""
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    inks = []
    for value in values.ravel().tolist():
        if not np.isfinite(value):
            inks.append(ink(dark).quiet)
            continue
        # plotly gives a grid of one value the middle of the scale
        place = (value - low) / (high - low) if high > low else 0.5
        light = _luminance(sequential(dark), place)
        # WCAG: (light + .05) / .05 against black, 1.05 / (light + .05) against white
        inks.append("#000000" if (light + 0.05) ** 2 > 0.05 * 1.05 else "#FFFFFF")
    return inks


def _luminance(scale: Scale, place: float) -> float:
    """WCAG's relative luminance of the scale at a place from 0 to 1."""
    places = [stop for stop, _ in scale]
    parts = []
    for start in (1, 3, 5):
        level = np.interp(place, places, [int(color[start : start + 2], 16) / 255.0 for _, color in scale])
        parts.append(level / 12.92 if level <= 0.04045 else ((level + 0.055) / 1.055) ** 2.4)
    return float(np.dot(parts, [0.2126, 0.7152, 0.0722]))


def _legend_entry(mark: Mark, dark: bool) -> go.Scatter:
    symbol = "square-open" if mark.outline else "star"
    return go.Scatter(
        x=[None],
        y=[None],
        mode="markers",
        marker={"symbol": symbol, "size": 11, "color": ink(dark).text, "line": {"width": 2.5 if mark.outline else 0}},
        name=mark.name,
        hoverinfo="skip",
        showlegend=True,
    )
