"""The leaderboard as a chart: each method's error with its interval, its seeds and its noise floor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from smart_core.evaluation import Metric, metric_named, metric_value
from smart_core.experiments.compare import Comparison
from smart_core.experiments.method_result import MethodResult
from smart_core.figures.chart import Chart, Look, lay_out, legend_entry, line
from smart_core.figures.theme import Style, ink, plain, style, translucent
from smart_core.formatting import join_words, plural

ROW, FRAME = 30, 130
"""Pixels of a row, and of everything around the rows."""
FAR = 4.0
"""A method more than this many times as bad as the median is drawn at the edge, so that the others stay apart."""


@dataclass(frozen=True)
class _Row:
    id: str
    value: float
    std: float
    seeds: tuple[float, ...]
    low: float
    high: float
    floor_mean: float
    floor_q95: float
    tied: bool | None
    """None where no paired test was made."""

    @classmethod
    def of(cls, result: MethodResult, metric: str, tied: bool | None) -> _Row:
        seeds = tuple(float(value) for value in result.values[metric] if np.isfinite(value))
        floor_mean = result.floor[metric].mean if metric in result.floor else np.nan
        mean, std = result.mean(metric), result.std(metric)
        return cls(result.id, mean, std, seeds, *result.ends(metric), floor_mean, result.floor_q95(metric), tied)

    @property
    def look(self) -> Style:
        return style(self.id)

    @property
    def label(self) -> str:
        return self.look.label


def leaderboard_plot(comparison: Comparison, metric: str | None = None, **look: Unpack[Look]) -> Chart:
    """One row per method, the best on top: mean over seeds, 95 % interval, every seed, and the noise floor behind.

    The interval is that of the population value: plug-in errors are biased upwards, so that near the floor the mean may
    lie beyond its interval. The floor reaches from the mean to the 95 % quantile of what a perfectly calibrated model
    with the row's confidences would show. Filled markers are the best and those that the paired test cannot tell from
    it; it is made for the comparison's primary metric only. A method far worse than the others is drawn at the edge
    with its value in words.

    >>> import smart_core as sc
    >>> comparison = sc.compare(sc.simulate_set(1000, 1000, 5, seed=0), "vanilla,ts", seeds=1)
    >>> leaderboard_plot(comparison).table[["method", "seeds", "tied with the best"]].values.tolist()
    [['TS', 1, True], ['Vanilla', 1, False]]
    """
    name = metric or comparison.metric
    kind = metric_named(name)
    primary = name == comparison.metric
    rows = [
        _Row.of(result, name, comparison.tied.get(id) if primary else None)
        for id, result in comparison.available.items()
        if result.values.get(name)
    ]
    rows = sorted((row for row in rows if np.isfinite(row.value)), key=lambda row: kind.sort_key(row.value))
    edge = _edge(rows, kind)
    best = comparison.best if primary else None
    figure = go.Figure(_traces(rows, edge, kind, look.get("dark", False)))
    lay_out(figure, look, FRAME + ROW * max(len(rows), 2), "leaderboard", hovermode="closest")
    figure.update_yaxes(
        tickvals=list(range(len(rows))),
        ticktext=[f"<b>{plain(row.label)}</b>" if row.id == best else plain(row.label) for row in rows],
        range=[len(rows) - 0.4, -0.6],
        showgrid=False,
    )
    tick_format = ".1~%" if kind.percent else ".3~g"
    figure.update_xaxes(title_text=kind.label, nticks=6, tickformat=tick_format, range=_range(rows, edge, kind))
    return Chart(figure, _alt(comparison, rows, kind), _table(rows, kind), f"leaderboard-{name}")


def _edge(rows: list[_Row], kind: Metric) -> float:
    """Where the axis ends for methods far worse than the others; infinite where there are none."""
    values = np.array([row.value for row in rows])
    if kind.higher_is_better or values.size < 4 or not np.median(values) > 0:
        return float("inf")
    limit = FAR * float(np.median(values))
    if (values <= limit).all():
        return float("inf")
    reach = max(max(row.value, *_finite(row.high, *row.seeds)) for row in rows if row.value <= limit)
    return 1.15 * min(reach, limit)


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
    traces: list[go.Scatter | go.Bar] = []
    if any(np.isfinite(row.floor_q95) for row in rows):
        traces.append(_floor_bars(rows, dark))
    for number, row in enumerate(rows):
        if np.isfinite(row.high) and row.value <= edge:
            ends, color = [min(row.low, edge), min(row.high, edge)], translucent(row.look.color, 0.45)
            traces.append(line(ends, [number, number], "interval", color, 9, showlegend=False))
    if any(len(row.seeds) > 1 for row in rows):
        traces.append(_seed_ticks(rows, edge, kind, dark))
    traces += [_marker(number, row, edge, kind) for number, row in enumerate(rows)]
    return [*traces, *_legend(rows, dark)]


def _floor_bars(rows: list[_Row], dark: bool) -> go.Bar:
    drawn = [(number, row) for number, row in enumerate(rows) if np.isfinite(row.floor_q95)]
    return go.Bar(
        orientation="h",
        y=[number for number, _ in drawn],
        base=[row.floor_mean for _, row in drawn],
        x=[row.floor_q95 - row.floor_mean for _, row in drawn],
        width=1.0,
        name="noise floor",
        marker={"color": translucent(ink(dark).quiet, 0.28), "line": {"width": 0}},
        hoverinfo="skip",
    )


def _seed_ticks(rows: list[_Row], edge: float, kind: Metric, dark: bool) -> go.Scatter:
    several = [(number, row) for number, row in enumerate(rows) if len(row.seeds) > 1]
    drawn = [(seed, number, row.label) for number, row in several for seed in row.seeds if seed <= edge]
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
        hover.append("best or tied with the best" if row.tied else "worse than the best beyond noise")
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


def _legend(rows: list[_Row], dark: bool) -> list[go.Scatter]:
    """What the marks mean, in the colour of text because every method has its own."""
    entries: list[go.Scatter] = []
    if any(np.isfinite(row.high) for row in rows):
        entries.append(line([None], [None], "95 % interval", translucent(ink(dark).quiet, 0.6), 9))
    if any(row.tied is not None for row in rows):
        dot: dict[str, Any] = {"size": 11, "color": ink(dark).text}
        entries.append(legend_entry("best or tied", marker={"symbol": "circle", **dot}))
        entries.append(
            legend_entry("worse than the best", marker={"symbol": "circle-open", **dot, "line": {"width": 2}})
        )
    return entries


def _table(rows: list[_Row], kind: Metric) -> pd.DataFrame:
    columns = {
        "method": [row.label for row in rows],
        kind.label: [row.value for row in rows],
        "spread over seeds (standard deviation)": [row.std for row in rows],
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
        words += f"; {join_words(tied)} cannot be distinguished from {best}" if tied else f"; none is tied with {best}"
    within = [row.label for row in rows if row.value <= row.floor_q95]
    if within:
        words += f"; {join_words(within)} within the noise floor"
    missing = [style(id).label for id in comparison.results if id not in {row.id for row in rows}]
    return words + (f". Without a value: {join_words(missing)}." if missing else ".")
