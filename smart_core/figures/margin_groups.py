"""Margin groups: a reliability diagram per group, and the gap in every cell of margin and confidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import pandas as pd
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
from smart_core.figures.chart import (
    Chart,
    Look,
    band,
    cell_points,
    curve,
    diagonal,
    error_bars,
    joined,
    lay_out,
    marker,
)
from smart_core.figures.theme import Style, diverging, ink, plain, style
from smart_core.formatting import percent, plural

PANEL = 225
"""Pixels of a row of panels."""
COLUMNS = 2
"""Panels side by side: readable on a phone too."""
MOST_GROUPS = 30
"""More panels than this are neither readable nor quick."""
FEW, FEW_SHARE = 10, 0.02
"""Bins of a panel with fewer samples, or a smaller share of the group, are faded points off the line."""
NARROWEST = 0.004
"""The shortest range of confidence that a panel zooms to."""
STEPS = (0.5, 0.25, 0.2, 0.1, 0.05, 0.04, 0.02, 0.01, 0.005, 0.004, 0.002, 0.001, 0.0005)
"""Distances between the ticks of a panel. It takes the longest that gives three or four, else two: more overlap."""


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
    columns: int = COLUMNS,
    **look: Unpack[Look],
) -> Chart:
    """A small reliability diagram for each margin group, before and (if given) after calibration.

    Lines are accuracy against mean confidence of the bins with at least ten samples and 2% of the group, with 95%
    bands; bins with fewer are faded points. Markers grow with the share of the group's samples. Each panel has one
    range for both axes, zoomed to its samples. `methods` are the ids of the two sides, which give their colours;
    `labels` are other names. `groups` are the groups of each side if they are known: computing them takes most of the
    time.

    >>> import smart_core as sc
    >>> from smart_core.analysis.margin_groups import margin_edges
    >>> data = sc.simulate_set(100, 300, 4, seed=0)
    >>> model = sc.Vanilla().fit(data.validation.logits, data.validation.labels)
    >>> evaluation = sc.evaluate(model, data.test)
    >>> chart = margin_group_grid(evaluation, None, margin_edges(evaluation.margin, 3))
    >>> chart.table.groupby("margin from")["samples"].sum().tolist()
    [100, 100, 100]
    """
    sides = _sides(before, after, edges, bins, methods, labels, groups)
    panels = sides[0].groups
    if len(panels) > MOST_GROUPS:
        raise CalibrationError(
            f"{len(panels)} margin groups are too many for a grid of diagrams; choose at most {MOST_GROUPS}."
        )
    rows = max(1, -(-len(panels) // columns))
    wide = max(1, -(-len(panels) // rows))
    total = look.get("height") or 70 + PANEL * rows
    figure = make_subplots(
        rows=rows,
        cols=wide,
        vertical_spacing=min(0.9 / max(rows - 1, 1), 90 / total),
        horizontal_spacing=0.16,
        subplot_titles=[
            _title(span, [side.groups[number] for side in sides]) for number, span in enumerate(margin_labels(edges))
        ],
    )
    for number in range(len(panels)):
        row, column = number // wide + 1, number % wide + 1
        corner = diagonal(look.get("dark", False), "diagonal", 1, showlegend=False)
        traces = [trace for side in sides for trace in _traces(side, number)]
        # bands first, so that no line is covered
        for trace in (corner, *sorted(traces, key=lambda trace: trace.fill != "toself")):
            figure.add_trace(trace, row=row, col=column)
        span = _range(sides, number)
        axis: dict[str, Any] = {"range": span, "tick0": 0, "dtick": _step(*span)}
        figure.update_xaxes(**axis, row=row, col=column)
        figure.update_yaxes(**axis, row=row, col=column)
    _grid_layout(figure, rows, wide, len(panels))
    lay_out(figure, look, total, "margin-groups")
    return Chart(figure, _grid_alt(sides), joined([_grid_table(side) for side in sides]), "margin-groups")


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
    evaluations = [side for side in (before, after) if side is not None]
    known = groups or [margin_groups(side, edges, bins) for side in evaluations]
    return [
        _Side(name, style(id), list(own), gap_cells(side, edges, bins))
        for side, own, id, name in zip(evaluations, known, methods, names, strict=False)
    ]


def _title(span: str, sides: Sequence[MarginGroup]) -> str:
    """Margins and samples, and the ECE before and after."""
    first = sides[0]
    head = f"<b>margin {span}</b><br>n = {first.n:,}"
    if first.n == 0:
        return head
    return f"{head}<br>ECE {' → '.join(f'{100 * group.ece:.1f}' for group in sides)}%"


def _solid(side: _Side, number: int) -> Any:
    """Which bins of a group carry its line; where all have few samples, all that hold any."""
    count = side.cells.count[number]
    enough = count >= max(FEW, FEW_SHARE * int(count.sum()))
    return enough if enough.any() else count > 0


def _range(sides: Sequence[_Side], number: int) -> list[float]:
    """The range of both axes of a panel: its lines and their bands."""
    ends: list[float] = []
    for side in sides:
        solid, band = _solid(side, number), side.cells.band
        for values in (side.cells.confidence, band.low, band.high):
            ends += values[number][solid].tolist()
    if not ends:
        return [-0.02, 1.02]
    least, most = min(ends), max(ends)
    room = 0.06 * max(most - least, NARROWEST)
    return [max(least - room, -0.02), most + room]


def _step(low: float, high: float) -> float:
    ticks = {step: math.floor(high / step) - math.ceil(low / step) + 1 for step in STEPS}
    return next((step for few in (3, 2) for step in STEPS if few <= ticks[step] <= 4), STEPS[-1])


def _traces(side: _Side, number: int) -> list[go.Scatter]:
    """A group's line with its band, or with error bars where it is a single point, and its faded points."""
    cells, name, look = side.cells, side.label, side.look
    count, lows, highs = cells.count[number], cells.band.low, cells.band.high
    solid = _solid(side, number)
    few = (count > 0) & ~solid
    size = 4 + 9 * np.sqrt(count / max(int(count.sum()), 1))
    data = np.column_stack([count, lows[number], highs[number]])
    gaps = np.array([percent(gap, 1, "+") for gap in cells.gap[number]])
    hover = (
        "confidence %{x:.1%}<br>accuracy %{y:.1%} (%{customdata[1]:.1%} to %{customdata[2]:.1%})"
        "<br>gap %{text}<br>%{customdata[0]:,.0f} samples"
    )
    common: dict[str, Any] = {"legendgroup": name}
    x, y = cells.confidence[number], cells.accuracy[number]
    alone = error_bars(y[solid], lows[number][solid], highs[number][solid], thickness=1.5, width=3)
    main = curve(
        *(x[solid], y[solid], name, look, 6, data[solid], hover),
        text=gaps[solid],
        line={**look.line(), "width": 2},
        marker={**marker(look), "size": size[solid], "opacity": 1, "line": {"width": 0}},
        error_y=alone if solid.sum() == 1 else None,
        showlegend=number == 0,
        **common,
    )
    faded = curve(
        *(x[few], y[few], name, look, 6, data[few], hover),
        mode="markers",
        text=gaps[few],
        marker={**marker(look), "size": size[few], "opacity": 0.3, "line": {"width": 0}},
        showlegend=False,
        **common,
    )
    if solid.sum() < 2:
        return [main, faded]
    low, high = lows[number][solid], highs[number][solid]
    return [band(x[solid], low, high, look.color, 0.16, name=f"{name}: 95% band", **common), main, faded]


