"""The reliability diagram: accuracy against confidence, bin by bin, over the samples in each bin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from smart_core.figures.chart import Chart
from smart_core.figures.crowd import Crowd
from smart_core.figures.theme import Style, ink, plain, style, template, translucent
from smart_core.formatting import percent, plural
from smart_core.metrics.binning import Reliability

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Curve:
    """One line of the diagram: a reliability table, whose it is, and the band of its accuracies, if any."""

    table: Reliability
    method: str = "vanilla"
    label: str | None = None
    low: NDArray[Any] | None = None
    high: NDArray[Any] | None = None

    @property
    def name(self) -> str:
        """What tables say, and the legend after `plain`."""
        return self.label or style(self.method).label

    @property
    def ece(self) -> float:
        """sum_b (n_b / N) |gap_b| of the table drawn."""
        return float(np.nansum(self.table.weight * np.abs(self.table.gap)))


def reliability_diagram(
    curves: Sequence[Curve], *, dark: bool = False, height: int = 520, uirevision: str = "reliability"
) -> Chart:
    """Accuracy at mean confidence of every bin that holds a sample, with the diagonal of perfect calibration.

    Below the diagonal a model is too confident. Bands are drawn for curves with `low` and `high`. The lower
    panel counts the samples of each bin, on a logarithmic axis because trained networks put most of them in
    the last. Among many curves, bins of fewer than ten samples get faint marks and no line. Give a new `uirevision`
    to forget the reader's zoom.
    """
    crowd = Crowd(len(curves))
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.78, 0.22], vertical_spacing=0.04)
    figure.add_trace(diagonal(dark), row=1, col=1)
    for curve in curves:
        if curve.low is not None and curve.high is not None:
            figure.add_trace(_band(curve), row=1, col=1)
    for curve in curves:
        figure.add_trace(_line(curve, crowd), row=1, col=1)
        if crowd.dense:
            figure.add_trace(_thin_bins(curve, crowd), row=1, col=1)
        figure.add_trace(_counts(curve, crowd), row=2, col=1)
    figure.update_layout(
        template=template(dark),
        height=crowd.height(height),
        uirevision=uirevision,
        legend=crowd.legend,
        barmode="overlay",
        bargap=0,
    )
    figure.update_xaxes(range=[-0.01, 1.02], tickvals=np.linspace(0, 1, 6), tickformat=".0%")
    figure.update_xaxes(title_text="confidence", row=2, col=1)
    figure.update_yaxes(title_text="accuracy", range=[-0.01, 1.02], tickformat=".0%", row=1, col=1)
    figure.update_yaxes(
        title_text="samples", type="log", range=_log_range(curves), dtick=_decades(curves), row=2, col=1
    )
    return Chart(figure, _alt(curves), _table(curves), "reliability")


def diagonal(dark: bool) -> go.Scatter:
    """Where confidence and accuracy agree."""
    return go.Scatter(
        x=[0, 1],
        y=[0, 1],
        mode="lines",
        name="perfectly calibrated",
        line={"color": ink(dark).quiet, "width": 1.2, "dash": "5px,4px"},
        hoverinfo="skip",
    )


def _band(curve: Curve) -> go.Scatter:
    """The region between `low` and `high` as one closed outline, bins from left to right and back."""
    held = curve.table.count > 0
    at = curve.table.confidence[held]
    low, high = (np.asarray(side)[held] for side in (curve.low, curve.high))
    return go.Scatter(
        x=np.concatenate([at, at[::-1]]),
        y=np.concatenate([low, high[::-1]]),
        mode="lines",
        fill="toself",
        fillcolor=translucent(style(curve.method).color, 0.22),
        line={"width": 0},
        name=f"{plain(curve.name)}: 95 % band",
        legendgroup=curve.name,
        showlegend=False,
        hoverinfo="skip",
    )


def _line(curve: Curve, crowd: Crowd) -> go.Scatter:
    look = style(curve.method)
    line = _points(curve, curve.table.count >= crowd.fewest, crowd)
    return line.update(mode="lines+markers", line=crowd.line(look))


def _thin_bins(curve: Curve, crowd: Crowd) -> go.Scatter:
    """The bins that hold too few samples to carry the line among many."""
    thin = _points(curve, (curve.table.count > 0) & (curve.table.count < crowd.fewest), crowd)
    return thin.update(mode="markers", opacity=0.35, showlegend=False)


def _points(curve: Curve, held: NDArray[np.bool_], crowd: Crowd) -> go.Scatter:
    table, look, name = curve.table, style(curve.method), plain(curve.name)
    return go.Scatter(
        x=table.confidence[held],
        y=table.accuracy[held],
        name=name,
        legendgroup=curve.name,
        marker={"color": look.color, "symbol": look.symbol, "size": crowd.marker_size},
        customdata=np.column_stack([table.count, table.gap, table.edges[:-1], table.edges[1:]])[held],
        hovertemplate=(
            "confidence %{x:.1%}<br>accuracy %{y:.1%}<br>gap %{customdata[1]:+.1%}"
            "<br>%{customdata[0]:,.0f} samples in %{customdata[2]:.3f}–%{customdata[3]:.3f}"
            f"<extra>{name}</extra>"
        ),
    )


def _counts(curve: Curve, crowd: Crowd) -> go.Bar | go.Scatter:
    """Bars for one curve; for several, outlines that do not hide each other."""
    table, look, name = curve.table, style(curve.method), plain(curve.name)
    if crowd.curves == 1:
        return _count_bars(table, look, name, curve.name)
    return go.Scatter(
        x=np.repeat(table.edges, 2)[1:-1],
        # an empty bin is drawn at the axis: a logarithm has no zero
        y=np.repeat(np.maximum(table.count, 0.5), 2),
        mode="lines",
        line=crowd.outline(look),
        name=name,
        legendgroup=curve.name,
        showlegend=False,
        customdata=np.repeat(table.count, 2),
        hovertemplate=f"%{{customdata:,.0f}} samples<extra>{name}</extra>",
    )


def _count_bars(table: Reliability, look: Style, name: str, group: str) -> go.Bar:
    return go.Bar(
        x=(table.edges[:-1] + table.edges[1:]) / 2,
        y=table.count,
        width=np.diff(table.edges) * 0.92,
        marker={"color": translucent(look.color, 0.75), "line": {"width": 0}},
        name=name,
        legendgroup=group,
        showlegend=False,
        customdata=np.column_stack([table.edges[:-1], table.edges[1:]]),
        hovertemplate=("%{y:,.0f} samples in %{customdata[0]:.3f}–%{customdata[1]:.3f}" + f"<extra>{name}</extra>"),
    )


def _top(curves: Sequence[Curve]) -> float:
    return float(max((curve.table.count.max() for curve in curves), default=1))


def _log_range(curves: Sequence[Curve]) -> list[float]:
    """From just below one sample to just above the fullest bin, as powers of ten."""
    return [-0.3, float(np.log10(max(_top(curves), 10.0))) + 0.15]


def _decades(curves: Sequence[Curve]) -> int:
    """Decades between two ticks: at most four ticks."""
    return int(np.ceil(np.log10(max(_top(curves), 10.0)) / 3))


def _table(curves: Sequence[Curve]) -> pd.DataFrame:
    import pandas as pd

    frames = []
    for curve in curves:
        table = curve.table
        frame = pd.DataFrame(
            {
                "method": curve.name,
                "bin from": table.edges[:-1],
                "bin to": table.edges[1:],
                "samples": table.count,
                "mean confidence": table.confidence,
                "accuracy": table.accuracy,
                "gap": table.gap,
            }
        )
        if curve.low is not None and curve.high is not None:
            frame["accuracy low"], frame["accuracy high"] = curve.low, curve.high
        frames.append(frame)
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _alt(curves: Sequence[Curve]) -> str:
    if not curves:
        return "Reliability diagram without any curve."
    if len(curves) > 1:
        ranked = sorted(curves, key=lambda curve: curve.ece)
        return (
            f"Reliability diagrams of {plural(len(curves), 'method')}, accuracy against confidence in bins: the ECE "
            f"is smallest for {ranked[0].name} ({percent(ranked[0].ece)}) and largest for {ranked[-1].name} "
            f"({percent(ranked[-1].ece)})."
        )
    (only,) = curves
    table = only.table
    worst = int(np.nanargmax(table.weight * np.abs(table.gap)))
    return (
        f"Reliability diagram of {only.name}, accuracy against confidence in {plural(table.count.size, 'bin')}: ECE "
        f"{percent(only.ece)}. Most of it comes from the {plural(int(table.count[worst]), 'sample')} at confidence "
        f"{percent(table.edges[worst])} to {percent(table.edges[worst + 1])}, which claim "
        f"{percent(table.confidence[worst])} and are right {percent(table.accuracy[worst])} of the time."
    )
