"""The leaderboard as a chart: each method's measured error, its true range, its seeds and its noise floor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Unpack
from urllib.parse import quote

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from smart_core.evaluation import (
    TRUE_RANGE,
    Metric,
    measured_label,
    metric_named,
    metric_range,
    metric_value,
    tick_format,
)
from smart_core.experiments.compare import Comparison
from smart_core.experiments.method_result import MethodResult
from smart_core.figures.chart import Chart, Look, lay_out, legend_entry, line, name_rows
from smart_core.figures.theme import Style, ink, plain, style, translucent
from smart_core.formatting import join_words, plural

ROW, FRAME = 30, 130
"""Pixels of a row, and of everything around the rows."""
FAR = 4.0
"""The axis is logarithmic if the worst method is more than this many times as bad as the median."""
DECADES = 3.0
"""A logarithmic axis reaches at most this many powers of ten below its upper end."""
IMAGE_WIDTH, IMAGE_HEIGHT = 144, 24
"""Pixels of a row's image."""


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
    def of(cls, result: MethodResult, metric: str, tied: bool | None = None) -> _Row:
        seeds = tuple(float(value) for value in result.values.get(metric, []) if np.isfinite(value))
        mean, std = (result.mean(metric), result.std(metric)) if seeds else (np.nan, np.nan)
        floor_mean = result.floor[metric].mean if metric in result.floor else np.nan
        return cls(result.id, mean, std, seeds, *result.ends(metric), floor_mean, result.floor_q95(metric), tied)

    @property
    def look(self) -> Style:
        return style(self.id)

    @property
    def label(self) -> str:
        return self.look.label

    @property
    def marks(self) -> list[float]:
        """Everything that is drawn of the row."""
        drawn = (self.value, self.low, self.high, self.floor_q95, *self.seeds)
        return [value for value in drawn if np.isfinite(value)]


@dataclass(frozen=True)
class _Axis:
    """The range of the values. Errors start at 0; where one is far larger than the others, the axis is logarithmic."""

    low: float
    high: float
    log: bool

    @classmethod
    def of(cls, rows: list[_Row], kind: Metric) -> _Axis:
        marks = np.array([value for row in rows for value in row.marks] or [0.0, 1.0])
        values, most, least = np.array([row.value for row in rows]), float(marks.max()), float(marks.min())
        if kind.higher_is_better:
            room = 0.05 * (most - least) or 0.01
            return cls(least - room, most + room, log=False)
        if values.size >= 3 and values.max() > FAR * np.median(values) > 0:
            small = np.array([end for row in rows for end in (row.value, row.floor_q95, row.high) if end > 0])
            return cls(max(0.6 * float(small.min()), most / 10**DECADES), 1.2 * most, log=True)
        start = min(0.0, least) if kind.binned or kind.percent else max(0.0, least - 0.15 * (most - least))
        return cls(start - 0.01 * (most - start), most + 0.04 * (most - start or 1.0), log=False)

    def clip(self, value: float) -> float:
        """The value, or the end of the axis beyond which it lies."""
        return float(min(max(value, self.low), self.high))

    def place(self, value: float) -> float:
        """Where a value lies between both ends, from 0 to 1."""
        low, high, at = self.low, self.high, self.clip(value)
        if self.log:
            low, high, at = (float(np.log10(end)) for end in (low, high, at))
        return (at - low) / (high - low)


