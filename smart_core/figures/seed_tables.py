"""Tables over seeds: objectives and indicators as cells, data efficiency as curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go

from smart_core.evaluation import metric_named
from smart_core.figures.cells import Mark, OverSeeds, best_cell, cell_heatmap
from smart_core.figures.chart import Chart
from smart_core.figures.crowd import Crowd
from smart_core.figures.theme import PALETTE, ink, plain, style, template, translucent
from smart_core.formatting import join_words, metric_label, metric_value, shorten, tick_format
from smart_core.indicators import INDICATORS
from smart_core.objectives import OBJECTIVES

if TYPE_CHECKING:
    import pandas as pd

    from smart_core.experiments.results import SeedTable

BANDS_UP_TO = 6
"""Curves up to which the spread over seeds is shaded."""


def label_of(kind: str, value: Any) -> str:
    """What a row or column of a table is called, unescaped: methods, objectives and indicators by their own labels."""
    if kind == "method" and value in PALETTE:
        return style(value).label
    if kind == "objective" and value in OBJECTIVES:
        return OBJECTIVES[value].label
    if kind == "indicator" and value in INDICATORS:
        return INDICATORS[value].label
    return shorten(value)


def seed_table_heatmap(
    table: SeedTable,
    metric: str | None = None,
    *,
    source: str = "",
    dark: bool = False,
    height: int | None = None,
    uirevision: str = "seed-table",
) -> Chart:
    """The table's cells with their numbers, mean and spread over seeds; the best cell starred.

    The table's columns (objectives, indicators) run down the side, where there is room for their names, and its rows
    (methods) across.
    """
    name = metric or table.metric
    cells = OverSeeds.of(np.asarray(table.metrics[name], dtype=np.float64)).transposed()
    down = [label_of(table.column_name, value) for value in table.columns]
    across = [label_of(table.row_name, value) for value in table.rows]
    better = metric_named(name).higher_is_better
    best = best_cell(cells.mean, higher_is_better=better)
    figure = cell_heatmap(
        cells.mean,
        [[cells.text(name, i, j) for j in range(len(across))] for i in range(len(down))],
        [
            [f"{plain(side)}, {plain(top)}<br>{cells.words(name, i, j)}" for j, top in enumerate(across)]
            for i, side in enumerate(down)
        ],
        [plain(label) for label in down],
        [plain(label) for label in across],
        caption=metric_label(name),
        marks=[] if best is None else [Mark(*best, f"{'highest' if better else 'lowest'} on test")],
        dark=dark,
        height=height,
        uirevision=uirevision,
    )
    return Chart(
        figure,
        _heatmap_alt(table, cells, name, down, across, source),
        cell_table(table, cells, name),
        f"{table.column_name}s",
    )


def cell_table(table: SeedTable, cells: OverSeeds, metric: str) -> pd.DataFrame:
    """The cells one a row, as they are drawn: the table's columns down the side."""
    import pandas as pd

    return pd.DataFrame(
        [
            {table.row_name: row, table.column_name: column, **cells.record(metric, i, j)}
            for i, column in enumerate(table.columns)
            for j, row in enumerate(table.rows)
        ]
    )


def _heatmap_alt(
    table: SeedTable, cells: OverSeeds, metric: str, down: list[str], across: list[str], source: str
) -> str:
    label, better = metric_named(metric).label, metric_named(metric).higher_is_better
    whose = f" ({shorten(source, 80)})" if source else ""
    head = f"{label} by {table.column_name} and {table.row_name}{whose}"
    best = best_cell(cells.mean, higher_is_better=better)
    if best is None:
        return f"{head}: no cell is computed yet."
    extreme = "highest" if better else "lowest"
    columns = []
    for j, name in enumerate(across):
        own = best_cell(cells.mean[:, j : j + 1], higher_is_better=better)
        if own is not None:
            columns.append(f"{name} {metric_value(metric, cells.mean[own[0], j])} with {down[own[0]]}")
    words = [f"{head}: {extreme} for each {table.row_name}: {join_words(columns)}"]
    words.append(f"The {extreme} are chosen on test, so their own values are optimistic")
    missing = int((cells.seeds == 0).sum())
    if missing:
        words.append(f"{missing} of {cells.seeds.size} cells have no value yet")
    return ". ".join(words) + "."


