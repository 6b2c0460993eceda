"""Reliability diagrams of margin groups, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike
from plotly.subplots import make_subplots

from smart_core.analysis.margin_groups import (
    GapCells,
    MarginGroup,
    gap_cells,
    margin_groups,
    margin_labels,
    worst_group,
)
from smart_core.errors import CalibrationError
from smart_core.evaluation import Evaluation
from smart_core.figures.change_plot import confidence_change_plot as confidence_change_plot
from smart_core.figures.chart import Chart
from smart_core.figures.gap_map import gap_heatmap as gap_heatmap
from smart_core.figures.theme import Style, ink, plain, style, template, translucent
from smart_core.formatting import NBSP, percent, plural

if TYPE_CHECKING:
    import pandas as pd

PANEL = 250
"""Pixels of a row of panels."""
MOST_GROUPS = 30
"""More panels than this are neither readable nor quick."""


@dataclass(frozen=True, eq=False)
class _Side:
    """One of the evaluations compared: its groups and cells, and how it is drawn."""

    name: str
    look: Style
    groups: list[MarginGroup]
    cells: GapCells

    @property
    def label(self) -> str:
        return plain(self.name)


def margin_group_grid(
    before: Evaluation,
    after: Evaluation | None,
    edges: ArrayLike,
    bins: int = 15,
    *,
    methods: tuple[str, str] = ("vanilla", "smart"),
    labels: tuple[str, str] | None = None,
    groups: Sequence[Sequence[MarginGroup]] | None = None,
    columns: int = 3,
    dark: bool = False,
    height: int | None = None,
    uirevision: str = "margin-groups",
) -> Chart:
    """A small reliability diagram for each margin group, before and (if given) after calibration.

    Lines are accuracy against mean confidence of the bins that hold a sample of the group; bars are the share of the
    group's samples in each bin, on the same axis because both are shares. `methods` are the ids of the two sides, for
    their look; `labels` other names. `groups` are the groups of each side where they are known: judging them takes most
    of the time. `height` grows with the rows of panels unless given.
    """
    sides = _sides(before, after, edges, bins, methods, labels, groups)
    panels = sides[0].groups
    if len(panels) > MOST_GROUPS:
        raise CalibrationError(
            f"{len(panels)} margin groups are too many for a grid of diagrams; choose at most {MOST_GROUPS}."
        )
    spans = margin_labels(edges)
    rows = max(1, -(-len(panels) // columns))
    wide = max(1, -(-len(panels) // rows))
    total = height or 70 + PANEL * rows
    figure = make_subplots(
        rows=rows,
        cols=wide,
        shared_xaxes="all",
        shared_yaxes="all",
        vertical_spacing=min(0.9 / max(rows - 1, 1), 88 / total),
        horizontal_spacing=0.07,
        subplot_titles=[
            _title(span, [side.groups[number] for side in sides], wide) for number, span in enumerate(spans)
        ],
    )
    for number in range(len(panels)):
        place = {"row": number // wide + 1, "col": number % wide + 1}
        figure.add_trace(_corner(dark), **place)
        for side in sides:
            figure.add_trace(_bars(side, number), **place)
        for side in sides:
            figure.add_trace(_line(side, number), **place)
    _grid_layout(figure, rows, wide, len(panels))
    figure.update_layout(template=template(dark), height=total, uirevision=uirevision, barmode="overlay", bargap=0)
    return Chart(figure, _grid_alt(sides), _grid_table(sides), "margin-groups")


def _sides(
    before: Evaluation,
    after: Evaluation | None,
    edges: ArrayLike,
    bins: int,
    methods: tuple[str, str],
    labels: tuple[str, str] | None,
    groups: Sequence[Sequence[MarginGroup]] | None,
) -> list[_Side]:
    if after is not None and len(after) != len(before):
        raise CalibrationError(
            f"Before and after must be evaluations of the same samples; they have {len(before):,} and {len(after):,}."
        )
    names = labels or (style(methods[0]).label, style(methods[1]).label)
    judged = [side for side in (before, after) if side is not None]
    known = groups or [margin_groups(side, edges, bins) for side in judged]
    return [
        _Side(name, style(id), list(found), gap_cells(side, edges, bins))
        for side, found, id, name in zip(judged, known, methods, names, strict=False)
    ]


def _title(span: str, sides: Sequence[MarginGroup], columns: int) -> str:
    """Margins, samples and ECE; on more lines where panels are narrow."""
    first = sides[0]
    head = f"margin {span}" + (", " if columns < 3 else "<br>") + f"n = {first.n:,}"
    if first.n == 0:
        return head
    return f"{head}<br>ECE {' → '.join(f'{100 * group.ece:.1f}' for group in sides)}{NBSP}%"


def _corner(dark: bool) -> go.Scatter:
    return go.Scatter(
        x=[0, 1],
        y=[0, 1],
        mode="lines",
        line={"color": ink(dark).quiet, "width": 1, "dash": "5px,4px"},
        showlegend=False,
        hoverinfo="skip",
        name="diagonal",
    )


def _bars(side: _Side, number: int) -> go.Bar:
    cells, name = side.cells, side.label
    count = cells.count[number]
    share = count / max(int(count.sum()), 1)
    held = count > 0
    return go.Bar(
        x=((cells.bin_edges[:-1] + cells.bin_edges[1:]) / 2)[held],
        y=share[held],
        width=np.diff(cells.bin_edges)[held] * 0.92,
        marker={"color": translucent(side.look.color, 0.3), "line": {"width": 0}},
        name=f"{name}: share of samples",
        legendgroup=name,
        showlegend=False,
        customdata=count[held],
        hovertemplate=f"%{{y:.1%}} of the group, %{{customdata:,}} samples<extra>{name}</extra>",
    )


def _line(side: _Side, number: int) -> go.Scatter:
    cells, name, look = side.cells, side.label, side.look
    held = cells.count[number] > 0
    return go.Scatter(
        x=cells.confidence[number][held],
        y=cells.accuracy[number][held],
        mode="lines+markers",
        line={**look.line(), "width": 2},
        marker={"color": look.color, "symbol": look.symbol, "size": 6},
        name=name,
        legendgroup=name,
        showlegend=number == 0,
        customdata=np.column_stack([cells.count[number], cells.gap[number]])[held],
        hovertemplate=(
            "confidence %{x:.1%}<br>accuracy %{y:.1%}<br>gap %{customdata[1]:+.1%}"
            f"<br>%{{customdata[0]:,.0f}} samples<extra>{name}</extra>"
        ),
    )


def _grid_layout(figure: go.Figure, rows: int, columns: int, groups: int) -> None:
    ticks: dict[str, Any] = {"range": [-0.02, 1.04], "tickvals": [0, 0.5, 1], "ticktext": ["0", "50%", "100%"]}
    figure.update_xaxes(**ticks, tickfont_size=12, showticklabels=False)
    figure.update_yaxes(**ticks)
    for column in range(1, columns + 1):
        # the lowest panel of each column carries the axis; the last row may be short
        lowest = rows if (rows - 1) * columns + column <= groups else rows - 1
        figure.update_xaxes(showticklabels=True, title_text="confidence", row=lowest, col=column)
    for row in range(1, rows + 1):
        figure.update_yaxes(title_text="accuracy, share", row=row, col=1)
    figure.update_annotations(font_size=11, yshift=2)
    # the legend stands above the titles of the first row
    figure.update_layout(legend={"y": 1.0, "yref": "container", "yanchor": "top"}, margin={"t": 84})


def _grid_table(sides: Sequence[_Side]) -> pd.DataFrame:
    import pandas as pd

    frames = []
    for side in sides:
        for number, group in enumerate(side.groups):
            cells = side.cells
            frames.append(
                pd.DataFrame(
                    {
                        "method": side.name,
                        "margin from": group.low,
                        "margin to": group.high,
                        "samples of the group": group.n,
                        "ECE of the group": group.ece,
                        "noise floor 95 % of the group": group.floor_q95,
                        "bin from": cells.bin_edges[:-1],
                        "bin to": cells.bin_edges[1:],
                        "samples": cells.count[number],
                        "mean confidence": cells.confidence[number],
                        "accuracy": cells.accuracy[number],
                    }
                )
            )
    return pd.concat(frames, ignore_index=True)


def _grid_alt(sides: Sequence[_Side]) -> str:
    words = (
        f"Reliability diagrams of {plural(len(sides[0].groups), 'margin group')}, "
        + " and ".join(side.name for side in sides)
        + "."
    )
    for side in sides:
        worst = worst_group(side.groups)
        if worst is None:
            words += f" {side.name}: no group is off beyond noise."
        else:
            words += f" {side.name}: worst at {worst.sentence} (ECE {percent(worst.ece)})."
    return words