def _grid_layout(figure: go.Figure, rows: int, columns: int, groups: int) -> None:
    ticks: dict[str, Any] = {"tickformat": ".2~%", "tickfont_size": 12, "tickangle": 0}
    figure.update_xaxes(**ticks)
    figure.update_yaxes(**ticks)
    for column in range(1, columns + 1):
        # the lowest panel of each column names the axis; the last row may be short
        lowest = rows if (rows - 1) * columns + column <= groups else rows - 1
        figure.update_xaxes(title_text="confidence", row=lowest, col=column)
    for row in range(1, rows + 1):
        figure.update_yaxes(title_text="accuracy", row=row, col=1)
    figure.update_annotations(font_size=12, yshift=2)
    # the legend stands above the titles of the first row
    figure.update_layout(legend={"y": 1.0, "yref": "container", "yanchor": "top"}, margin={"t": 88})


def _grid_table(side: _Side) -> pd.DataFrame:
    cells, groups, bins = side.cells, side.groups, side.cells.bin_edges.size - 1

    def per_group(values: Sequence[float]) -> Any:
        return np.repeat(values, bins)

    return pd.DataFrame(
        {
            "method": side.name,
            "margin from": per_group([group.low for group in groups]),
            "margin to": per_group([group.high for group in groups]),
            "samples of the group": per_group([group.n for group in groups]),
            "ECE of the group": per_group([group.ece for group in groups]),
            "noise floor 95% of the group": per_group([group.floor_q95 for group in groups]),
            "bin from": np.tile(cells.bin_edges[:-1], len(groups)),
            "bin to": np.tile(cells.bin_edges[1:], len(groups)),
            "samples": cells.count.ravel(),
            "mean confidence": cells.confidence.ravel(),
            "accuracy": cells.accuracy.ravel(),
        }
    )


