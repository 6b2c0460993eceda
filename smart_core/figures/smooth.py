"""The smoothed reliability diagram of SmoothECE: no bins to choose, the width of the kernel is the error itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from smart_core.figures.chart import Chart
from smart_core.figures.crowd import Crowd
from smart_core.figures.reliability import diagonal
from smart_core.figures.theme import Style, plain, style, template, translucent
from smart_core.formatting import percent, plural
from smart_core.metrics.arrays import Values, confidence_and_correct
from smart_core.metrics.smooth_curve import SmoothBand, effective_samples, smooth_band
from smart_core.metrics.smooth_ece import smece
from smart_core.metrics.smooth_ece import smooth_reliability as smoothed

if TYPE_CHECKING:
    import pandas as pd

NARROWEST = 1e-3
"""Smallest kernel width drawn: a narrower one is finer than the figure."""
STEP = 0.01
"""The lower panel counts samples per this much confidence."""


@dataclass(frozen=True, eq=False)
class _Curve:
    id: str
    label: str
    error: float
    sigma: float
    t: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    """NaN where the curve would rest on too few samples."""
    samples: NDArray[np.float64]
    """Samples per `STEP` of confidence."""
    band: SmoothBand | None

    @property
    def look(self) -> Style:
        return style(self.id)

    @property
    def worst(self) -> int:
        """The place that adds most to the error: largest density times gap."""
        return int(np.nanargmax(np.abs(np.where(np.isnan(self.accuracy), 0, self.t - self.accuracy)) * self.samples))


def smooth_reliability(
    samples: Mapping[str, tuple[Values, Values]],
    *,
    labels: Mapping[str, str] | None = None,
    band: bool | None = None,
    dark: bool = False,
    height: int = 520,
    uirevision: str = "smooth-reliability",
) -> Chart:
    """Kernel-smoothed accuracy against confidence, over the density of the confidences.

    `samples` gives (confidence, correct) by method id, `labels` other names than the methods' own. The Gaussian is
    reflected at 0 and 1 and as wide as the SmoothECE it belongs to, at least 0.001. The curve ends where it would rest
    on less than one sample, among many curves on less than ten. `band` draws the pointwise 95 % bootstrap band; by
    default for a single curve.
    """
    crowd = Crowd(len(samples))
    with_band = len(samples) == 1 if band is None else band
    curves = [
        _curve(id, (labels or {}).get(id) or style(id).label, *pair, fewest=crowd.fewest, band=with_band)
        for id, pair in samples.items()
    ]
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.78, 0.22], vertical_spacing=0.04)
    figure.add_trace(diagonal(dark), row=1, col=1)
    for curve in curves:
        if curve.band is not None:
            figure.add_trace(_band(curve, curve.band), row=1, col=1)
    for curve in curves:
        figure.add_trace(_line(curve, crowd), row=1, col=1)
        figure.add_trace(_density(curve, crowd.outline(curve.look), alone=len(curves) == 1), row=2, col=1)
    figure.update_layout(
        template=template(dark), height=crowd.height(height), uirevision=uirevision, legend=crowd.legend
    )
    if crowd.dense:
        figure.update_layout(legend_title={"text": "smECE", "side": "top"})
    figure.update_xaxes(range=[-0.01, 1.02], tickvals=np.linspace(0, 1, 6), tickformat=".0%")
    figure.update_xaxes(title_text="confidence", row=2, col=1)
    figure.update_yaxes(title_text="accuracy", range=[-0.01, 1.02], tickformat=".0%", row=1, col=1)
    top = max((float(curve.samples.max()) for curve in curves), default=10.0)
    decades = float(np.log10(max(top, 10.0)))
    figure.update_yaxes(
        title_text="n per 1 %",
        type="log",
        range=[-0.3, decades + 0.15],
        dtick=int(np.ceil(decades / 3)),
        row=2,
        col=1,
    )
    return Chart(figure, _alt(curves), _table(curves), "smooth-reliability")


def _curve(id: str, label: str, confidence: Values, correct: Values, *, fewest: int, band: bool) -> _Curve:
    p, a = confidence_and_correct(confidence, correct)
    error = smece(p, a)
    sigma = max(error, NARROWEST)
    curve = smoothed(p, a, sigma)
    shown = effective_samples(curve.density, p.size, sigma) >= fewest
    return _Curve(
        id=id,
        label=label,
        error=error,
        sigma=sigma,
        t=curve.t,
        accuracy=np.where(shown, curve.accuracy, np.nan),
        samples=curve.density * p.size * STEP,
        band=smooth_band(p, a, sigma, curve.t.size) if band else None,
    )


def _line(curve: _Curve, crowd: Crowd) -> go.Scatter:
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
        customdata=np.column_stack([curve.t - curve.accuracy, curve.samples]),
        hovertemplate=(
            "confidence %{x:.1%}<br>smoothed accuracy %{y:.1%}<br>gap %{customdata[0]:+.1%}"
            f"<br>%{{customdata[1]:,.1f}} samples per 1 %<extra>{name}</extra>"
        ),
    )


def _band(curve: _Curve, band: SmoothBand) -> go.Scatter:
    """One closed outline for each stretch of the curve, with a gap between stretches."""
    shown = np.isfinite(curve.accuracy) & np.isfinite(band.low)
    x: list[float] = []
    y: list[float] = []
    for stretch in np.split(np.flatnonzero(shown), np.flatnonzero(np.diff(np.flatnonzero(shown)) > 1) + 1):
        there, back = stretch, stretch[::-1]
        x += [*band.t[there], *band.t[back], np.nan]
        y += [*band.low[there], *band.high[back], np.nan]
    return go.Scatter(
        x=x[:-1],
        y=y[:-1],
        mode="lines",
        fill="toself",
        fillcolor=translucent(curve.look.color, 0.22),
        line={"width": 0},
        name=f"{plain(curve.label)}: 95 % band",
        legendgroup=curve.id,
        showlegend=False,
        hoverinfo="skip",
    )


def _density(curve: _Curve, line: dict[str, Any], *, alone: bool) -> go.Scatter:
    name = plain(curve.label)
    return go.Scatter(
        x=curve.t,
        # a logarithm has no zero: an empty place is drawn at the axis
        y=np.maximum(curve.samples, 0.5),
        mode="lines",
        line=line,
        fill="tozeroy" if alone else None,
        fillcolor=translucent(curve.look.color, 0.4) if alone else None,
        name=name,
        legendgroup=curve.id,
        showlegend=False,
        customdata=curve.samples,
        hovertemplate=f"%{{customdata:,.1f}} samples per 1 % at %{{x:.1%}}<extra>{name}</extra>",
    )


def _table(curves: list[_Curve]) -> pd.DataFrame:
    import pandas as pd

    frames = []
    for curve in curves:
        frame = pd.DataFrame(
            {
                "method": curve.label,
                "confidence": curve.t,
                "smoothed accuracy": curve.accuracy,
                "samples per 0.01 of confidence": curve.samples,
                "SmoothECE": curve.error,
                "kernel width": curve.sigma,
            }
        )
        if curve.band is not None:
            frame["accuracy low"], frame["accuracy high"] = curve.band.low, curve.band.high
        frames.append(frame)
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _alt(curves: list[_Curve]) -> str:
    if not curves:
        return "Smoothed reliability diagram without any curve."
    if len(curves) == 1:
        (only,) = curves
        place = only.worst
        return (
            f"Smoothed reliability diagram of {only.label}: SmoothECE {percent(only.error)}; most of it at confidence "
            f"{percent(only.t[place])}, where the smoothed accuracy is {percent(only.accuracy[place])}."
        )
    ranked = sorted(curves, key=lambda curve: curve.error)
    return (
        f"Smoothed reliability diagrams of {plural(len(curves), 'method')}: SmoothECE is smallest for "
        f"{ranked[0].label} ({percent(ranked[0].error)}) and largest for {ranked[-1].label} "
        f"({percent(ranked[-1].error)})."
    )
