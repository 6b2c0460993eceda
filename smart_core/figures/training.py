"""Training epoch by epoch: NLL against ECE, and the gradient norms of objectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from smart_core.errors import CalibrationError
from smart_core.evaluation import metric_value, tick_format
from smart_core.experiments.traces import Traces
from smart_core.figures.chart import Chart, Look, joined, lay_out, marker, panels
from smart_core.figures.theme import SERIES, Style, plain
from smart_core.fitting.objectives import OBJECTIVES
from smart_core.formatting import join_words
from smart_core.progress import Trace
from smart_core.types import Vector

POINTS_PER_LINE = 240
"""Epochs drawn per line: eight lines together stay light enough for SVG."""

LOOKS: dict[str, Style] = {
    OBJECTIVES["charbonnier"].label: SERIES[0],
    OBJECTIVES["nll"].label: SERIES[1],
    OBJECTIVES["softece"].label: SERIES[2],
}
"""Objective's label -> its style in every figure; others are drawn like the fourth of the series."""


def divergence_chart(traces: Traces, objectives: Sequence[str] = ("nll", "charbonnier"), **look: Unpack[Look]) -> Chart:
    """ECE (above) and NLL (below) at every epoch of training on each objective.

    Validation is drawn and, as thin lines, test if the traces recorded it (`test_ece`, `test_nll`). A marker stands at
    the epoch of each line's lowest ECE: if that is not the last, further training went against calibration.

    >>> from smart_core.progress import Trace
    >>> trace = Trace({"ece": [0.05, 0.02, 0.03], "nll": [0.5, 0.4, 0.3]})
    >>> divergence_chart(Traces({"NLL": trace}), ["nll"]).table["value"].tolist()
    [0.05, 0.02, 0.03, 0.5, 0.4, 0.3]
    """
    lines = [
        (row, key, f"{part} {metric.upper()}", f"{metric} on {part}")
        for row, metric in enumerate(("ece", "nll"), start=1)
        for part, key in (("validation", metric), ("test", f"test_{metric}"))
    ]
    figure, runs, table = _drawn(traces, objectives, lines)
    for name, trace in runs.items():
        figure.add_trace(_lowest(name, np.asarray(trace["ece"])), row=1, col=1)
    figure.update_yaxes(title_text="ECE", tickformat=tick_format("ece"), nticks=5, rangemode="tozero", row=1, col=1)
    figure.update_yaxes(title_text="NLL", nticks=5, row=2, col=1)
    lay_out(figure, look, 520, "divergence")
    return Chart(figure, _divergence_alt(runs), table, "divergence")


def gradient_chart(
    traces: Traces, objectives: Sequence[str] = ("softece", "charbonnier"), **look: Unpack[Look]
) -> Chart:
    """The training loss (above) and its gradient's norm (below, logarithmic) at every epoch, one line per objective."""
    lines = [(1, "objective", "loss", "loss"), (2, "gradient_norm", "gradient norm", "gradient norm")]
    figure, runs, table = _drawn(traces, objectives, lines)
    figure.update_yaxes(title_text="loss", nticks=5, rangemode="tozero", row=1, col=1)
    figure.update_yaxes(title_text="gradient norm", type="log", dtick=1, exponentformat="power", row=2, col=1)
    lay_out(figure, look, 520, "gradient")
    return Chart(figure, _gradient_alt(runs), table, "gradient")


