"""The temperature that a target confidence needs, against an indicator, with the margin bounds."""

from __future__ import annotations

import math
from typing import Unpack

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from smart_core.errors import CalibrationError
from smart_core.figures.chart import Array, Chart, Look, band, lay_out, line
from smart_core.figures.theme import SERIES, ink
from smart_core.formatting import plural, shorten
from smart_core.theory.margin_bounds import TargetStudy, bound_slopes

SVG_UP_TO = 2_000
"""Points up to which the figure is SVG; more are drawn by WebGL."""
LINE_POINTS = 60


def target_chart(study: TargetStudy, indicator: str = "margin", *, source: str = "", **look: Unpack[Look]) -> Chart:
    """Solved T of every row against the margin (with the bounds), the max logit or its normalised form.

    T is on a logarithmic axis. `source` names the rows in the words.
    """
    if not study.temperature.size:
        raise CalibrationError("No temperature gives any of these samples the target confidence; choose a higher one.")
    x, t = study.indicators[indicator], study.temperature
    bounds = indicator == "margin"
    figure = go.Figure()
    if bounds:
        figure.add_traces(_bound_traces(study))
    kind = go.Scatter if x.size <= SVG_UP_TO else go.Scattergl
    figure.add_trace(
        kind(
            x=x,
            y=t,
            mode="markers",
            name="samples",
            showlegend=bounds,
            marker={"color": SERIES[1].color, "size": 4, "opacity": 0.55},
            hovertemplate=f"{indicator} %{{x:.3f}}<br>T = %{{y:.3f}}<extra></extra>",
        )
    )
    low, high = np.log10(t.min()), np.log10(t.max())
    room = 0.05 * max(high - low, 0.5)
    lay_out(figure, look, 380, "target")
    figure.update_xaxes(title_text=indicator, nticks=6)
    if bounds:  # on two logarithmic axes both bounds are straight and parallel, and the corner below is free
        figure.update_xaxes(type="log", dtick=1)
        figure.update_layout(legend={"orientation": "v", "x": 1, "xanchor": "right", "y": 0, "yanchor": "bottom"})
    figure.update_yaxes(title_text=f"T for {study.target:g}", type="log", dtick=1, range=[low - room, high + room])
    stem = "target-" + indicator.replace(" ", "-")
    return Chart(figure, _alt(study, indicator, source), _table(study, indicator), stem)


def _bound_traces(study: TargetStudy) -> list[go.Scatter]:
    """Lower and, where there is one, upper bound, with the feasible side shaded."""
    margin = study.indicators["margin"]
    positive = margin[margin > 0]
    start = float(positive.min()) if positive.size else 1e-3
    m = np.geomspace(start, max(float(margin.max()), start * 1.01), LINE_POINTS)
    low, high = bound_slopes(study.target, study.classes)
    top = m * high if math.isfinite(high) else np.full(m.shape, float(study.temperature.max()) * 10)
    return [band(m, m * low, top, SERIES[0].color, 0.14, name="feasible"), *_bound_lines(m, low, high, 2)]


def _bound_lines(m: Array, low: float, high: float, width: float) -> list[go.Scatter]:
    lines = []
    for name, slope, dash in (("lower bound", low, SERIES[0].dash), ("upper bound", high, "7px,3px")):
        if math.isfinite(slope):
            hover = f"margin %{{x:.2f}}<br>{name} %{{y:.3f}}<extra></extra>"
            lines.append(line(m, m * slope, name, SERIES[0].color, width, dash, hovertemplate=hover))
    return lines


def feasible_chart(
    target: float, classes: int, largest: float = 10.0, *, margin: float | None = None, **look: Unpack[Look]
) -> Chart:
    """The feasible T against the margin for a target and K, on plain axes: both ends are lines through 0.

    `margin` marks one margin's interval.

    >>> feasible_chart(0.9, 10, margin=5.0).alt.split(": ")[1]
    'from 0.228 times the margin to 0.455 times the margin.'
    """
    low, high = bound_slopes(target, classes)
    if not math.isfinite(low):
        raise CalibrationError(f"No sample of {classes} classes with a positive margin reaches {target:g}.")
    m = np.array([0.0, largest])
    finite = math.isfinite(high)
    ceiling = largest * (high if finite else 3 * low)
    top = m * high if finite else np.full(2, ceiling)
    feasible = band(m, m * low, top, SERIES[0].color, 0.16, name="feasible T", showlegend=None)
    figure = go.Figure([feasible, *_bound_lines(m, low, high, SERIES[0].width)])
    if margin is not None:
        figure.add_scatter(
            x=[margin, margin],
            y=[margin * low, margin * high if finite else ceiling],
            mode="lines+markers",
            name=f"margin {margin:g}",
            line={"color": ink(look.get("dark", False)).text, "width": 2},
            marker={"size": 8, "symbol": ["circle", "circle" if finite else "triangle-up"]},
            hovertemplate="T = %{y:.3f}<extra></extra>",
        )
    lay_out(figure, look, 340, "feasible")
    figure.update_xaxes(title_text="margin", range=[0, largest], nticks=6)
    figure.update_yaxes(title_text="T", range=[0, ceiling * 1.02], nticks=6)
    at = np.linspace(0, largest, 11)
    table = pd.DataFrame(
        {"margin": at, "lower bound": at * low, "upper bound": at * high if finite else np.full(11, np.inf)}
    )
    end = f"{high:.3f} times the margin" if finite else "no upper bound"
    words = f"{low:.3f} times the margin to {end}"
    alt = f"Temperatures that can give confidence {target:g} to a sample with {classes} classes: from {words}."
    return Chart(figure, alt, table, "feasible")


def _alt(study: TargetStudy, indicator: str, source: str) -> str:
    t = study.temperature
    whose = f" of {shorten(source)}" if source else ""
    words = (
        f"Temperature that gives confidence {study.target:g} against {indicator}, {plural(t.size, 'sample')}{whose} of "
        f"{study.classes} classes: T from {t.min():.3g} to {t.max():.3g}; among samples of about the same {indicator} "
        f"it varies by a factor of {study.spread(indicator):.2f}"
    )
    if indicator == "margin":
        low, high = bound_slopes(study.target, study.classes)
        upper = f"{high:.3f}" if math.isfinite(high) else "infinity"
        number = study.outside()
        outside = "1 sample lies" if number == 1 else f"{number or 'no'} samples lie"
        words += f". Bounds from {low:.3f} to {upper} times the margin; {outside} outside"
    return words + (f". {plural(study.unsolved, 'sample')} left out: no T gives the target." if study.unsolved else ".")


def _table(study: TargetStudy, indicator: str) -> pd.DataFrame:
    columns = {indicator: study.indicators[indicator], "T": study.temperature}
    if indicator == "margin":
        found = study.bounds()
        columns |= {"lower bound": found.lower, "upper bound": found.upper}
    return pd.DataFrame(columns)