def _grid_alt(sides: Sequence[_Side]) -> str:
    names = " and ".join(side.name for side in sides)
    words = f"Reliability diagrams of {plural(len(sides[0].groups), 'margin group')}, {names}."
    for side in sides:
        worst = worst_group(side.groups)
        if worst is None:
            words += f" {side.name}: no group is off beyond noise."
        else:
            words += f" {side.name}: worst at {worst.span}, {worst.means} (ECE {percent(worst.ece)})."
    return words


def gap_heatmap(evaluation: Evaluation, edges: ArrayLike, bins: int = 15, **look: Unpack[Look]) -> Chart:
    """Mean confidence minus accuracy by margin group and confidence bin: blue is underconfident, orange overconfident.

    Cells whose gap noise explains (95%) are dimmed and dotted, empty ones left out. Every cell that holds a sample is
    a point that can be selected; its `customdata` begins with the number of the group and of the bin.
    """
    cells, dark = gap_cells(evaluation, edges, bins), look.get("dark", False)
    names = margin_labels(cells.edges)
    middle = (cells.bin_edges[:-1] + cells.bin_edges[1:]) / 2
    clear = cells.beyond_noise
    noise = (cells.count > 0) & ~clear
    reach = float(np.max(np.abs(cells.gap[clear]), initial=0.05))
    figure = go.Figure()
    for kept, opacity in ((clear, 1.0), (noise, 0.3)):
        gaps = np.where(kept, cells.gap, np.nan)
        rows = list(range(len(names)))
        figure.add_heatmap(
            x=middle, y=rows, z=gaps, coloraxis="coloraxis", opacity=opacity, xgap=1, ygap=1, hoverinfo="skip"
        )
    # dimming alone is easily taken for a small gap
    group, column = np.nonzero(noise)
    figure.add_scatter(
        x=middle[column],
        y=group,
        mode="markers",
        marker={"symbol": "circle", "size": 4, "color": ink(dark).quiet},
        name="within noise",
        hoverinfo="skip",
        showlegend=False,
    )
    figure.add_trace(_selectable(cells, middle, names, dark))
    _gap_layout(figure, reach, names, dark)
    lay_out(figure, look, 150 + 34 * max(len(names), 3), "margin-gap", clickmode="event+select")
    return Chart(figure, _gap_alt(cells, names), _gap_table(cells), "margin-gap")


