"""How calibrators change the confidence along the margin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from smart_core.analysis.margin_groups import ConfidenceChange
from smart_core.figures.chart import Chart, Crowd, Look, curve, joined, lay_out, line
from smart_core.figures.theme import ink, plain, style


def confidence_change_plot(
    changes: Mapping[str, ConfidenceChange], *, labels: Mapping[str, str] | None = None, **look: Unpack[Look]
) -> Chart:
    """How much each method lowers or raises the confidence along the margin, beside the change that is needed.

    `changes` by method id. The change needed is accuracy minus confidence of the uncalibrated model, group by group; it
    is drawn once, from the first method's change.

    >>> x = np.array([1.0, 2.0])
    >>> change = ConfidenceChange(x, x - 0.5, x + 0.5, np.array([10, 10]), x * 0.4, x * 0.35, -x * 0.1)
    >>> confidence_change_plot({"ts": change}).table["change"].round(2).tolist()
    [-0.05, -0.1]
    """
    crowd = Crowd(len(changes))
    names = {id: (labels or {}).get(id) or style(id).label for id in changes}
    colors = ink(look.get("dark", False))
    figure = go.Figure()
    for first in list(changes.values())[:1]:
        hover = "margin %{x:.3~g}<br>needed %{y}<extra>accuracy − confidence before</extra>"
        wanted = line(first.margin, first.needed, "needed", colors.text, 1.5, "2px,3px", hovertemplate=hover)
        figure.add_trace(wanted)
    for id, change in changes.items():
        name = plain(names[id])
        data = np.column_stack([change.before, change.after, change.count, change.low, change.high])
        hover = (
            "margins %{customdata[3]:.3~g}–%{customdata[4]:.3~g}, %{customdata[2]:,.0f} samples"
            "<br>confidence %{customdata[0]:.1%} → %{customdata[1]:.1%}<br>change %{y}"
        )
        drawn = change.margin, change.change, name, style(id), crowd.marker_size - 1, data, hover
        figure.add_trace(curve(*drawn, line=crowd.line(style(id))))
    figure.add_hline(y=0, line={"color": colors.quiet, "width": 1})
    lay_out(figure, look, crowd.height(400), "confidence-change", legend=crowd.legend)
    figure.update_xaxes(title_text="margin", nticks=7)
    figure.update_yaxes(title_text="change of confidence", tickformat=".0%", hoverformat="+.2%", nticks=7)
    table = joined([_table(names[id], change) for id, change in changes.items()])
    return Chart(figure, _alt(changes, names), table, "confidence-change")


def _table(name: str, change: ConfidenceChange) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "method": name,
            "margin": change.margin,
            "margin from": change.low,
            "margin to": change.high,
            "samples": change.count,
            "confidence before": change.before,
            "confidence after": change.after,
            "change": change.change,
            "needed change": change.needed,
        }
    )


def _alt(changes: Mapping[str, ConfidenceChange], names: Mapping[str, str]) -> str:
    if not changes:
        return "Change of confidence along the margin, without any method."
    words = "Mean change of confidence along the margin."
    for verb, sign in (("lowers", -1.0), ("raises", 1.0)):
        extremes = {id: float((sign * change.change).max()) for id, change in changes.items()}
        most = max(extremes, key=extremes.__getitem__)
        place = int(np.argmax(sign * changes[most].change))
        if extremes[most] > 0:
            at = f"{changes[most].margin[place]:.3g}"
            words += f" {names[most]} {verb} it most, by {_points(extremes[most])} at margin {at}."
    closest = min(changes, key=lambda id: _miss(changes[id]))
    off = _points(_miss(changes[closest]))
    return f"{words} Closest to the change needed: {names[closest]}, off by {off} on average."


def _points(value: float) -> str:
    """A difference of two shares."""
    return f"{100 * value:.{1 if value >= 0.01 else 2}f} percentage points"


def _miss(change: ConfidenceChange) -> float:
    """Mean distance of the change from the one needed, over samples."""
    return float(np.average(np.abs(change.change - change.needed), weights=change.count))
