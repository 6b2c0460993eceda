"""The distance to the decision boundary against an indicator, sample by sample."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from smart_core.analysis.hardness import Hardness, trend
from smart_core.figures.chart import Chart, Look, band, lay_out, legend_entry, line, marker
from smart_core.figures.theme import RIGHT, WRONG, Style, ink, sequential
from smart_core.fitting.indicators import INDICATORS
from smart_core.formatting import decimal, plural

SVG_UP_TO = 2_000
POINTS_UP_TO = 20_000
SAMPLE = 2_000
"""Points drawn over the density where there are too many to draw them all."""
DENSITY_CELLS = 60


def hardness_scatter(result: Hardness, *, trend_bins: int | None = 10, **look: Unpack[Look]) -> Chart:
    """C&W distance against the indicator; right and wrong predictions by colour and symbol.

    Samples without a distance are counted in the legend and not drawn. `trend_bins` draws the median and the quartiles
    of the distance in that many bins of equally many samples; None leaves them out. Each point's `customdata` is its
    row in the data.

    >>> import smart_core as sc
    >>> from smart_core.analysis.hardness import hardness
    >>> part = sc.simulate_set(20, 50, 3, seed=0).test
    >>> known = sc.Part(part.logits, part.labels, cw_l2=np.linspace(0.1, 1.0, 50))
    >>> len(hardness_scatter(hardness(known)).table)
    50
    """
    total, dark = len(result.value), look.get("dark", False)
    drawn = np.arange(total)
    if total > POINTS_UP_TO:  # an even sample, over the density of all
        drawn = np.sort(np.random.default_rng(0).choice(total, SAMPLE, replace=False))
    figure = go.Figure()
    if total > POINTS_UP_TO:
        figure.add_trace(_density(result, dark))
    # a rim keeps points apart from the density behind them
    edge = {"line": {"width": 1, "color": ink(dark).background}} if total > POINTS_UP_TO else {"opacity": 0.65}
    kind = go.Scatter if len(drawn) <= SVG_UP_TO else go.Scattergl
    for kind_of, which in ((RIGHT, result.correct), (WRONG, ~result.correct)):
        chosen = drawn[which[drawn]]
        if chosen.size:
            figure.add_trace(_points(kind, result, chosen, kind_of, int(which.sum()), edge))
    if trend_bins is not None:
        figure.add_traces(_trend(result, trend_bins, dark))
    if result.missing:
        # what is missing has an entry in the legend, and is never drawn at 0
        words = f"not drawn: {result.missing}".replace(", ", ",<br>")
        figure.add_trace(legend_entry(words, marker={"symbol": "circle-x-open", "size": 9, "color": ink(dark).quiet}))
    lay_out(figure, look, 480, "hardness")
    figure.update_xaxes(title_text=INDICATORS[result.indicator].label.lower(), nticks=7)
    figure.update_yaxes(title_text="C&W L2 distance", nticks=6, rangemode="tozero")
    return Chart(figure, _alt(result, len(drawn)), _table(result, drawn), "hardness")


def _points(
    kind: type[Any], result: Hardness, chosen: NDArray[np.int64], look: Style, count: int, edge: dict[str, Any]
) -> Any:
    label = INDICATORS[result.indicator].label.lower()
    return kind(
        x=result.value[chosen],
        y=result.distance[chosen],
        mode="markers",
        name=f"{look.label} ({count:,})",
        marker={**marker(look, 6), **edge},
        customdata=result.index[chosen],
        hovertemplate=f"{label} %{{x:.2f}}<br>distance %{{y:.4f}}<br>row %{{customdata}}<extra>{look.label}</extra>",
    )


def _density(result: Hardness, dark: bool) -> go.Heatmap:
    count, x, y = np.histogram2d(result.value, result.distance, bins=DENSITY_CELLS)
    return go.Heatmap(
        x=(x[:-1] + x[1:]) / 2,
        y=(y[:-1] + y[1:]) / 2,
        z=np.where(count.T > 0, np.log10(np.maximum(count.T, 1.0)), np.nan),
        customdata=count.T,
        colorscale=sequential(dark),
        showscale=False,
        name="density",
        hovertemplate="%{customdata:,.0f} samples<extra></extra>",
    )


def _trend(result: Hardness, bins: int, dark: bool) -> list[go.Scatter]:
    found = trend(result, bins)
    if len(found.value) < 2:
        return []
    color = ink(dark).text
    quartiles = band(found.value, found.low, found.high, color, 0.14, name="quartiles", legendgroup="trend")
    span = "half of %{customdata[2]:,.0f} samples in %{customdata[0]:.4f}–%{customdata[1]:.4f}"
    median = line(
        *(found.value, found.median, "median and quartiles", color, 2.5),
        legendgroup="trend",
        customdata=np.column_stack([found.low, found.high, found.count]),
        hovertemplate=f"median %{{y:.4f}}<br>{span}<extra></extra>",
    )
    return [quartiles, median]


def _alt(result: Hardness, drawn: int) -> str:
    found, label = result.correlation, INDICATORS[result.indicator].label.lower()
    words = f"C&W distance against {label} of {plural(len(result.value), 'sample')}"
    if np.isfinite(found.pearson):
        words += (
            f": Pearson's r = {decimal(found.pearson)} (95% interval {decimal(found.pearson_low)} to "
            f"{decimal(found.pearson_high)}), Spearman's {decimal(found.spearman)} ({decimal(found.spearman_low)} to "
            f"{decimal(found.spearman_high)})"
        )
    else:
        words += ": too few, or all equal, for a correlation"
    if drawn < len(result.value):
        words += f"; drawn as a density with {drawn:,} samples as points"
    right, wrong = (result.distance[which] for which in (result.correct, ~result.correct))
    if right.size and wrong.size:
        words += (
            f". Median distance {np.median(right):.3g} where the model is right, {np.median(wrong):.3g} where wrong"
        )
    return words + (f". Not drawn: {result.missing}." if result.missing else ".")


def _table(result: Hardness, drawn: NDArray[np.int64]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "row": result.index[drawn],
            result.indicator: result.value[drawn],
            "C&W L2 distance": result.distance[drawn],
            "right": result.correct[drawn],
        }
    )
