"""The learned temperature against an indicator of hardness, above the density of the test samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from smart_core.analysis.temperature_curve import TemperatureCurve
from smart_core.errors import CalibrationError
from smart_core.figures.chart import (
    Chart,
    Look,
    band,
    bars,
    joined,
    lay_out,
    legend_entry,
    line,
    marker,
    outline,
    panels,
    shade,
)
from smart_core.figures.theme import SERIES, Style, ink, plain, style, translucent
from smart_core.fitting.indicators import INDICATORS
from smart_core.formatting import decimal, plural, shorten
from smart_core.types import Vector

MOST = len(SERIES)
SEED_LINES_UP_TO = 10
WIDE_RANGE = 50.0
"""Ratio of the largest to the smallest temperature drawn from which on the axis is logarithmic."""

NARROWEST = 0.3
"""The axis spans at least this share of the largest temperature drawn, so that noise does not look like a law."""

Curves = Mapping[str, TemperatureCurve]
Temperatures = float | Mapping[str, float] | None


def temperature_chart(curves: Curves, ts: Temperatures = None, **look: Unpack[Look]) -> Chart:
    """T against the indicator for up to four data sets or methods, by name; below, the share of test samples.

    A line is the mean over seeds; the band around it spans the seeds or, for a method whose T is not a function of the
    indicator alone, 80% of the samples. It is dotted where the validation set had no sample. `ts` is the temperature
    of TS, one for all curves or one per name.

    >>> import smart_core as sc
    >>> from smart_core.analysis.temperature_curve import temperature_curve
    >>> data = sc.simulate_set(200, 200, 4, seed=0)
    >>> fits = [sc.SMART(seed=0, epochs=3).fit(data.validation.logits, data.validation.labels)]
    >>> chart = temperature_chart({"simulated": temperature_curve(fits, data.test, points=20)}, ts=1.5)
    >>> chart.table["quantity"].unique().tolist()[0], len(chart.table)
    ('T, mean over seeds', 121)
    """
    if not 1 <= len(curves) <= MOST:
        raise CalibrationError(f"{plural(len(curves), 'curve')} cannot be drawn in one figure; give 1 to {MOST}.")
    if len({curve.indicator for curve in curves.values()}) > 1:
        raise CalibrationError("The curves are against different indicators; give those of one indicator.")
    looks, scaling = _looks(curves), _ts_values(ts, curves)
    low = min(float(curve.edges[0]) for curve in curves.values())
    high = max(float(curve.edges[-1]) for curve in curves.values())
    alone = len(curves) == 1
    figure = panels()
    for name, curve in curves.items():
        traces = _curve_traces(name, curve, looks[name], _seeds_drawn(curves, curve), alone=alone)
        figure.add_traces(traces, rows=1, cols=1)
        figure.add_trace(_density(name, curve, looks[name], alone=alone), row=2, col=1)
    figure.add_traces(_ts_lines(scaling, looks, low, high), rows=1, cols=1)
    _shade_outside(figure, curves, low, high, look.get("dark", False))
    lay_out(figure, look, 520, "temperature", bargap=0)
    figure.update_xaxes(range=[low, high], nticks=7)
    figure.update_xaxes(title_text=_indicator(curves).lower(), row=2, col=1)
    figure.update_yaxes(title_text="temperature", nticks=6, row=1, col=1, **_y_axis(curves, scaling))
    figure.update_yaxes(title_text="samples", tickformat=".0%", nticks=3, rangemode="tozero", row=2, col=1)
    return Chart(figure, _alt(curves, scaling), _table(curves, scaling), "temperature")


def _indicator(curves: Curves) -> str:
    return INDICATORS[next(iter(curves.values())).indicator].label


def _looks(curves: Curves) -> dict[str, Style]:
    """Each method's own style if the methods differ, else one by position."""
    methods = [curve.method for curve in curves.values()]
    if len(set(methods)) == len(methods):
        return {name: style(curve.method) for name, curve in curves.items()}
    return dict(zip(curves, SERIES, strict=False))