def efficiency_curves(
    table: SeedTable,
    metric: str | None = None,
    *,
    floor: float | None = None,
    dark: bool = False,
    height: int = 460,
    uirevision: str = "efficiency",
) -> Chart:
    """The metric against the number of validation samples, a line a method, shaded by one std over seeds.

    `floor` draws the metric that a perfectly calibrated model would show on the test set. Sizes at which a method
    could not be fitted are left out of its line.
    """
    name = metric or table.metric
    kind = metric_named(name)
    cells = OverSeeds.of(np.asarray(table.metrics[name], dtype=np.float64))
    sizes = np.asarray(table.columns, dtype=np.float64)
    crowd = Crowd(len(table.rows))
    figure = go.Figure()
    if len(table.rows) <= BANDS_UP_TO:
        for i, method in enumerate(table.rows):
            band = _band(sizes, cells, i, str(method))
            if band is not None:
                figure.add_trace(band)
    for i, method in enumerate(table.rows):
        figure.add_trace(_line(sizes, cells, i, str(method), name, crowd))
    if floor is not None:
        figure.add_trace(
            go.Scatter(
                x=[sizes.min(), sizes.max()],
                y=[floor, floor],
                mode="lines",
                name=f"noise floor {metric_value(name, floor)}",
                line={"color": ink(dark).quiet, "dash": "5px,4px", "width": 1.5},
                hoverinfo="skip",
            )
        )
    figure.update_layout(
        template=template(dark), height=crowd.height(height), uirevision=uirevision, legend=crowd.legend
    )
    figure.update_xaxes(title_text="validation samples", type="log", **_size_ticks(sizes))
    figure.update_yaxes(title_text=kind.label, tickformat=tick_format(name), nticks=6, rangemode="tozero")
    return Chart(
        figure, _efficiency_alt(table, cells, name, floor), _efficiency_table(table, cells, name), "efficiency"
    )


def _size_ticks(sizes: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Powers of ten within reach and the two ends: few enough for a narrow screen."""
    low, high = float(sizes.min()), float(sizes.max())
    decades = [10.0**power for power in range(8) if low * 1.5 < 10.0**power < high / 1.5]
    ticks = [low, *decades, high] if high > low else [low]
    room = 0.04 * max(np.log10(high / low), 0.5)
    return {
        "tickvals": ticks,
        "ticktext": [f"{tick:,.0f}" for tick in ticks],
        "range": [np.log10(low) - room, np.log10(high) + room],
    }


def _band(sizes: np.ndarray[Any, Any], cells: OverSeeds, i: int, method: str) -> go.Scatter | None:
    known = np.isfinite(cells.std[i])
    if known.sum() < 2:
        return None
    at, mean, std = sizes[known], cells.mean[i, known], cells.std[i, known]
    return go.Scatter(
        x=np.concatenate([at, at[::-1]]),
        y=np.concatenate([np.maximum(mean - std, 0.0), (mean + std)[::-1]]),
        mode="lines",
        fill="toself",
        fillcolor=translucent(style(method).color, 0.14),
        line={"width": 0},
        name=f"{plain(label_of('method', method))}: spread",
        legendgroup=method,
        showlegend=False,
        hoverinfo="skip",
    )


def _line(sizes: np.ndarray[Any, Any], cells: OverSeeds, i: int, method: str, metric: str, crowd: Crowd) -> go.Scatter:
    known = np.isfinite(cells.mean[i])
    look, label = style(method), plain(label_of("method", method))
    return go.Scatter(
        x=sizes[known],
        y=cells.mean[i, known],
        mode="lines+markers",
        name=label,
        legendgroup=method,
        line=crowd.line(look),
        marker={"color": look.color, "symbol": look.symbol, "size": crowd.marker_size},
        customdata=[cells.words(metric, i, int(j)) for j in np.flatnonzero(known)],
        hovertemplate=f"%{{x:,.0f}} samples<br>%{{customdata}}<extra>{label}</extra>",
    )


def _efficiency_alt(table: SeedTable, cells: OverSeeds, metric: str, floor: float | None) -> str:
    label, better = metric_named(metric).label, metric_named(metric).higher_is_better
    sizes = [int(size) for size in table.columns]
    words = [f"{label} of {len(table.rows)} methods fitted on {min(sizes):,} to {max(sizes):,} validation samples"]
    for place in (int(np.argmin(sizes)), int(np.argmax(sizes))):
        own = best_cell(cells.mean[:, place : place + 1], higher_is_better=better)
        if own is not None:
            best = f"{label_of('method', table.rows[own[0]])} with {metric_value(metric, cells.mean[own[0], place])}"
            words.append(f"at {sizes[place]:,} the {'highest' if better else 'lowest'} is {best}")
    if floor is not None:
        words.append(f"the noise floor is {metric_value(metric, floor)}")
    missing = int((cells.seeds == 0).sum())
    end = f". {missing} of {cells.seeds.size} points have no value." if missing else "."
    return words[0] + (": " + "; ".join(words[1:]) if len(words) > 1 else "") + end


def _efficiency_table(table: SeedTable, cells: OverSeeds, metric: str) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(
        [
            {"method": method, "validation samples": int(size), **cells.record(metric, i, j)}
            for i, method in enumerate(table.rows)
            for j, size in enumerate(table.columns)
            if cells.seeds[i, j]
        ]
    )