def _drawn(
    traces: Traces, objectives: Sequence[str], lines: Sequence[tuple[int, str, str, str]]
) -> tuple[go.Figure, dict[str, Trace], pd.DataFrame]:
    """Two panels with (panel, recorded quantity, hover words, name in the table) of each run; the runs; the numbers."""
    labels = [OBJECTIVES[id].label for id in objectives]
    runs = {label: traces.runs[label] for label in labels if label in traces.runs and len(traces.runs[label])}
    if not runs:
        raise CalibrationError(
            f"No epoch of {join_words(labels)} was recorded; train with traces of these objectives first."
        )
    figure, frames = panels(spacing=0.05, heights=None), []
    for name, trace in runs.items():
        for row, key, words, quantity in lines:
            if key in trace.values:
                values = np.asarray(trace[key], dtype=np.float64)
                if key == "gradient_norm":
                    values = np.where(values > 0.0, values, np.nan)  # a logarithm has no zero
                epochs = drawn_epochs(len(values))
                shown = values[epochs - 1]
                figure.add_trace(_line(name, key, words, epochs, shown, first=row == 1), row=row, col=1)
                columns = {"trained on": name, "quantity": quantity, "epoch": epochs, "value": shown}
                frames.append(pd.DataFrame(columns))
    longest = max(len(trace) for trace in runs.values())
    figure.update_xaxes(nticks=6, range=[1 - 0.01 * longest, 1.01 * longest])
    figure.update_xaxes(title_text="epoch", row=2, col=1)
    return figure, runs, joined(frames)


def drawn_epochs(epochs: int) -> NDArray[np.int64]:
    """The epochs (from 1) that are drawn: all, or evenly spread ones with the first and the last."""
    return np.unique(np.linspace(1, epochs, min(epochs, POINTS_PER_LINE)).round().astype(np.int64))


def _line(name: str, key: str, words: str, epochs: NDArray[np.int64], shown: Vector, *, first: bool) -> go.Scatter:
    look, thin = LOOKS.get(name, SERIES[3]), key.startswith("test_")
    label = f"trained on {plain(name)}" + (", test" if thin else "")
    return go.Scatter(
        x=epochs,
        y=[None if np.isnan(value) else float(value) for value in shown],
        mode="lines+markers" if len(epochs) == 1 else "lines",
        line={**look.line(), "width": 1.2 if thin else look.width},
        marker=marker(look),
        name=label,
        legendgroup=label,
        showlegend=first,
        hovertemplate=f"epoch %{{x}}<br>{words} %{{y:.5g}}<extra>{plain(name)}</extra>",
    )


def _lowest(name: str, ece: Vector) -> go.Scatter:
    look, epoch = LOOKS.get(name, SERIES[3]), int(np.nanargmin(ece))
    return go.Scatter(
        x=[epoch + 1],
        y=[ece[epoch]],
        mode="markers",
        marker=marker(look, 11),
        name=f"lowest ECE, {plain(name)}",
        legendgroup=f"trained on {plain(name)}",
        showlegend=False,
        hovertemplate=f"lowest ECE %{{y:.2%}} at epoch %{{x}}<extra>{plain(name)}</extra>",
    )


def _thinned(runs: dict[str, Trace]) -> str:
    longest = max(len(trace) for trace in runs.values())
    return f" Of {longest:,} epochs {POINTS_PER_LINE} are drawn." if longest > POINTS_PER_LINE else ""


def _divergence_alt(runs: dict[str, Trace]) -> str:
    words = []
    for name, trace in runs.items():
        ece, nll = np.asarray(trace["ece"]), np.asarray(trace["nll"])
        at = int(np.nanargmin(ece))
        first, last, lowest = (metric_value("ece", ece[epoch]) for epoch in (0, -1, at))
        words.append(
            f"trained on {name}, NLL goes from {nll[0]:.4f} to {nll[-1]:.4f} and ECE from {first} to {last}, "
            f"lowest {lowest} at epoch {at + 1} of {len(ece)}"
        )
    parts = "Validation and test" if any("test_ece" in trace.values for trace in runs.values()) else "Validation"
    return f"{parts} ECE and NLL by epoch: {'; '.join(words)}.{_thinned(runs)}"


def _gradient_alt(runs: dict[str, Trace]) -> str:
    words = []
    for name, trace in runs.items():
        loss, norms = np.asarray(trace["objective"]), np.asarray(trace["gradient_norm"])
        late = float(np.median(norms[-max(1, len(norms) // 10) :]))
        words.append(
            f"{name} goes from {loss[0]:.4g} to {loss[-1]:.4g}, its gradient norm from {norms[0]:.2g} to {late:.2g} "
            "(median of the last tenth)"
        )
    return f"Training loss and gradient norm by epoch: {'; '.join(words)}.{_thinned(runs)}"
