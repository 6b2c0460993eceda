"""Data efficiency: the metric of each method against the number of validation samples."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from smart_core.evaluation import metric_named, metric_value, tick_format
from smart_core.experiments.results import OverSeeds, SeedTable
from smart_core.figures.chart import Chart, Crowd, Look, band, curve, lay_out, line
from smart_core.figures.seed_tables import best_cell, cell_numbers, cell_words, label_of
from smart_core.figures.theme import ink, plain, style
from smart_core.types import Vector

BANDS_UP_TO = 6
"""Curves up to which the spread over seeds is shaded."""


def efficiency_curves(
    table: SeedTable, metric: str | None = None, *, floor: float | None = None, **look: Unpack[Look]
) -> Chart:
    """The metric against the number of validation samples, one line per method, shaded by one std over seeds.

    `floor` draws the metric that a perfectly calibrated model would show on the test set. Sizes at which a method
    could not be fitted are left out of its line.

    >>> table = SeedTable.empty("method", "size", ("ts",), (50, 500), 2, ("ece",))
    >>> table.metrics["ece"][0] = [[0.04, 0.06], [0.02, 0.02]]
    >>> efficiency_curves(table).table["ECE"].tolist()
    [0.05, 0.02]
    """
    name = metric or table.metric
    cells = table.over_seeds(name)
    sizes = np.asarray(table.columns, dtype=np.float64)
    crowd = Crowd(len(table.rows))
    figure = go.Figure()
    if len(table.rows) <= BANDS_UP_TO:
        for i, method in enumerate(table.rows):
            known = np.isfinite(cells.std[i])
            if known.sum() >= 2:
                mean, std = cells.mean[i, known], cells.std[i, known]
                words = {"name": f"{plain(label_of('method', method))}: spread", "legendgroup": method}
                low = np.maximum(mean - std, 0.0)
                figure.add_trace(band(sizes[known], low, mean + std, style(method).color, 0.14, **words))
    for i, method in enumerate(table.rows):
        figure.add_trace(_line(sizes, cells, i, str(method), name, crowd))
    if floor is not None:
        label, color = f"noise floor {metric_value(name, floor)}", ink(look.get("dark", False)).quiet
        figure.add_trace(line([sizes.min(), sizes.max()], [floor, floor], label, color, 1.5, "5px,4px"))
    lay_out(figure, look, crowd.height(460), "efficiency", legend=crowd.legend)
    figure.update_xaxes(title_text="validation samples", type="log", **_size_ticks(sizes))
    label = metric_named(name).label
    figure.update_yaxes(title_text=label, tickformat=tick_format(name), nticks=6, rangemode="tozero")
    return Chart(figure, _alt(table, cells, name, floor), _table(table, cells, name), "efficiency")


def _size_ticks(sizes: Vector) -> dict[str, Any]:
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


def _line(sizes: Vector, cells: OverSeeds, i: int, method: str, metric: str, crowd: Crowd) -> go.Scatter:
    known = np.isfinite(cells.mean[i])
    look, label = style(method), plain(label_of("method", method))
    words = [cell_words(cells, metric, (i, int(j))) for j in np.flatnonzero(known)]
    hover = "%{x:,.0f} samples<br>%{customdata}"
    drawn = sizes[known], cells.mean[i, known], label, look, crowd.marker_size, words, hover
    return curve(*drawn, line=crowd.line(look), legendgroup=method)


def _alt(table: SeedTable, cells: OverSeeds, metric: str, floor: float | None) -> str:
    kind = metric_named(metric)
    sizes = [int(size) for size in table.columns]
    head = f"{kind.label} of {len(table.rows)} methods fitted on {min(sizes):,} to {max(sizes):,} validation samples"
    words = []
    for place in (int(np.argmin(sizes)), int(np.argmax(sizes))):
        own = best_cell(cells.mean[:, place : place + 1], metric)
        if own is not None:
            best = f"{label_of('method', table.rows[own[0]])} with {metric_value(metric, cells.mean[own[0], place])}"
            words.append(f"at {sizes[place]:,} the {'highest' if kind.higher_is_better else 'lowest'} is {best}")
    if floor is not None:
        words.append(f"the noise floor is {metric_value(metric, floor)}")
    missing = int((cells.seeds == 0).sum())
    end = f". {missing} of {cells.seeds.size} points have no value." if missing else "."
    return head + (": " + "; ".join(words) if words else "") + end


def _table(table: SeedTable, cells: OverSeeds, metric: str) -> pd.DataFrame:
    """The points drawn, one per row."""
    pairs = [{"method": method, "validation samples": int(size)} for method in table.rows for size in table.columns]
    frame = pd.DataFrame(pairs).join(cell_numbers(cells, metric))
    return frame[frame["seeds"] > 0].reset_index(drop=True)