def _gap_layout(figure: go.Figure, reach: float, names: Sequence[str], dark: bool) -> None:
    place = {"orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yref": "container", "yanchor": "top", "ypad": 20}
    size = {"thickness": 10, "lenmode": "pixels", "len": 260, "nticks": 5, "tickformat": ".0%", "outlinewidth": 0}
    scale = {"colorscale": diverging(dark), "cmin": -reach, "cmax": reach, "cmid": 0}
    figure.update_layout(margin={"t": 64}, coloraxis={**scale, "colorbar": {**place, **size}})
    # a title of the bar's own would be written over it
    figure.add_annotation(
        text="confidence − accuracy; dotted: within noise",
        font_size=12,
        showarrow=False,
        xref="paper",
        yref="paper",
        x=0,
        y=1,
        xanchor="left",
        yanchor="bottom",
        yshift=55,
    )
    ticks = {"tickvals": np.linspace(0, 1, 6), "tickformat": ".0%"}
    figure.update_xaxes(title_text="confidence", range=[-0.003, 1.003], **ticks, showgrid=False)
    rows = len(names)
    figure.update_yaxes(tickvals=list(range(rows)), ticktext=names, showgrid=False, range=[-0.5, rows - 0.5])
    figure.update_yaxes(title_text="margin")


def _selectable(cells: GapCells, middle: Any, names: Sequence[str], dark: bool) -> go.Scatter:
    """One point per cell that holds a sample."""
    group, column = np.nonzero(cells.count)
    details = [cells.count, cells.confidence, cells.accuracy]
    gaps = [percent(gap, 1, "+") for gap in cells.gap[group, column]]
    edges = cells.bin_edges[column], cells.bin_edges[column + 1]
    return cell_points(
        *(middle[column], group, 16, 0.55, dark),
        # rows of an array come back from the browser as dictionaries, lists as lists
        customdata=np.column_stack([group, column, *(each[group, column] for each in details), *edges]).tolist(),
        text=[f"margin {names[number]}" for number in group.tolist()],
        hovertext=gaps,
        hovertemplate=(
            "%{text}<br>confidence %{customdata[5]:.1%}–%{customdata[6]:.1%}<br>%{customdata[2]:,.0f} samples"
            "<br>mean confidence %{customdata[3]:.1%}, accuracy %{customdata[4]:.1%}<br>gap %{hovertext}<extra></extra>"
        ),
    )


def _gap_table(cells: GapCells) -> pd.DataFrame:
    group, column = np.nonzero(cells.count)
    return pd.DataFrame(
        {
            "margin from": cells.edges[group],
            "margin to": cells.edges[group + 1],
            "bin from": cells.bin_edges[column],
            "bin to": cells.bin_edges[column + 1],
            "samples": cells.count[group, column],
            "mean confidence": cells.confidence[group, column],
            "accuracy": cells.accuracy[group, column],
            "gap": cells.gap[group, column],
        }
    )


def _gap_alt(cells: GapCells, names: Sequence[str]) -> str:
    words = (
        f"Heat map of mean confidence minus accuracy in {len(names)} margin groups by {cells.bin_edges.size - 1} "
        "confidence bins"
    )
    clear = cells.beyond_noise
    rest = int(((cells.count > 0) & ~clear).sum())
    dimmed = f"; {plural(rest, 'cell')} within noise dimmed" if rest else ""
    if not clear.any():
        return f"{words}; no cell is off beyond noise."
    group, column = divmod(int(np.argmax(np.where(clear, np.abs(cells.gap), -1))), cells.gap.shape[1])
    span = f"{percent(cells.bin_edges[column])} to {percent(cells.bin_edges[column + 1])}"
    samples = plural(int(cells.count[group, column]), "sample")
    return (
        f"{words}{dimmed}. The largest gap is at margin {names[group]} and confidence {span}: {samples} claim "
        f"{percent(cells.confidence[group, column])} and are right {percent(cells.accuracy[group, column])} of the "
        "time."
    )