def leaderboard_plot(comparison: Comparison, metric: str | None = None, **look: Unpack[Look]) -> Chart:
    """One row per method, the best on top: the measured mean over seeds, the true range, every seed, and the floor.

    The measured error and the true range are two quantities: noise adds to what is measured, so that near the floor the
    mean may lie above the range. The shading ends at the 95% quantile of what a perfectly calibrated model with the
    row's confidences would show. Filled markers are the best and those that the paired test cannot tell from it; it is
    made for the comparison's primary metric only. The axis is logarithmic if one method is far worse than the others.

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
    ]
    rows = sorted((row for row in rows if np.isfinite(row.value)), key=lambda row: kind.sort_key(row.value))
    axis = _Axis.of(rows, kind)
    best = comparison.best if primary else None
    figure = go.Figure(_traces(rows, axis, name, look.get("dark", False)))
    lay_out(figure, look, FRAME + ROW * max(len(rows), 2), "leaderboard", hovermode="closest")
    name_rows(figure, [f"<b>{plain(row.label)}</b>" if row.id == best else plain(row.label) for row in rows])
    ends = [axis.low, axis.high]
    scale = {"type": "log", "range": np.log10(ends), "dtick": "D2"} if axis.log else {"range": ends, "nticks": 6}
    title = f"{kind.label}, logarithmic" if axis.log else kind.label
    figure.update_xaxes(title_text=title, tickformat=tick_format(kind), **scale)
    return Chart(figure, _alt(comparison, rows, kind), _table(rows, name), f"leaderboard-{name}")


def row_images(results: Mapping[str, MethodResult], metric: str, dark: bool = False) -> dict[str, str]:
    """Each row of the chart as a small image for the cell of a table, as data URIs: floor, true range, measured."""
    rows = [row for result in results.values() if np.isfinite((row := _Row.of(result, metric)).value)]
    axis = _Axis.of(rows, metric_named(metric))
    return {row.id: "data:image/svg+xml," + quote(_svg(row, axis, dark)) for row in rows}


def _svg(row: _Row, axis: _Axis, dark: bool) -> str:
    color, middle = row.look.color, IMAGE_HEIGHT / 2

    def at(value: float) -> float:
        return round(6 + (IMAGE_WIDTH - 12) * axis.place(value), 1)

    parts = []
    if np.isfinite(row.floor_q95):
        shade = f'fill="{ink(dark).quiet}" fill-opacity="0.3"'
        parts.append(f'<rect width="{at(row.floor_q95)}" height="{IMAGE_HEIGHT}" {shade}/>')
    if np.isfinite(row.high):
        width = max(at(row.high) - at(row.low), 2.0)
        parts.append(
            f'<rect x="{at(row.low)}" y="{middle - 4}" width="{width}" height="8" fill="{color}" fill-opacity="0.5"/>'
        )
    parts.append(f'<circle cx="{at(row.value)}" cy="{middle}" r="5" fill="{color}"/>')
    size = f'width="{IMAGE_WIDTH}" height="{IMAGE_HEIGHT}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>'


def _traces(rows: list[_Row], axis: _Axis, metric: str, dark: bool) -> list[go.Scatter | go.Bar]:
    traces: list[go.Scatter | go.Bar] = []
    if any(np.isfinite(row.floor_q95) for row in rows):
        traces.append(_floor_bars(rows, axis, dark))
    for number, row in enumerate(rows):
        if np.isfinite(row.high):
            ends, color = [axis.clip(row.low), axis.clip(row.high)], translucent(row.look.color, 0.45)
            traces.append(line(ends, [number, number], "interval", color, 9, showlegend=False))
    if any(len(row.seeds) > 1 for row in rows):
        traces.append(_seed_ticks(rows, axis, metric_named(metric), dark))
    traces += [_marker(number, row, axis, metric) for number, row in enumerate(rows)]
    return [*traces, *_legend(rows, dark)]


def _floor_bars(rows: list[_Row], axis: _Axis, dark: bool) -> go.Bar:
    drawn = [(number, axis.clip(row.floor_q95)) for number, row in enumerate(rows) if np.isfinite(row.floor_q95)]
    return go.Bar(
        orientation="h",
        y=[number for number, _ in drawn],
        base=[axis.low] * len(drawn),
        x=[end - axis.low for _, end in drawn],
        width=1.0,
        name="noise floor",
        marker={"color": translucent(ink(dark).quiet, 0.28), "line": {"width": 0}},
        hoverinfo="skip",
    )


def _seed_ticks(rows: list[_Row], axis: _Axis, kind: Metric, dark: bool) -> go.Scatter:
    several = [(number, row) for number, row in enumerate(rows) if len(row.seeds) > 1]
    drawn = [(axis.clip(seed), number, row.label) for number, row in several for seed in row.seeds]
    return go.Scatter(
        x=[seed for seed, _, _ in drawn],
        y=[number for _, number, _ in drawn],
        mode="markers",
        marker={"symbol": "line-ns", "size": 12, "line": {"width": 1.5, "color": ink(dark).text}},
        name="seeds",
        customdata=[plain(label) for _, _, label in drawn],
        hovertemplate=f"one seed: %{{x:{'.2%' if kind.percent else '.4f'}}}<extra>%{{customdata}}</extra>",
    )


def _marker(number: int, row: _Row, axis: _Axis, metric: str) -> go.Scatter:
    hover = [f"{measured_label(metric)}: {metric_value(metric, row.value)}"]
    if len(row.seeds) > 1:
        hover[0] += f", mean of {len(row.seeds)} seeds"
    if np.isfinite(row.floor_q95):
        hover.append(f"noise floor: {metric_value(metric, row.floor_q95)}")
    if np.isfinite(row.high):
        hover.append(f"{TRUE_RANGE}: {metric_range(metric, row.low, row.high)}")
    if row.tied is not None:
        hover.append("best or tied with the best" if row.tied else "worse than the best beyond noise")
    return go.Scatter(
        x=[axis.clip(row.value)],
        y=[number],
        mode="markers",
        marker={
            "symbol": "circle" if row.tied is not False else "circle-open",
            "size": 12,
            "color": row.look.color,
            "line": {"width": 2, "color": row.look.color},
        },
        name=plain(row.label),
        showlegend=False,
        hovertemplate="<br>".join(hover) + f"<extra>{plain(row.label)}</extra>",
    )


def _legend(rows: list[_Row], dark: bool) -> list[go.Scatter]:
    """The meaning of the marks, in the colour of text because each method has its own colour."""
    entries: list[go.Scatter] = []
    dot: dict[str, Any] = {"size": 11, "color": ink(dark).text}
    if any(np.isfinite(row.high) for row in rows):
        entries.append(line([None], [None], TRUE_RANGE, translucent(ink(dark).quiet, 0.6), 9))
    if any(row.tied is not None for row in rows):
        entries.append(legend_entry("best or tied", marker={"symbol": "circle", **dot}))
        entries.append(legend_entry("worse", marker={"symbol": "circle-open", **dot, "line": {"width": 2}}))
    elif rows:
        entries.append(legend_entry("measured", marker={"symbol": "circle", **dot}))
    return entries


def _table(rows: list[_Row], metric: str) -> pd.DataFrame:
    columns = {
        "method": [row.label for row in rows],
        measured_label(metric): [row.value for row in rows],
        "spread over seeds (standard deviation)": [row.std for row in rows],
        "seeds": [len(row.seeds) for row in rows],
        "noise floor mean": [row.floor_mean for row in rows],
        "noise floor 95%": [row.floor_q95 for row in rows],
        f"{TRUE_RANGE} low": [row.low for row in rows],
        f"{TRUE_RANGE} high": [row.high for row in rows],
        "tied with the best": pd.array([row.tied for row in rows], dtype="boolean"),
    }
    return pd.DataFrame(columns)


def _alt(comparison: Comparison, rows: list[_Row], kind: Metric) -> str:
    if not rows:
        return f"Leaderboard by {kind.label} without any finished method."
    first, last = rows[0], rows[-1]
    words = (
        f"{kind.label} of {plural(len(rows), 'method')}: {first.label} is best with {metric_value(kind, first.value)}"
    )
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
