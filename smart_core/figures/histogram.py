"""Histograms of the confidence and of the margin, right and wrong samples stacked."""

from __future__ import annotations

from typing import Unpack

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from smart_core.evaluation import Evaluation
from smart_core.figures.chart import SHARES, Chart, Look, bars, lay_out, line
from smart_core.figures.theme import RIGHT, WRONG, ink
from smart_core.formatting import percent, plural
from smart_core.metrics.binning import bin_edges
from smart_core.types import BoolArray, Vector

Counts = NDArray[np.int64]

TAIL = 0.995
"""Share of the margins that the histogram spreads out; if the rest reaches far beyond, the last bar holds it."""


def confidence_histogram(evaluation: Evaluation, bins: int = 15, **look: Unpack[Look]) -> Chart:
    """Samples in each equal-width bin of the confidence, and lines at the mean confidence and the accuracy.

    Wrong samples are at the bottom of each bar, so that they can be compared from bin to bin.

    >>> import smart_core as sc
    >>> data = sc.simulate_set(100, 300, 4, seed=0)
    >>> model = sc.Vanilla().fit(data.validation.logits, data.validation.labels)
    >>> chart = confidence_histogram(sc.evaluate(model, data.test), bins=5)
    >>> int(chart.table[["right", "wrong"]].sum().sum()), chart.name
    (300, 'confidence-histogram')
    """
    edges = bin_edges(bins).astype(np.float64)
    table = evaluation.reliability(bins)
    right = np.rint(np.nan_to_num(table.accuracy) * table.count).astype(np.int64)
    wrong = table.count - right
    confidence = float(np.mean(evaluation.confidence, dtype=np.float64))
    accuracy = float(np.mean(evaluation.correct))
    figure = _stacked(edges, right, wrong, "%{customdata[0]:.1%}–%{customdata[1]:.1%}")
    top = 1.05 * float((right + wrong).max())
    color = ink(look.get("dark", False)).text
    for name, at, dash in (("mean confidence", confidence, "dash"), ("accuracy", accuracy, "solid")):
        words = f"{name} {percent(at)}"
        figure.add_trace(line([at, at], [0, top], name, color, 2, dash, hovertemplate=f"{words}<extra></extra>"))
    lay_out(figure, look, 360, "confidence-histogram")
    figure.update_xaxes(title_text="confidence", **SHARES)
    way = "above" if confidence >= accuracy else "below"
    alt = (
        f"Histogram of the confidence of {plural(len(evaluation), 'sample')}, right and wrong stacked: the mean "
        f"confidence of {percent(confidence)} lies {way} the accuracy of {percent(accuracy)}; the last of {bins} bins "
        f"holds {percent(_share_last(right + wrong))} of the samples and {percent(_share_last(wrong))} of the wrong."
    )
    return Chart(figure, alt, _table("confidence", edges, right, wrong), "confidence-histogram")


def margin_histogram(evaluation: Evaluation, bins: int = 40, **look: Unpack[Look]) -> Chart:
    """Samples in each equal-width bin of the margin, wrong ones at the bottom.

    If a few margins reach far beyond the others, the last bar holds them all and its hover text says so.
    """
    margin = evaluation.margins.astype(np.float64)
    finite = margin[np.isfinite(margin)]
    largest = float(finite.max()) if finite.size else 0.0
    end = largest
    if finite.size and largest > 2 * float(np.quantile(finite, TAIL)) > 0:
        end = 1.2 * float(np.quantile(finite, TAIL))
    end = end or 1.0  # all margins 0: any width will do
    edges = np.linspace(0, end, bins + 1)
    index = np.clip(np.nan_to_num(margin, nan=0.0, posinf=end) / end * bins, 0, bins - 1).astype(np.int64)
    right, wrong = _counts(index, evaluation.correct, bins)
    figure = _stacked(edges, right, wrong, "margin %{customdata[0]:.3~g}–%{customdata[1]:.3~g}", largest)
    lay_out(figure, look, 360, "margin-histogram")
    figure.update_xaxes(title_text="margin", range=[-0.01 * end, 1.02 * end])
    sides = (margin[evaluation.correct], margin[~evaluation.correct])
    middle = [f"{np.median(side):.3g}" if side.size else "unknown (there are none)" for side in sides]
    alt = (
        f"Histogram of the margin of {plural(len(evaluation), 'sample')}, right and wrong stacked: the median margin "
        f"is {middle[0]} where the prediction is right and {middle[1]} where it is wrong."
    )
    if largest > end:
        alt += f" The last bar holds all margins up to {largest:.4g}."
    table = _table("margin", edges, right, wrong)
    table.loc[bins - 1, "margin to"] = max(largest, end)
    return Chart(figure, alt, table, "margin-histogram")


def _counts(index: NDArray[np.integer], correct: BoolArray, bins: int) -> tuple[Counts, Counts]:
    """Right and wrong samples in each bin."""
    hit = np.asarray(correct, dtype=bool)
    return np.bincount(index[hit], minlength=bins), np.bincount(index[~hit], minlength=bins)


def _stacked(edges: Vector, right: Counts, wrong: Counts, span: str, last: float | None = None) -> go.Figure:
    """Two bars per bin; `last` is where the last bin really ends."""
    ends = edges[1:].copy()
    if last is not None:
        ends[-1] = max(last, ends[-1])
    total = right + wrong
    share = np.divide(right, total, out=np.zeros(total.size), where=total > 0)
    details = np.column_stack([edges[:-1], ends, total, share])
    figure = go.Figure()
    for look, count, opacity in ((WRONG, wrong, 0.95), (RIGHT, right, 0.75)):
        hover = f"%{{y:,.0f}} {look.label} of %{{customdata[2]:,.0f}} in {span}<br>accuracy %{{customdata[3]:.1%}}"
        figure.add_trace(
            bars(
                *(edges, count, look.color, opacity),
                name=look.label,
                customdata=details,
                hovertemplate=f"{hover}<extra></extra>",
            )
        )
    figure.update_layout(barmode="stack", bargap=0, legend_traceorder="normal")
    return figure.update_yaxes(title_text="samples", nticks=6, rangemode="tozero")


def _share_last(count: Counts) -> float:
    return float(count[-1] / count.sum()) if count.sum() else 0.0


def _table(name: str, edges: Vector, right: Counts, wrong: Counts) -> pd.DataFrame:
    return pd.DataFrame({f"{name} from": edges[:-1], f"{name} to": edges[1:], "right": right, "wrong": wrong})