def _y_axis(curves: Curves, scaling: Mapping[str, float]) -> dict[str, Any]:
    """What is drawn, on a logarithmic axis where temperatures differ by an order of magnitude and more."""
    parts = [part for curve in curves.values() for part in (curve.mean, *_spread(curve))]
    drawn = np.concatenate([*parts, list(scaling.values())])
    drawn = drawn[drawn > 0.0]
    if drawn.size and drawn.max() > WIDE_RANGE * drawn.min():
        return {"type": "log", "dtick": "D2"}
    low, high = (float(drawn.min()), float(drawn.max())) if drawn.size else (0.0, 1.0)
    room = max(NARROWEST * high - (high - low), 0.1 * (high - low)) / 2
    return {"range": [max(low - room, 0.0), high + room]}


def _spread(curve: TemperatureCurve) -> tuple[Vector, Vector]:
    """Lower and upper end of the band."""
    if curve.low is not None and curve.high is not None:
        return curve.low, curve.high
    return curve.temperature.min(axis=0), curve.temperature.max(axis=0)


def _seeds_drawn(curves: Curves, curve: TemperatureCurve) -> Vector:
    """The seeds' own lines (seeds, P): those of a single exact curve, where they are more than one and not many."""
    wanted = len(curves) == 1 and curve.exact and 1 < len(curve.temperature) <= SEED_LINES_UP_TO
    return curve.temperature if wanted else curve.temperature[:0]


def _curve_traces(
    name: str, curve: TemperatureCurve, look: Style, seed_lines: Vector, *, alone: bool
) -> list[go.Scatter]:
    traces = []
    low, high = _spread(curve)
    seeds = len(curve.temperature)
    if not curve.exact or seeds > 1:
        words = f"range of {seeds} seeds" if curve.exact else "80% of the samples"
        group = f"{name}: shade" if alone else name
        traces.append(band(curve.x, low, high, look.color, 0.18, name=words, legendgroup=group, showlegend=alone))
    if len(seed_lines):
        # every seed's line in one trace, with a gap between two
        both = np.broadcast_to(curve.x, seed_lines.shape), seed_lines
        x, y = (np.pad(lines, ((0, 0), (0, 1)), constant_values=np.nan).ravel() for lines in both)
        thin = translucent(look.color, 0.5)
        traces.append(line(x, y, "each seed", thin, 1, legendgroup=name, showlegend=False))
    inside = curve.supported
    traces.append(_mean_line(name, curve, look, np.where(inside, curve.mean, np.nan), dash=look.dash, showlegend=True))
    if not inside.all():
        # the first point beyond the range belongs to the supported line too, so that no gap opens between the two
        beyond = ~inside | ~np.roll(inside, 1) | ~np.roll(inside, -1)
        traces.append(
            _mean_line(name, curve, look, np.where(beyond, curve.mean, np.nan), dash="1px,4px", showlegend=False)
        )
    return traces


def _mean_line(
    name: str, curve: TemperatureCurve, look: Style, y: Vector, *, dash: str, showlegend: bool
) -> go.Scatter:
    spread = " ± %{customdata:.3f} over seeds" if len(curve.temperature) > 1 else ""
    return go.Scatter(
        x=curve.x,
        y=[None if np.isnan(value) else float(value) for value in y],
        mode="lines+markers" if len(curve.x) < 8 else "lines",
        line={**look.line(), "dash": dash},
        marker=marker(look),
        name=f"{plain(name)}, " + (f"r = {decimal(curve.r)}" if np.isfinite(curve.r) else "one T for all"),
        legendgroup=name,
        showlegend=showlegend,
        customdata=curve.std if spread else None,
        hovertemplate=(
            f"{INDICATORS[curve.indicator].label.lower()} %{{x:.2f}}<br>T = %{{y:.3f}}{spread}"
            f"<extra>{plain(name)}</extra>"
        ),
    )


def _density(name: str, curve: TemperatureCurve, look: Style, *, alone: bool) -> go.Bar | go.Scatter:
    share = curve.count / max(int(curve.count.sum()), 1)
    if alone:
        return bars(
            *(curve.edges, share, look.color, 0.7),
            name="test samples",
            legendgroup=name,
            showlegend=False,
            customdata=curve.count,
            hovertemplate="%{customdata:,.0f} test samples around %{x:.2f}<extra></extra>",
        )
    line, words = {"color": look.color, "width": 1.5}, f"{plain(name)}: test samples"
    return outline(curve.edges, share, line=line, name=words, legendgroup=name, hoverinfo="skip")


