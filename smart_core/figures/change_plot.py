"""What calibrators do to the confidence along the margin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from smart_core.analysis.margin_groups import ConfidenceChange
from smart_core.figures.chart import Chart
from smart_core.figures.crowd import Crowd
from smart_core.figures.theme import Style, ink, plain, style, template

if TYPE_CHECKING:
    import pandas as pd


def confidence_change_plot(
    changes: Mapping[str, ConfidenceChange],
    *,
    labels: Mapping[str, str] | None = None,
    dark: bool = False,
    height: int = 400,
    uirevision: str = "confidence-change",
) -> Chart:
    """How much each method lowers or raises the confidence along the margin, beside the change that is needed.

    `changes` by method id. What is needed is accuracy minus confidence of the uncalibrated model, group by group; it is
    drawn once, from the first method's change.
    """
    crowd = Crowd(len(changes))
    figure = go.Figure()
    names = {id: (labels or {}).get(id) or style(id).label for id in changes}
    for first in list(changes.values())[:1]:
        figure.add_trace(_needed(first, dark))
    for id, change in changes.items():
        figure.add_trace(_change_line(change, plain(names[id]), style(id), crowd))
    figure.add_hline(y=0, line={"color": ink(dark).quiet, "width": 1})
    figure.update_layout(
        template=template(dark), height=crowd.height(height), uirevision=uirevision, legend=crowd.legend
    )
    figure.update_xaxes(title_text="margin", nticks=7)
    figure.update_yaxes(title_text="change of confidence", tickformat=".0%", nticks=7)
    return Chart(figure, _change_alt(changes, names), _change_table(changes, names), "confidence-change")


def _needed(change: ConfidenceChange, dark: bool) -> go.Scatter:
    return go.Scatter(
        x=change.margin,
        y=change.needed,
        mode="lines",
        name="needed",
        line={"color": ink(dark).text, "width": 1.5, "dash": "2px,3px"},
        hovertemplate="margin %{x:.3~g}<br>needed %{y:+.2%}<extra>accuracy − confidence before</extra>",
    )


def _change_line(change: ConfidenceChange, name: str, look: Style, crowd: Crowd) -> go.Scatter:
    return go.Scatter(
        x=change.margin,
        y=change.change,
        mode="lines+markers",
        name=name,
        line=crowd.line(look),
        marker={"color": look.color, "symbol": look.symbol, "size": crowd.marker_size - 1},
        customdata=np.column_stack([change.before, change.after, change.count, change.low, change.high]),
        hovertemplate=(
            "margins %{customdata[3]:.3~g}–%{customdata[4]:.3~g}, %{customdata[2]:,.0f} samples"
            "<br>confidence %{customdata[0]:.1%} → %{customdata[1]:.1%}<br>change %{y:+.2%}"
            f"<extra>{name}</extra>"
        ),
    )


def _change_table(changes: Mapping[str, ConfidenceChange], names: Mapping[str, str]) -> pd.DataFrame:
    import pandas as pd

    frames = [
        pd.DataFrame(
            {
                "method": names[id],
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
        for id, change in changes.items()
    ]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _change_alt(changes: Mapping[str, ConfidenceChange], names: Mapping[str, str]) -> str:
    if not changes:
        return "Change of confidence along the margin, without any method."
    words = "Mean change of confidence along the margin."
    lowest = min(changes, key=lambda id: float(changes[id].change.min()))
    place = int(np.argmin(changes[lowest].change))
    if changes[lowest].change[place] < 0:
        words += (
            f" {names[lowest]} lowers it most, by {_points(-changes[lowest].change[place])} at margin "
            f"{changes[lowest].margin[place]:.3g}."
        )
    highest = max(changes, key=lambda id: float(changes[id].change.max()))
    place = int(np.argmax(changes[highest].change))
    if changes[highest].change[place] > 0:
        words += (
            f" {names[highest]} raises it most, by {_points(changes[highest].change[place])} at margin "
            f"{changes[highest].margin[place]:.3g}."
        )
    closest = min(changes, key=lambda id: _miss(changes[id]))
    off = _points(_miss(changes[closest]))
    return f"{words} Closest to the change needed: {names[closest]}, off by {off} on average."


def _points(value: float) -> str:
    """A difference of two shares."""
    return f"{100 * value:.{1 if value >= 0.01 else 2}f} percentage points"


def _miss(change: ConfidenceChange) -> float:
    """Mean distance of the change from the one needed, over samples."""
    return float(np.average(np.abs(change.change - change.needed), weights=change.count))
