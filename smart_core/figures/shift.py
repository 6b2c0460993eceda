"""Does the repair survive a shift: the share of the error that each method removes in each group."""

from __future__ import annotations

from typing import Unpack

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from smart_core.errors import CalibrationError
from smart_core.evaluation import metric_named
from smart_core.experiments.shift import Shift
from smart_core.figures.chart import Chart, Look, lay_out, line, marker, name_rows
from smart_core.figures.seed_tables import label_of
from smart_core.figures.theme import ink, plain, style
from smart_core.formatting import join_words, percent, shorten
from smart_core.types import Matrix, Vector

LOWEST = -1.0
"""Harm beyond a doubled error is drawn here, as the axis says: otherwise one dot would squash all others."""

ROW, FRAME = 26, 130
"""Pixels of a group, and of everything around the groups."""


def reduction_dots(shift: Shift, metric: str | None = None, **look: Unpack[Look]) -> Chart:
    """The share of the uncalibrated error that each method removes in each group: 100% is all, below 0 is harm.

    One row per group, with a dot per method.

    >>> shift = Shift.empty("method", "target", ("vanilla", "ts"), ("fog", "snow"), 1, ("ece",))
    >>> shift.metrics["ece"][:, :, 0] = [[0.10, 0.20], [0.05, 0.30]]
    >>> reduction_dots(shift).table["reduction"].round(2).tolist()
    [0.5, -0.5]
    """
    name = metric or shift.metric
    kind, dark = metric_named(name), look.get("dark", False)
    if kind.higher_is_better:
        raise CalibrationError(f"{kind.label} is not an error, so it cannot be reduced; choose an error such as ECE.")
    values = np.asarray(shift.reduction(name), dtype=np.float64)[1:]
    methods = [str(method) for method in shift.rows[1:]]
    groups = [plain(group, 24) for group in shift.columns]
    figure = go.Figure([_ranges(values, dark)])
    figure.add_traces([_dots(method, line, groups) for method, line in zip(methods, values, strict=True)])
    least = float(values[np.isfinite(values)].min(initial=0.0))
    ticks = {-1.0: "≤ −100%" if least < LOWEST else "−100%", 0.0: "0", 0.5: "50%", 1.0: "100%"}
    low = max(least, LOWEST) - 0.06
    figure.update_xaxes(
        title_text=f"{kind.label} reduction",
        range=[low, 1.04],
        tickvals=[place for place in ticks if place >= low],
        ticktext=[text for place, text in ticks.items() if place >= low],
        tickangle=0,
    )
    name_rows(figure, groups)
    figure.add_vline(0, line={"color": ink(dark).quiet, "width": 1.5})
    # 26 pixels for each row of three legend entries beyond the first
    lay_out(figure, look, max(240, FRAME + ROW * len(groups) + 26 * ((len(methods) - 1) // 3)), "reduction")
    return Chart(figure, _alt(shift, values, methods, kind.label), _table(shift, values), "shift-reduction")


def _ranges(values: Matrix, dark: bool) -> go.Scatter:
    """A thin line per group from its lowest to its highest dot."""
    x: list[float | None] = []
    y: list[float | None] = []
    for row, column in enumerate(np.maximum(values, LOWEST).T):
        known = column[np.isfinite(column)]
        if known.size:
            x += [float(known.min()), float(known.max()), None]
            y += [row, row, None]
    return line(x, y, "range", ink(dark).grid, 4, showlegend=False)


def _dots(method: str, values: Vector, groups: list[str]) -> go.Scatter:
    label = plain(label_of("method", method))
    known = np.flatnonzero(np.isfinite(values))
    return go.Scatter(
        x=np.maximum(values[known], LOWEST),
        y=known,
        mode="markers",
        name=label,
        marker=marker(style(method), 9),
        cliponaxis=False,
        customdata=[[groups[j], percent(values[j], 1)] for j in known],
        hovertemplate=f"%{{customdata[0]}}<br>%{{customdata[1]}} of the error removed<extra>{label}</extra>",
    )


def _alt(shift: Shift, values: NDArray[np.float64], methods: list[str], label: str) -> str:
    groups = len(shift.columns)
    head = f"Share of the uncalibrated {label} that each of {len(methods)} methods removes in {groups} groups"
    if not np.isfinite(values).any():
        return f"{head}: no value yet."
    mean = {
        method: float(np.mean(line[np.isfinite(line)]))
        for method, line in zip(methods, values, strict=True)
        if np.isfinite(line).any()
    }
    order = sorted(mean, key=lambda method: -mean[method])
    best, last = order[0], order[-1]
    words = f"{head}: on average most by {label_of('method', best)}, {percent(mean[best])}"
    if last != best:
        words += f", least by {label_of('method', last)}, {percent(mean[last])}"
    harm = [
        f"{label_of('method', methods[i])} on {shorten(shift.columns[j])} ({percent(values[i, j], 1)})"
        for i, j in np.argwhere(values < 0.0).tolist()
    ]
    if harm:
        more = f" and {len(harm) - 3} more" if len(harm) > 3 else ""
        words += f". Worse than uncalibrated: {', '.join(harm[:3]) if more else join_words(harm)}{more}"
    return words + "."


def _table(shift: Shift, values: NDArray[np.float64]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"method": method, shift.column_name: group, "reduction": values[i, j]}
            for j, group in enumerate(shift.columns)
            for i, method in enumerate(shift.rows[1:])
            if np.isfinite(values[i, j])
        ],
        columns=["method", shift.column_name, "reduction"],
    )