def _ts_values(ts: Temperatures, names: Iterable[str]) -> dict[str, float]:
    """Name -> T; the empty name stands for all curves."""
    if ts is None:
        return {}
    if isinstance(ts, Mapping):
        return {name: float(ts[name]) for name in names if name in ts}
    return {"": float(ts)}


def _ts_lines(scaling: Mapping[str, float], looks: Mapping[str, Style], low: float, high: float) -> list[go.Scatter]:
    lines = []
    for name, value in scaling.items():
        words = f"TS on {plain(name)}, T = {value:.2f}" if name else f"TS, T = {value:.2f}"
        color = looks[name].color if name else style("ts").color
        lines.append(line([low, high], [value, value], words, color, 1.5, "7px,5px", legendgroup=f"{name}: TS"))
    return lines


def _shade_outside(figure: go.Figure, curves: Curves, low: float, high: float, dark: bool) -> None:
    """Shade where no validation set has a sample and, for a single curve, fainter, its outer 1% of samples."""
    supports = [curve.support for curve in curves.values() if curve.support is not None]
    if not supports:
        return
    first, last = min(each.low for each in supports), max(each.high for each in supports)
    regions = [("no validation sample", 0.24, [(low, first), (last, high)])]
    if len(curves) == 1:
        only = supports[0]
        regions.append(("outer 1% of validation", 0.10, [(only.low, only.q01), (only.q99, only.high)]))
    for words, opacity, spans in regions:
        color = translucent(ink(dark).quiet, opacity)
        wide = [(start, stop) for start, stop in spans if stop > start]
        for start, stop in wide:
            shade(figure, start, stop, color)
        if wide:
            entry = legend_entry(words, marker={"symbol": "square", "size": 12, "color": color})
            figure.add_trace(entry, row=1, col=1)


def _alt(curves: Curves, scaling: Mapping[str, float]) -> str:
    label = _indicator(curves).lower()
    words = []
    for name, curve in curves.items():
        inside = curve.supported if curve.supported.any() else np.ones(len(curve.x), dtype=np.bool_)
        x, mean = curve.x[inside], curve.mean[inside]
        least, most = int(mean.argmin()), int(mean.argmax())
        r = f"r = {decimal(curve.r)}" if np.isfinite(curve.r) else "the same for every sample"
        words.append(
            f"{shorten(name)} ({style(curve.method).label}, {plural(len(curve.temperature), 'seed')}): "
            f"T is {mean[0]:.2f} at {label} {x[0]:.2f} and {mean[-1]:.2f} at {x[-1]:.2f}, lowest {mean[least]:.2f} at "
            f"{x[least]:.2f}, highest {mean[most]:.2f} at {x[most]:.2f}; {r}"
            + (f"; {plural(curve.outside, 'test sample')} outside the validation range" if curve.outside else "")
        )
    for name, value in scaling.items():
        words.append(f"TS uses {value:.2f} for all samples" + (f" of {shorten(name)}" if name else ""))
    return f"Learned temperature against {label}. " + ". ".join(words) + "."


def _table(curves: Curves, scaling: Mapping[str, float]) -> pd.DataFrame:
    """One number per row: the curve, the quantity, where, and the value."""
    label = _indicator(curves).lower()
    frames = []
    for name, curve in curves.items():
        low, high = _spread(curve)
        spread = ("lowest seed", "highest seed") if curve.exact else ("10% of samples", "90% of samples")
        middle = (curve.edges[:-1] + curve.edges[1:]) / 2
        columns = [
            ("T, mean over seeds", curve.x, curve.mean),
            (f"T, {spread[0]}", curve.x, low),
            (f"T, {spread[1]}", curve.x, high),
            ("share of test samples", middle, curve.count / max(int(curve.count.sum()), 1)),
        ]
        columns += [(f"T, seed {seed}", curve.x, line) for seed, line in enumerate(_seeds_drawn(curves, curve))]
        frames += [
            pd.DataFrame({"curve": name, "quantity": quantity, label: x, "value": y}) for quantity, x, y in columns
        ]
    frames += [
        pd.DataFrame({"curve": [name or "TS"], "quantity": ["T of TS"], label: [np.nan], "value": [value]})
        for name, value in scaling.items()
    ]
    return joined(frames)
