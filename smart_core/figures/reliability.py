"""Reliability diagrams: accuracy against confidence, in bins or smoothed, above the number of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from smart_core.figures.chart import SHARES, Chart, Crowd, Look, band, bars, diagonal, joined, lay_out, outline, panels
from smart_core.figures.chart import curve as method_curve
from smart_core.figures.theme import Style, plain, style, translucent
from smart_core.formatting import percent, plural
from smart_core.metrics.arrays import Values, confidence_and_correct
from smart_core.metrics.bands import Band, accuracy_band, effective_samples
from smart_core.metrics.binning import Reliability
from smart_core.metrics.smooth_ece import smece
from smart_core.metrics.smooth_ece import smooth_reliability as smoothed

NARROWEST = 1e-3
"""Smallest kernel width drawn: a narrower one is finer than the figure."""
WIDEST = 0.05
"""Largest: a wider one carries the many samples near a confidence of 1 to where the bins contradict the curve."""
STEP = 0.01
"""The lower panel of the smoothed diagram counts samples per this much confidence."""


@dataclass(frozen=True, eq=False)
class Curve:
    """One line of the binned diagram: a reliability table, its method, and the band of its accuracies, if any."""

    table: Reliability
    method: str = "vanilla"
    label: str | None = None
    low: NDArray[Any] | None = None
    high: NDArray[Any] | None = None

    @property
    def name(self) -> str:
        """The name in tables, and in the legend after `plain`."""
        return self.label or style(self.method).label


def reliability_diagram(curves: Sequence[Curve], **look: Unpack[Look]) -> Chart:
    """Accuracy at mean confidence of every bin that holds a sample, with the diagonal of perfect calibration.

    Below the diagonal a model is overconfident. Bands are drawn for curves with `low` and `high`. The lower panel
    counts the samples of each bin, on a logarithmic axis because trained networks put most of them in the last. Among
    many curves, bins of fewer than ten samples get faint markers and no line.

    >>> from smart_core.metrics import reliability
    >>> table = reliability([0.6, 0.7, 0.8, 0.9], [True, False, True, True], 5)
    >>> chart = reliability_diagram([Curve(table, "ts")])
    >>> chart.table[["bin from", "samples", "accuracy"]].dropna().values.tolist()
    [[0.4, 1.0, 1.0], [0.6, 2.0, 0.5], [0.8, 1.0, 1.0]]
    """
    crowd = Crowd(len(curves))
    figure = _panels(look, [_band(curve) for curve in curves if curve.low is not None and curve.high is not None])
    for curve in curves:
        count = curve.table.count
        figure.add_trace(_points(curve, count >= crowd.fewest, crowd), row=1, col=1)
        if crowd.dense:
            thin = _points(curve, (count > 0) & (count < crowd.fewest), crowd, opacity=0.35, showlegend=False)
            figure.add_trace(thin.update(mode="markers"), row=1, col=1)
        figure.add_trace(_counts(curve, crowd), row=2, col=1)
    top = float(max((curve.table.count.max() for curve in curves), default=1))
    _axes(figure, crowd, "samples", top, look, "reliability")
    figure.update_layout(barmode="overlay", bargap=0)
    return Chart(figure, _alt(curves), joined([_table(curve) for curve in curves]), "reliability")


def _panels(look: Look, bands: Sequence[go.Scatter]) -> go.Figure:
    """The diagonal and the bands in the upper of two panels."""
    first = diagonal(look.get("dark", False), "perfectly calibrated", 1.2)
    return panels(spacing=0.07).add_traces([first, *bands], rows=1, cols=1)


def _axes(figure: go.Figure, crowd: Crowd, counted: str, top: float, look: Look, uirevision: str) -> None:
    """The axes of both panels; counts range from just below one to just above `top`, with at most four ticks."""
    lay_out(figure, look, crowd.height(520), uirevision, legend=crowd.legend)
    decades = float(np.log10(max(top, 10.0)))
    figure.update_xaxes(**SHARES)
    figure.update_xaxes(title_text="confidence", row=2, col=1)
    figure.update_yaxes(title_text="accuracy", range=SHARES["range"], tickformat=SHARES["tickformat"], row=1, col=1)
    ticks = int(np.ceil(decades / 3))
    figure.update_yaxes(title_text=counted, type="log", range=[-0.3, decades + 0.15], dtick=ticks, row=2, col=1)


def _band(curve: Curve) -> go.Scatter:
    held = curve.table.count > 0
    low, high = (np.asarray(side)[held] for side in (curve.low, curve.high))
    name = f"{plain(curve.name)}: 95% band"
    color = style(curve.method).color
    return band(curve.table.confidence[held], low, high, color, 0.22, name=name, legendgroup=curve.name)


def _points(curve: Curve, held: NDArray[np.bool_], crowd: Crowd, **trace: Any) -> go.Scatter:
    table, look = curve.table, style(curve.method)
    data = np.column_stack([table.count, table.edges[:-1], table.edges[1:]])[held]
    gaps = [percent(gap, 1, "+") for gap in table.gap[held]]
    hover = (
        "confidence %{x:.1%}<br>accuracy %{y:.1%}<br>gap %{text}"
        "<br>%{customdata[0]:,.0f} samples in %{customdata[1]:.3f}–%{customdata[2]:.3f}"
    )
    drawn = table.confidence[held], table.accuracy[held], plain(curve.name), look, crowd.marker_size, data, hover
    return method_curve(*drawn, line=crowd.line(look), legendgroup=curve.name, text=gaps, **trace)


def _counts(curve: Curve, crowd: Crowd) -> go.Bar | go.Scatter:
    """Bars for one curve; for several, outlines that do not hide each other."""
    table, look, name = curve.table, style(curve.method), plain(curve.name)
    if crowd.curves == 1:
        return bars(
            table.edges,
            table.count,
            look.color,
            0.75,
            name=name,
            legendgroup=curve.name,
            showlegend=False,
            customdata=np.column_stack([table.edges[:-1], table.edges[1:]]),
            hovertemplate=f"%{{y:,.0f}} samples in %{{customdata[0]:.3f}}–%{{customdata[1]:.3f}}<extra>{name}</extra>",
        )
    return outline(
        table.edges,
        np.maximum(table.count, 0.5),  # an empty bin is drawn at the axis: a logarithm has no zero
        line=crowd.outline(look),
        name=name,
        legendgroup=curve.name,
        customdata=np.repeat(table.count, 2),
        hovertemplate=f"%{{customdata:,.0f}} samples<extra>{name}</extra>",
    )


def _table(curve: Curve) -> pd.DataFrame:
    table = curve.table
    columns = {
        "method": curve.name,
        "bin from": table.edges[:-1],
        "bin to": table.edges[1:],
        "samples": table.count,
        "mean confidence": table.confidence,
        "accuracy": table.accuracy,
        "gap": table.gap,
    }
    if curve.low is not None and curve.high is not None:
        columns |= {"accuracy low": curve.low, "accuracy high": curve.high}
    return pd.DataFrame(columns)


def _alt(curves: Sequence[Curve]) -> str:
    if not curves:
        return "Reliability diagram without any curve."
    if len(curves) > 1:
        ranked = sorted(curves, key=lambda curve: curve.table.ece)
        return (
            f"Reliability diagrams of {plural(len(curves), 'method')}, accuracy against confidence in bins: the ECE "
            f"is smallest for {ranked[0].name} ({percent(ranked[0].table.ece)}) and largest for {ranked[-1].name} "
            f"({percent(ranked[-1].table.ece)})."
        )
    (only,) = curves
    table = only.table
    worst = int(np.nanargmax(table.weight * np.abs(table.gap)))
    return (
        f"Reliability diagram of {only.name}, accuracy against confidence in {plural(table.count.size, 'bin')}: ECE "
        f"{percent(table.ece)}. Most of it comes from the {plural(int(table.count[worst]), 'sample')} at confidence "
        f"{percent(table.edges[worst])} to {percent(table.edges[worst + 1])}, which claim "
        f"{percent(table.confidence[worst])} and are right {percent(table.accuracy[worst])} of the time."
    )


@dataclass(frozen=True, eq=False)
class _Smooth:
    """One line of the smoothed diagram."""

    id: str
    label: str
    error: float
    sigma: float
    t: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    """NaN where the curve would rest on too few samples."""
    samples: NDArray[np.float64]
    """Samples per `STEP` of confidence."""
    band: Band | None

    @classmethod
    def of(cls, id: str, label: str, confidence: Values, correct: Values, *, fewest: int, band: bool) -> _Smooth:
        """Smooth with the kernel width of SmoothECE, within the limits above."""
        p, a = confidence_and_correct(confidence, correct)
        error = smece(p, a)
        sigma = min(max(error, NARROWEST), WIDEST)
        curve = smoothed(p, a, sigma)
        # beyond the outermost samples, and in gaps between them, the kernel would only repeat those far away
        ordered = np.sort(p)
        near = np.searchsorted(ordered, curve.t + sigma, "right") - np.searchsorted(ordered, curve.t - sigma)
        within = (curve.t >= ordered[0]) & (curve.t <= ordered[-1])
        count = effective_samples(p, curve)
        shown = within & (near >= fewest) & (count.round() >= fewest)
        accuracy = np.where(shown, curve.accuracy, np.nan)
        around = accuracy_band(accuracy * count, count) if band else None
        return cls(id, label, error, sigma, curve.t, accuracy, curve.density * p.size * STEP, around)

    @property
    def look(self) -> Style:
        return style(self.id)

    @property
    def worst(self) -> int:
        """The index that adds most to the error: largest density times gap."""
        return int(np.nanargmax(np.abs(np.where(np.isnan(self.accuracy), 0, self.t - self.accuracy)) * self.samples))


def smooth_reliability(
    samples: Mapping[str, tuple[Values, Values]],
    *,
    labels: Mapping[str, str] | None = None,
    band: bool | None = None,
    **look: Unpack[Look],
) -> Chart:
    """Kernel-smoothed accuracy against confidence, above the density of the confidences.

    `samples` gives (confidence, correct) by method id, `labels` other names than the methods' own. The Gaussian is
    reflected at 0 and 1 and as wide as the SmoothECE it belongs to, at least 0.001 and at most 0.05. The curve is drawn
    between the smallest and the largest confidence, where a sample lies within the kernel's width and it rests on at
    least one sample, among many curves on ten. `band` draws the pointwise 95% band, by default for a single
    curve.

    >>> chart = smooth_reliability({"ts": ([0.6, 0.7, 0.8, 0.9], [True, False, True, True])})
    >>> list(chart.table.columns[:3]), round(float(chart.table["SmoothECE"][0]), 2)
    (['method', 'confidence', 'smoothed accuracy'], 0.1)
    """
    crowd = Crowd(len(samples))
    with_band = len(samples) == 1 if band is None else band
    curves = [
        _Smooth.of(id, (labels or {}).get(id) or style(id).label, *pair, fewest=crowd.fewest, band=with_band)
        for id, pair in samples.items()
    ]
    figure = _panels(look, [_smooth_band(curve, curve.band) for curve in curves if curve.band is not None])
    for curve in curves:
        figure.add_trace(_smooth_line(curve, crowd), row=1, col=1)
        figure.add_trace(_density(curve, crowd), row=2, col=1)
    top = max((float(curve.samples.max()) for curve in curves), default=10.0)
    _axes(figure, crowd, "n per 1%", top, look, "smooth-reliability")
    if crowd.dense:
        figure.update_layout(legend_title={"text": "smECE", "side": "top"})
    return Chart(figure, _smooth_alt(curves), joined([_smooth_table(curve) for curve in curves]), "smooth-reliability")


def _smooth_line(curve: _Smooth, crowd: Crowd) -> go.Scatter:
    name = plain(curve.label)
    measure = "" if crowd.dense else ": smECE"  # among many the legend's title says it
    return go.Scatter(
        x=curve.t,
        y=curve.accuracy,
        mode="lines",
        name=f"{name}{measure} {percent(curve.error)}",
        legendgroup=curve.id,
        line=crowd.line(curve.look),
        connectgaps=False,
        customdata=curve.samples,
        text=[percent(gap, 1, "+") for gap in curve.t - curve.accuracy],
        hovertemplate=(
            "confidence %{x:.1%}<br>smoothed accuracy %{y:.1%}<br>gap %{text}"
            f"<br>%{{customdata:,.1f}} samples per 1%<extra>{name}</extra>"
        ),
    )


def _smooth_band(curve: _Smooth, around: Band) -> go.Scatter:
    name = f"{plain(curve.label)}: 95% band"
    return band(curve.t, around.low, around.high, curve.look.color, 0.22, name=name, legendgroup=curve.id)


def _density(curve: _Smooth, crowd: Crowd) -> go.Scatter:
    name, alone = plain(curve.label), crowd.curves == 1
    return go.Scatter(
        x=curve.t,
        y=np.maximum(curve.samples, 0.5),  # where there are none it is drawn at the axis: a logarithm has no zero
        mode="lines",
        line=crowd.outline(curve.look),
        fill="tozeroy" if alone else None,
        fillcolor=translucent(curve.look.color, 0.4) if alone else None,
        name=name,
        legendgroup=curve.id,
        showlegend=False,
        customdata=curve.samples,
        hovertemplate=f"%{{customdata:,.1f}} samples per 1% at %{{x:.1%}}<extra>{name}</extra>",
    )


def _smooth_table(curve: _Smooth) -> pd.DataFrame:
    columns = {
        "method": curve.label,
        "confidence": curve.t,
        "smoothed accuracy": curve.accuracy,
        "samples per 0.01 of confidence": curve.samples,
        "SmoothECE": curve.error,
        "kernel width": curve.sigma,
    }
    if curve.band is not None:
        columns |= {"accuracy low": curve.band.low, "accuracy high": curve.band.high}
    return pd.DataFrame(columns)


def _smooth_alt(curves: Sequence[_Smooth]) -> str:
    if not curves:
        return "Smoothed reliability diagram without any curve."
    if len(curves) == 1:
        (only,) = curves
        worst = only.worst
        return (
            f"Smoothed reliability diagram of {only.label}: SmoothECE {percent(only.error)}; most of it at confidence "
            f"{percent(only.t[worst])}, where the smoothed accuracy is {percent(only.accuracy[worst])}."
        )
    ranked = sorted(curves, key=lambda curve: curve.error)
    return (
        f"Smoothed reliability diagrams of {plural(len(curves), 'method')}: SmoothECE is smallest for "
        f"{ranked[0].label} ({percent(ranked[0].error)}) and largest for {ranked[-1].label} "
        f"({percent(ranked[-1].error)})."
    )
