"""Training traces: every recorded epoch, the lowest one marked, and the alt text of both charts."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from smart_core.errors import CalibrationError
from smart_core.experiments.traces import Traces
from smart_core.figures.training import divergence_chart, drawn_epochs, gradient_chart
from smart_core.progress import Trace


def made(epochs: int = 20, *, test: bool = False) -> Traces:
    step = np.arange(epochs)
    runs = {}
    for number, name in enumerate(("NLL", "SoftECE", "Charbonnier-SoftECE")):
        values = {
            "objective": 1.0 / (1.0 + step) + number,
            "gradient_norm": 10.0 ** -(step / 5.0),
            "ece": 0.02 + 0.001 * (step - 5.0) ** 2 / 100,
            "nll": 0.5 - 0.01 * step / epochs,
        }
        if test:
            values |= {"test_ece": values["ece"] + 0.01, "test_nll": values["nll"] + 0.1}
        runs[name] = Trace({key: list(map(float, column)) for key, column in values.items()})
    return Traces(runs)


def on(figure: go.Figure, axis: str) -> list[Any]:
    return [trace for trace in figure.data if trace.yaxis == axis and trace.mode == "lines"]


def test_divergence_draws_ece_above_nll_for_both_objectives():
    traces = made()
    figure = divergence_chart(traces).figure
    for axis, key in (("y", "ece"), ("y2", "nll")):
        found = on(figure, axis)
        assert [trace.name for trace in found] == ["trained on NLL", "trained on Charbonnier-SoftECE"]
        for trace, name in zip(found, ("NLL", "Charbonnier-SoftECE"), strict=True):
            np.testing.assert_array_equal(trace.x, np.arange(1, 21))
            np.testing.assert_allclose(trace.y, traces.runs[name][key])
    marks = [trace for trace in figure.data if trace.mode == "markers"]
    assert [(mark.x[0], mark.y[0]) for mark in marks] == [(6, 0.02), (6, 0.02)]


def test_test_lines_are_drawn_where_they_were_recorded():
    chart = divergence_chart(made(test=True))
    found = [trace for trace in on(chart.figure, "y") if trace.name.endswith(", test")]
    np.testing.assert_allclose(found[0].y, made(test=True).runs["NLL"]["test_ece"])
    assert chart.alt.startswith("Validation and test ECE")
    assert divergence_chart(made()).alt.startswith("Validation ECE")


def test_divergence_alt_names_the_lowest_epoch():
    alt = divergence_chart(made()).alt.replace("\u00a0", " ")
    assert "trained on NLL, NLL goes from 0.5000 to 0.4905" in alt
    assert "lowest 2.00% at epoch 6 of 20" in alt


def test_gradients_are_on_a_log_axis_that_skips_zeros():
    traces = made()
    traces.runs["SoftECE"].values["gradient_norm"][3] = 0.0
    chart = gradient_chart(traces)
    assert chart.figure.layout.yaxis2.type == "log"
    soft, smooth = on(chart.figure, "y2")
    assert soft.y[3] is None
    np.testing.assert_allclose(smooth.y, traces.runs["Charbonnier-SoftECE"]["gradient_norm"])
    losses = on(chart.figure, "y")
    np.testing.assert_allclose(losses[0].y, traces.runs["SoftECE"]["objective"])
    assert "SoftECE goes from 2 to 1.05, its gradient norm from 1 to" in chart.alt


def test_long_trainings_are_thinned():
    chart = divergence_chart(made(2000))
    lines = [*on(chart.figure, "y"), *on(chart.figure, "y2")]
    assert sum(len(trace.x) for trace in lines) < 2000
    assert all((trace.x[0], trace.x[-1]) == (1, 2000) for trace in lines)
    assert "Of 2,000 epochs 240 are drawn" in chart.alt
    assert "Of " not in divergence_chart(made(20)).alt
    np.testing.assert_array_equal(drawn_epochs(5), [1, 2, 3, 4, 5])


def test_table_is_what_is_drawn():
    chart = gradient_chart(made())
    assert len(chart.table) == 2 * 2 * 20
    rows = chart.table[(chart.table["trained on"] == "SoftECE") & (chart.table["quantity"] == "loss")]
    np.testing.assert_allclose(rows["value"], made().runs["SoftECE"]["objective"])


@pytest.mark.parametrize("dark", [False, True])
def test_one_objective_one_epoch(dark: bool):
    only = Traces({"NLL": made(1).runs["NLL"]})
    chart = divergence_chart(only, dark=dark)
    assert "lowest" in chart.alt
    assert "NaN" not in chart.figure.to_json()


def test_traces_without_epochs_are_an_error():
    with pytest.raises(CalibrationError, match="No epoch of SoftECE and Charbonnier-SoftECE"):
        gradient_chart(Traces({"NLL": made().runs["NLL"]}))
