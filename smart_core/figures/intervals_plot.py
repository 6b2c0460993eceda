"""The leaderboard as a picture: each method's error with what noise could make of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go

from smart_core.evaluation import Metric, metric_named
from smart_core.figures.chart import Chart
from smart_core.figures.theme import Style, ink, plain, style, template, translucent
from smart_core.formatting import join_words, metric_value, plural

if TYPE_CHECKING:
    import pandas as pd

    from smart_core.experiments.compare import Comparison
    from smart_core.experiments.method_result import MethodResult

ROW, FRAME = 30, 130
"""Pixels of a row, and of everything around the rows."""
FAR = 4.0
"""A method more than this many times as bad as the median is drawn at the edge, so that the others stay apart."""


@dataclass(frozen=True)
class _Row:
    id: str
    label: str
    value: float
    seeds: tuple[float, ...]
    low: float
    high: float
    floor_mean: float
    floor_q95: float
    tied: bool | None
    """None where no paired test was made."""

    @property
    def look(self) -> Style:
        return style(self.id)


def leaderboard_plot(
    comparison: Comparison,
    metric: str | None = None,
    *,
    dark: bool = False,
    height: int | None = None,
    uirevision: str = "leaderboard",
) -> Chart:
    """One row a method, the best on top: mean over seeds, 95 % interval, every seed, and the noise floor behind.

    The interval is that of the population value: plug-in errors are biased upwards, so that near the floor the mean may
    lie beyond its interval. The floor runs from the mean to the 95 % quantile of what a perfectly calibrated model with
    the row's confidences would show. Filled markers are the best and those that the paired test cannot tell from it;
    it is made for the comparison's primary metric only. A method far worse than the others is drawn at the edge
    with its value in words. `height` grows with the rows unless given.
    """
    name = metric or comparison.metric
    kind = metric_named(name)
    rows = _rows(comparison, name, kind)
    edge = _edge(rows, kind)
    best = comparison.best if name == comparison.metric else None
    figure = go.Figure(_traces(rows, edge, kind, dark))
    figure.update_layout(
        template=template(dark),
        height=height or FRAME + ROW * max(len(rows), 2),
        uirevision=uirevision,
        hovermode="closest",
    )
    figure.update_yaxes(
        tickvals=list(range(len(rows))),
        ticktext=[f"<b>{plain(row.label)}</b>" if row.id == best else plain(row.label) for row in rows],
        range=[len(rows) - 0.4, -0.6],
        showgrid=False,
    )
    figure.update_xaxes(title_text=kind.label, nticks=6, tickformat=".1~%" if kind.percent else ".3~g")
    figure.update_xaxes(range=_range(rows, edge, kind))
    return Chart(figure, _alt(comparison, rows, kind), _table(rows, kind), f"leaderboard-{name}")


def _rows(comparison: Comparison, name: str, kind: Metric) -> list[_Row]:
    tested = comparison.tied if name == comparison.metric else {}
    rows = [
        _row(result, name, tested.get(id))
        for id, result in comparison.results.items()
        if result.available and result.values.get(name)
    ]
    rows = [row for row in rows if np.isfinite(row.value)]
    return sorted(rows, key=lambda row: -row.value if kind.higher_is_better else row.value)


def _row(result: MethodResult, name: str, tied: bool | None) -> _Row:
    nothing = float("nan")
    seeds = tuple(float(value) for value in result.values[name] if np.isfinite(value))
    interval, floor = result.intervals.get(name), result.floor.get(name)
    return _Row(
        id=result.id,
        label=style(result.id).label,
        value=float(np.mean(seeds)) if seeds else nothing,
        seeds=seeds,
        low=interval.low if interval else nothing,
        high=interval.high if interval else nothing,
        floor_mean=floor.mean if floor else nothing,
        floor_q95=floor.q95 if floor else nothing,
        tied=tied,
    )


def _edge(rows: list[_Row], kind: Metric) -> float:
    """Where the axis ends for methods far worse than the others; infinite where there are none."""
    values = np.array([row.value for row in rows])
    if kind.higher_is_better or values.size < 4 or not np.median(values) > 0:
        return float("inf")
    near = values <= FAR * np.median(values)
    if near.all():
        return float("inf")
    reach = max(max(row.value, *_finite(row.high, *row.seeds)) for row, keep in zip(rows, near, strict=True) if keep)
    return 1.15 * min(reach, FAR * float(np.median(values)))


def _finite(*values: float) -> list[float]:
    return [value for value in values if np.isfinite(value)] or [-np.inf]


def _range(rows: list[_Row], edge: float, kind: Metric) -> list[float] | None:
    """Errors start at 0; accuracies, whose zero says nothing, at the smallest."""
    if not rows:
        return None
    ends = [end for row in rows for end in _finite(row.value, row.low, row.high, row.floor_q95, *row.seeds)]
    most = min(max(ends), edge)
    if kind.higher_is_better:
        room = 0.05 * (most - min(ends)) or 0.01
        return [min(ends) - room, most + room]
    least = min(0.0, min(ends)) if kind.binned or kind.percent else max(0.0, min(ends) - 0.15 * (most - min(ends)))
    return [least - 0.01 * (most - least), most + 0.04 * (most - least or 1.0)]


def _traces(rows: list[_Row], edge: float, kind: Metric, dark: bool) -> list[go.Scatter | go.Bar]:
    floor = [number for number, row in enumerate(rows) if np.isfinite(row.floor_q95)]
    traces: list[go.Scatter | go.Bar] = []
    if floor:
        traces.append(_floor_bars(rows, floor, dark))
    traces += [
        _interval_line(number, row, edge)
        for number, row in enumerate(rows)
        if np.isfinite(row.high) and row.value <= edge
    ]
    if any(len(row.seeds) > 1 for row in rows):
        traces.append(_seed_ticks(rows, edge, kind, dark))
    traces += [_marker(number, row, edge, kind) for number, row in enumerate(rows)]
    return [*traces, *_legend_entries(rows, dark)]


def _floor_bars(rows: list[_Row], which: list[int], dark: bool) -> go.Bar:
    return go.Bar(
        orientation="h",
        y=which,
        base=[rows[number].floor_mean for number in which],
        x=[rows[number].floor_q95 - rows[number].floor_mean for number in which],
        width=1.0,
        name="noise floor",
        marker={"color": translucent(ink(dark).quiet, 0.28), "line": {"width": 0}},
        hoverinfo="skip",
    )


def _interval_line(number: int, row: _Row, edge: float) -> go.Scatter:
    return go.Scatter(
        x=[min(row.low, edge), min(row.high, edge)],
        y=[number, number],
        mode="lines",
        line={"color": translucent(row.look.color, 0.45), "width": 9},
        name="interval",
        showlegend=False,
        hoverinfo="skip",
    )


def _seed_ticks(rows: list[_Row], edge: float, kind: Metric, dark: bool) -> go.Scatter:
    drawn = [
        (seed, number, row.label)
        for number, row in enumerate(rows)
        for seed in row.seeds
        if len(row.seeds) > 1 and seed <= edge
    ]
    return go.Scatter(
        x=[seed for seed, _, _ in drawn],
        y=[number for _, number, _ in drawn],
        mode="markers",
        marker={"symbol": "line-ns", "size": 12, "line": {"width": 1.5, "color": ink(dark).text}},
        name="seeds",
        customdata=[plain(label) for _, _, label in drawn],
        hovertemplate=f"one seed: %{{x:{'.2%' if kind.percent else '.4f'}}}<extra>%{{customdata}}</extra>",
    )


def _marker(number: int, row: _Row, edge: float, kind: Metric) -> go.Scatter:
    far, shown = row.value > edge, metric_value(kind, row.value)
    hover = [f"{kind.label} {shown}"]
    if len(row.seeds) > 1:
        hover[0] += f", mean of {len(row.seeds)} seeds"
    if np.isfinite(row.high):
        hover.append(f"95 % interval {metric_value(kind, row.low)} to {metric_value(kind, row.high)}")
    if np.isfinite(row.floor_q95):
        mean, most = (metric_value(kind, value) for value in (row.floor_mean, row.floor_q95))
        hover.append(f"noise floor {mean}, 95 % below {most}")
    if row.tied is not None:
        hover.append("best, or not told apart from it" if row.tied else "worse than the best beyond noise")
    return go.Scatter(
        x=[min(row.value, edge)],
        y=[number],
        mode="markers+text" if far else "markers",
        text=[f"{shown} "] if far else None,
        textposition="middle left",
        marker={
            "symbol": "triangle-right" if far else "circle" if row.tied is not False else "circle-open",
            "size": 12,
            "color": row.look.color,
            "line": {"width": 2, "color": row.look.color},
        },
        name=plain(row.label),
        showlegend=False,
        hovertemplate="<br>".join(hover) + f"<extra>{plain(row.label)}</extra>",
    )


def _legend_entries(rows: list[_Row], dark: bool) -> list[go.Scatter]:
    """What the marks mean, in the colour of text because every method has its own."""
    color = ink(dark).text
    entries: list[tuple[str, dict[str, Any]]] = []
    if any(np.isfinite(row.high) for row in rows):
        entries.append(
            ("95 % interval", {"mode": "lines", "line": {"color": translucent(ink(dark).quiet, 0.6), "width": 9}})
        )
    if any(row.tied is not None for row in rows):
        solid = {"symbol": "circle", "size": 11, "color": color}
        hollow = {"symbol": "circle-open", "size": 11, "color": color, "line": {"width": 2}}
        entries.append(("best or tied", {"mode": "markers", "marker": solid}))
        entries.append(("worse", {"mode": "markers", "marker": hollow}))
    return [go.Scatter(x=[None], y=[None], name=name, hoverinfo="skip", **mark) for name, mark in entries]


def _table(rows: list[_Row], kind: Metric) -> pd.DataFrame:
    import pandas as pd

    columns = {
        "method": [row.label for row in rows],
        kind.label: [row.value for row in rows],
        "spread over seeds (standard deviation)": [
            float(np.std(row.seeds, ddof=1)) if len(row.seeds) > 1 else 0.0 for row in rows
        ],
        "seeds": [len(row.seeds) for row in rows],
        "95 % low": [row.low for row in rows],
        "95 % high": [row.high for row in rows],
        "noise floor mean": [row.floor_mean for row in rows],
        "noise floor 95 %": [row.floor_q95 for row in rows],
        "tied with the best": pd.array([row.tied for row in rows], dtype="boolean"),
    }
    return pd.DataFrame(columns)


def _alt(comparison: Comparison, rows: list[_Row], kind: Metric) -> str:
    if not rows:
        return f"Leaderboard by {kind.label} without any finished method."
    first, last = rows[0], rows[-1]
    words = f"{kind.label} of {plural(len(rows), 'method')}"
    if np.isfinite(first.high):
        words += " with 95 % intervals"
    words += f": {first.label} is best with {metric_value(kind, first.value)}"
    if len(rows) > 1:
        words += f", {last.label} worst with {metric_value(kind, last.value)}"
    tied = [row.label for row in rows if row.tied and row.id != comparison.best]
    if any(row.tied is not None for row in rows):
        best = style(comparison.best or first.id).label
        words += f"; {join_words(tied)} cannot be told apart from {best}" if tied else f"; none is tied with {best}"
    within = [row.label for row in rows if row.value <= row.floor_q95]
    if within:
        words += f"; {join_words(within)} within the noise floor"
    missing = [style(id).label for id in comparison.results if id not in {row.id for row in rows}]
    return words + (f". Without a value: {join_words(missing)}." if missing else ".")
