"""The gap between confidence and accuracy, cell by cell of margin and confidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from smart_core.analysis.margin_groups import GapCells, gap_cells, margin_labels
from smart_core.evaluation import Evaluation
from smart_core.figures.chart import Chart
from smart_core.figures.theme import diverging, ink, template
from smart_core.formatting import percent, plural

if TYPE_CHECKING:
    import pandas as pd

FEWEST = 5
"""Cells with fewer samples are dimmed: their gap is hardly more than chance."""
DIMMED = 0.3


def gap_heatmap(
    evaluation: Evaluation,
    edges: ArrayLike,
    bins: int = 15,
    *,
    dark: bool = False,
    height: int | None = None,
    uirevision: str = "margin-gap",
) -> Chart:
    """Mean confidence minus accuracy by margin group and confidence bin: blue is too timid, orange too sure.

    Cells with fewer than five samples are dimmed and dotted, empty ones left out. Every cell that holds a sample is a
    point that can be selected; its `customdata` begins with the number of the group and of the bin.
    """
    cells = gap_cells(evaluation, edges, bins)
    gap, enough = cells.gap, cells.count >= FEWEST
    reach = float(np.max(np.abs(gap[enough]), initial=0.05))
    names = margin_labels(cells.edges)
    middle = (cells.bin_edges[:-1] + cells.bin_edges[1:]) / 2
    layers = [
        go.Heatmap(
            x=middle,
            y=list(range(len(names))),
            z=np.where(kept, gap, np.nan),
            coloraxis="coloraxis",
            opacity=opacity,
            xgap=1,
            ygap=1,
            hoverinfo="skip",
        )
        for kept, opacity in ((enough, 1.0), (~enough & (cells.count > 0), DIMMED))
    ]
    figure = go.Figure([*layers, _thin_cells(cells, middle, dark), _selectable(cells, middle, names, dark)])
    figure.update_layout(
        template=template(dark),
        height=height or 150 + 34 * max(len(names), 3),
        uirevision=uirevision,
        clickmode="event+select",
        margin={"t": 64},
        coloraxis={
            "colorscale": diverging(dark),
            "cmin": -reach,
            "cmax": reach,
            "cmid": 0,
            "colorbar": {
                "orientation": "h",
                "x": 0,
                "xanchor": "left",
                "y": 1,
                "yref": "container",
                "yanchor": "top",
                "ypad": 20,
                "thickness": 10,
                "lenmode": "pixels",
                "len": 260,
                "nticks": 5,
                "tickformat": ".0%",
                "outlinewidth": 0,
            },
        },
    )
    # a title of the bar's own would be written over it
    figure.add_annotation(
        text=f"confidence − accuracy; dotted: n &lt; {FEWEST}",
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
    figure.update_xaxes(
        title_text="confidence",
        range=[-0.003, 1.003],
        tickvals=np.linspace(0, 1, 6),
        tickformat=".0%",
        showgrid=False,
    )
    figure.update_yaxes(
        title_text="margin",
        tickvals=list(range(len(names))),
        ticktext=names,
        showgrid=False,
        range=[-0.5, len(names) - 0.5],
    )
    return Chart(figure, _heat_alt(cells, names), _heat_table(cells), "margin-gap")


def _thin_cells(cells: GapCells, middle: NDArray[np.float64], dark: bool) -> go.Scatter:
    """A dot in every cell with too few samples: dimming alone is easily taken for a small gap."""
    group, column = np.nonzero((cells.count > 0) & (cells.count < FEWEST))
    return go.Scatter(
        x=middle[column],
        y=group,
        mode="markers",
        marker={"symbol": "circle", "size": 4, "color": ink(dark).quiet},
        name=f"fewer than {FEWEST} samples",
        hoverinfo="skip",
        showlegend=False,
    )


def _selectable(cells: GapCells, middle: NDArray[np.float64], names: Sequence[str], dark: bool) -> go.Scatter:
    """An unseen point a cell: a heat map's own cells cannot be selected."""
    group, column = np.nonzero(cells.count)
    return go.Scatter(
        x=middle[column],
        y=group,
        mode="markers",
        marker={"symbol": "square", "size": 16, "color": ink(dark).text, "opacity": 0},
        selected={"marker": {"opacity": 0.55}},
        unselected={"marker": {"opacity": 0}},
        name="cells",
        showlegend=False,
        # rows of an array come back from the browser as dictionaries, lists as lists
        customdata=np.column_stack(
            [
                group,
                column,
                cells.count[group, column],
                cells.confidence[group, column],
                cells.accuracy[group, column],
                cells.gap[group, column],
                cells.bin_edges[column],
                cells.bin_edges[column + 1],
            ]
        ).tolist(),
        text=[f"margin {names[number]}" for number in group.tolist()],
        hovertemplate=(
            "%{text}<br>confidence %{customdata[6]:.1%}–%{customdata[7]:.1%}<br>%{customdata[2]:,.0f} samples"
            "<br>claims %{customdata[3]:.1%}, right %{customdata[4]:.1%}<br>gap %{customdata[5]:+.1%}<extra></extra>"
        ),
    )


def _heat_table(cells: GapCells) -> pd.DataFrame:
    import pandas as pd

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


def _heat_alt(cells: GapCells, names: Sequence[str]) -> str:
    words = (
        f"Heat map of mean confidence minus accuracy in {len(names)} margin groups by {cells.bin_edges.size - 1} "
        "confidence bins"
    )
    enough = cells.count >= FEWEST
    thin = int(((cells.count > 0) & ~enough).sum())
    dimmed = f"; {plural(thin, 'cell')} with fewer than {FEWEST} samples dimmed" if thin else ""
    if not enough.any():
        return f"{words}; no cell holds {FEWEST} samples."
    group, column = divmod(int(np.argmax(np.where(enough, np.abs(cells.gap), -1))), cells.gap.shape[1])
    span = f"{percent(cells.bin_edges[column])} to {percent(cells.bin_edges[column + 1])}"
    samples = plural(int(cells.count[group, column]), "sample")
    return (
        f"{words}{dimmed}. The largest gap is at margin {names[group]} and confidence {span}: {samples} claim "
        f"{percent(cells.confidence[group, column])} and are right {percent(cells.accuracy[group, column])} of the "
        "time."
    )
