"""The interval of Venn-Abers over the confidence."""

from __future__ import annotations

from typing import Unpack

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from smart_core.analysis.probability_interval import ProbabilityInterval
from smart_core.figures.chart import SHARES, Chart, Look, diagonal, lay_out, line
from smart_core.figures.theme import style, translucent
from smart_core.formatting import percent, plural


def probability_interval_plot(found: ProbabilityInterval, **look: Unpack[Look]) -> Chart:
    """p0 and p1 of Venn-Abers as a band over the uncalibrated confidence, with the calibrated confidence between them.

    >>> steps = np.array([0.5, 0.8, 1.0])
    >>> found = ProbabilityInterval(steps, np.array([0.4, 0.8]), np.array([0.6, 0.9]), np.array([10, 30]))
    >>> probability_interval_plot(found).table["p0"].tolist()
    [0.4, 0.8]
    """
    own = style("vennabers")
    x = np.repeat(found.edges, 2)[1:-1]
    low, high, value = (np.repeat(each, 2) for each in (found.low, found.high, found.value))
    figure = go.Figure(diagonal(look.get("dark", False), "unchanged", 1.2))
    hidden = {"showlegend": False, "hoverinfo": "skip", "line": {"color": own.color, "width": 1}, "mode": "lines"}
    figure.add_trace(go.Scatter(x=x, y=low, **hidden))
    filled = {**hidden, "showlegend": True, "name": "p0 to p1", "fill": "tonexty"}
    figure.add_trace(go.Scatter(x=x, y=high, fillcolor=translucent(own.color, 0.25), **filled))
    hover = (
        "confidence %{x:.1%}<br>calibrated %{y:.1%}<br>p0 %{customdata[0]:.1%}, p1 %{customdata[1]:.1%}<extra></extra>"
    )
    data = np.column_stack([low, high])
    figure.add_trace(line(x, value, "calibrated", own.color, 2, hovertemplate=hover, customdata=data))
    lay_out(figure, look, 400, "probability-interval")
    figure.update_xaxes(title_text="uncalibrated confidence", **SHARES)
    figure.update_yaxes(title_text="probability of being right", **SHARES)
    table = pd.DataFrame(
        {
            "confidence from": found.edges[:-1],
            "confidence to": found.edges[1:],
            "samples": found.samples,
            "p0": found.low,
            "p1": found.high,
            "calibrated": found.value,
        }
    )
    return Chart(figure, _alt(found), table, "probability-interval")


def _alt(found: ProbabilityInterval) -> str:
    held = np.flatnonzero(found.samples)
    widest = held[int(np.argmax((found.high - found.low)[held]))]
    return (
        f"Venn-Abers' interval from p0 to p1 over the uncalibrated confidence: {percent(found.width)} wide on average "
        f"over {plural(int(found.samples.sum()), 'sample')}, and widest, from {percent(found.low[widest])} to "
        f"{percent(found.high[widest])}, at confidence {percent(found.edges[widest])} to "
        f"{percent(found.edges[widest + 1])}."
    )
