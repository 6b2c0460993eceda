"""The simulator's law against SMART's estimate of it, and the true error of methods as validation grows."""

from __future__ import annotations

from typing import Unpack

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from smart_core.figures.chart import Array, Chart, Look, bars, curve, error_bars, lay_out, line, panels
from smart_core.figures.theme import ink, plain, style
from smart_core.formatting import join_words, percent, plural
from smart_core.theory.playground import Playground


def recovery_chart(result: Playground, size: int | None = None, **look: Unpack[Look]) -> Chart:
    """T*(m), SMART's map for each seed, and the one T of TS, at one validation size; below, the sample density."""
    size = max(result.sizes, default=0) if size is None else size
    colors, x = ink(look.get("dark", False)), result.x
    curves = result.smart.get(size, np.empty((0, len(x))))
    single = len(curves) == 1
    hover = "margin %{{x:.2f}}<br>{} = %{{y:.3f}}<extra>{}</extra>"
    lines = [
        line(
            *(x, t, "SMART" if single else "SMART, each seed", style("smart").color, 3 if single else 1.8),
            legendgroup="smart",
            showlegend=seed == 0,
            hovertemplate=hover.format("T", f"SMART, seed {seed}"),
        )
        for seed, t in enumerate(curves)
    ]
    if size in result.ts:
        t = result.ts[size]
        lines.append(line([x[0], x[-1]], [t, t], f"TS, T = {t:.2f}", style("ts").color, 1.5, "2px,3px"))
    truth = {"hovertemplate": hover.format("T*", "truth")}
    lines.append(line(x, result.truth, "the truth T*(m)", colors.text, 2.5, "8px,4px", **truth))
    figure = panels(heights=(0.8, 0.2)).add_traces(lines, rows=1, cols=1)
    around = "%{y:.1%} of the samples around %{x:.1f}<extra></extra>"
    drawn = result.density_edges, result.density, colors.quiet, 0.6
    figure.add_trace(bars(*drawn, name="test samples", showlegend=False, hovertemplate=around), row=2, col=1)
    lay_out(figure, look, 440, "recovery")
    figure.update_yaxes(title_text="temperature", rangemode="tozero", nticks=6, row=1, col=1)
    figure.update_yaxes(title_text="samples", tickformat=".0%", nticks=3, row=2, col=1)
    figure.update_xaxes(title_text="margin", row=2, col=1)
    return Chart(figure, _recovery_alt(result, size), _recovery_table(result, size), "recovery")


def _recovery_alt(result: Playground, size: int) -> str:
    words = (
        f"The law T*(m), from {result.truth.min():.2f} to {result.truth.max():.2f} over margins 0 to {result.x[-1]:.1f}"
    )
    off = result.recovery(size)
    if np.isfinite(off):
        seeds = plural(len(result.smart[size]), "seed")
        words += f"; SMART fitted on {size:,} samples ({seeds}) is off by {percent(off)} of the temperature on average"
    if size in result.ts:
        words += f"; TS uses {result.ts[size]:.2f} for all"
    return words + "."


def _recovery_table(result: Playground, size: int) -> pd.DataFrame:
    columns = {"margin": result.x, "true T": result.truth}
    columns |= {f"SMART, seed {seed}": t for seed, t in enumerate(result.smart.get(size, ()))}
    if size in result.ts:
        columns["TS"] = np.full(len(result.x), result.ts[size])
    return pd.DataFrame(columns)


def true_error_chart(result: Playground, *, conditional: bool = False, **look: Unpack[Look]) -> Chart:
    """True calibration error against the number of validation samples, mean and range over seeds.

    E|p - q*|, each row against its own truth; `conditional` takes E|p - E[q* | p]| instead, what the ECE estimates.
    """
    values, mean = result.conditional if conditional else result.error, result.mean(conditional)
    sizes = np.asarray(result.sizes, dtype=np.float64)
    figure = go.Figure()
    for i, id in enumerate(result.methods):
        known = np.isfinite(mean[i])
        if not known.any():
            continue
        method, middle = style(id), mean[i, known]
        low, high = np.nanmin(values[i, known], axis=1), np.nanmax(values[i, known], axis=1)
        bars_of = error_bars(middle, low, high, thickness=1, width=3)
        drawn = sizes[known], middle, plain(method.label), method, 8, None, "%{x:,.0f} samples<br>%{y:.2%}"
        figure.add_trace(curve(*drawn, error_y=bars_of))
    room = 0.05 * max(float(np.log10(sizes[-1] / sizes[0])), 0.5)
    lay_out(figure, look, 440, "true-error")
    figure.update_xaxes(
        title_text="validation samples",
        type="log",
        tickvals=sizes,
        ticktext=[f"{size:,.0f}" for size in sizes],
        range=[float(np.log10(sizes[0])) - room, float(np.log10(sizes[-1])) + room],
    )
    figure.update_yaxes(title_text="true calibration error", tickformat=".1~%", rangemode="tozero", nticks=6)
    return Chart(figure, _error_alt(result, mean), _error_table(result, conditional), "true-error")


def _error_alt(result: Playground, mean: Array) -> str:
    words = []
    for i, id in enumerate(result.methods):
        known = np.flatnonzero(np.isfinite(mean[i]))
        if known.size:
            first, last = int(known[0]), int(known[-1])
            at = [f"{percent(mean[i, place])} with {result.sizes[place]:,} samples" for place in sorted({first, last})]
            words.append(f"{style(id).label} {' and '.join(at)}")
    return f"True calibration error by validation size: {join_words(words) or 'nothing computed yet'}."


def _error_table(result: Playground, conditional: bool) -> pd.DataFrame:
    values = result.conditional if conditional else result.error
    cells = np.argwhere(np.isfinite(values)).tolist()
    rows = [(result.methods[i], result.sizes[j], seed, values[i, j, seed]) for i, j, seed in cells]
    return pd.DataFrame(rows, columns=["method", "validation samples", "seed", "true calibration error"])
