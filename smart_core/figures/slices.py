"""Mean confidence and accuracy for each slice of a column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import pandas as pd
import plotly.graph_objects as go

from smart_core.analysis.slices import Slice, slices_verdict
from smart_core.figures.chart import Chart, Look, error_bars, lay_out
from smart_core.figures.theme import ink, plain, style
from smart_core.metrics.uncertainty.means import wilson_interval


def slice_dots(slices: Sequence[Slice], column: str, method: str = "vanilla", **look: Unpack[Look]) -> Chart:
    """Mean confidence and accuracy of each slice as two dots; the line of the accuracy is its 95% interval."""
    colors, names = ink(look.get("dark", False)), [plain(each.name, 28) for each in slices]
    accuracy = [each.accuracy for each in slices]
    ends = [wilson_interval(each.accuracy * each.n, each.n, 0.95) for each in slices]
    details = [[each.n, each.confidence, each.accuracy, each.ece, each.floor_q95] for each in slices]
    hover = (
        "mean confidence %{customdata[1]:.1%}, accuracy %{customdata[2]:.1%}<br>ECE %{customdata[3]:.1%}, noise floor "
        "%{customdata[4]:.1%}<br>%{customdata[0]:,} samples<extra>%{y}</extra>"
    )
    right = go.Scatter(
        x=accuracy,
        y=names,
        mode="markers",
        name="accuracy",
        marker={"color": colors.text, "size": 9},
        error_x=error_bars(accuracy, *zip(*ends, strict=True), color=colors.text, thickness=1.5, width=4),
        customdata=details,
        hovertemplate=hover,
    )
    claimed = go.Scatter(
        x=[each.confidence for each in slices],
        y=names,
        mode="markers",
        name="mean confidence",
        marker={"color": style(method).color, "size": 11, "symbol": "diamond"},
        customdata=details,
        hovertemplate=hover,
    )
    figure = go.Figure([right, claimed])
    figure.update_xaxes(tickformat=".0%")
    figure.update_yaxes(autorange="reversed", type="category")
    lay_out(figure, look, max(240, 120 + 26 * len(slices)), f"slices {column}")
    table = pd.DataFrame(
        {
            column: [each.name for each in slices],
            "samples": [each.n for each in slices],
            "mean confidence": [each.confidence for each in slices],
            "accuracy": accuracy,
            "ECE, measured": [each.ece for each in slices],
            "noise floor": [each.floor_q95 for each in slices],
            "true, 95% low": [each.interval.low for each in slices],
            "true, 95% high": [each.interval.high for each in slices],
        }
    )
    return Chart(figure, slices_verdict(slices, column), table, "slices")
