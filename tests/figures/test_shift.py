"""Shift figures: reductions of constructed results, dots that are cut off, best cells, harm in the alt text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smart_core.errors import CalibrationError
from smart_core.experiments.results import SeedTable
from smart_core.experiments.shift import Shift
from smart_core.figures.seed_tables import shift_heatmap
from smart_core.figures.shift import reduction_dots
from smart_core.figures.theme import palette


def made(values: Any, rows: tuple = ("vanilla", "ts", "smart"), columns: tuple = ("fog", "snow")) -> Shift:
    empty = SeedTable.empty("method", "target", rows, columns, 1, ("ece", "accuracy"))
    shift = Shift(**vars(empty))
    shift.metrics["ece"][:, :, 0] = values
    shift.metrics["accuracy"][:, :, 0] = 0.9
    return shift


USUAL = [[0.10, 0.20], [0.02, 0.30], [0.01, 0.02]]


def dots(figure: Any) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data if "markers" in trace.mode}


def test_dots_are_the_share_of_the_error_removed():
    chart = reduction_dots(made(USUAL))
    found = dots(chart.figure)
    assert list(found) == ["TS", "SMART"]  # the model itself is what they are compared with
    np.testing.assert_allclose(found["TS"].x, [0.8, -0.5])
    np.testing.assert_allclose(found["SMART"].x, [0.9, 0.9])
    assert found["SMART"].marker.color == palette()["smart"].color
    assert list(chart.figure.layout.yaxis.ticktext) == ["fog", "snow"]
    np.testing.assert_allclose(chart.table["reduction"], [0.8, 0.9, -0.5, 0.9])


def test_alt_names_best_worst_and_harm():
    alt = reduction_dots(made(USUAL)).alt.replace("\u00a0", " ")
    assert "on average most by SMART, 90.0%, least by TS, 15.0%" in alt
    assert "Worse than uncalibrated: TS on snow (−50.0%)" in alt


def test_large_harm_is_cut_off_and_the_axis_says_so():
    chart = reduction_dots(made([[0.1, 0.1], [0.5, 0.05], [0.02, 0.02]]))
    ts = dots(chart.figure)["TS"]
    np.testing.assert_allclose(ts.x, [-1.0, 0.5])
    assert ts.customdata[0][1] == "−400.0%"
    assert chart.figure.layout.xaxis.ticktext[0] == "≤ −100%"
    assert "≤" not in str(reduction_dots(made(USUAL)).figure.layout.xaxis.ticktext)
    np.testing.assert_allclose(chart.table["reduction"], [-4.0, 0.8, 0.5, 0.8])


def test_sixteen_groups_of_ten_methods_fit_a_screen():
    groups = tuple(f"corruption {n}" for n in range(16))
    rows = tuple(palette())[:11]
    values = np.random.default_rng(0).uniform(0.01, 0.1, (11, 16))
    chart = reduction_dots(made(values, rows, groups))
    assert chart.figure.layout.height < 720
    found = dots(chart.figure)
    np.testing.assert_allclose(found[palette()[rows[3]].label].x, np.maximum(1 - values[3] / values[0], -1))


def test_missing_values_leave_no_dot():
    chart = reduction_dots(made([[0.1, 0.0], [0.05, 0.1], [np.nan, 0.1]]))
    found = dots(chart.figure)
    assert list(found["TS"].y) == [0]  # nothing can be taken away from no error
    assert len(found["SMART"].x) == 0
    assert len(chart.table) == 1
    assert "no value yet" in reduction_dots(made(np.full((3, 2), np.nan))).alt


def test_accuracy_is_not_an_error():
    with pytest.raises(CalibrationError, match="Accuracy is not an error"):
        reduction_dots(made(USUAL), "accuracy")


@pytest.mark.parametrize("dark", [False, True])
def test_cells_are_groups_by_methods(dark: bool):
    chart = shift_heatmap(made(USUAL), dark=dark)
    (heat,) = [trace for trace in chart.figure.data if trace.type == "heatmap"]
    np.testing.assert_allclose(heat.z, np.array(USUAL).T)
    text = [note.text for note in chart.figure.layout.annotations]
    assert text == ["10.00", "2.00", "★ 1.00", "20.00", "30.00", "★ 2.00"]
    assert list(chart.figure.layout.xaxis.ticktext) == ["Vanilla", "TS", "SMART"]
    assert [trace.name for trace in chart.figure.data].count("best of its group") == 1
    alt = chart.alt.replace("\u00a0", " ")
    assert "SMART is best in 2 of 2 groups; the worst cell is TS on snow with 30.00%" in alt
    np.testing.assert_allclose(chart.table["ECE"], np.ravel(heat.z))


def test_cells_without_a_value():
    chart = shift_heatmap(made(np.full((3, 2), np.nan)))
    assert "no value yet" in chart.alt
    assert "NaN" not in chart.figure.to_json()


def test_foreign_group_names():
    hostile = ("<img src=x>", "a%{x}$b$", "n" * 200)
    shift = made([[0.1] * 3, [0.2] * 3, [0.05] * 3], columns=hostile)
    for chart in (reduction_dots(shift), shift_heatmap(shift)):
        axes = [*(chart.figure.layout.xaxis.ticktext or ()), *(chart.figure.layout.yaxis.ticktext or ())]
        assert "&lt;img src=x&gt;" in axes
        assert max(map(len, axes)) < 60
        assert "%{x}" not in "".join(axes)
        assert "<img" not in str([trace.customdata for trace in chart.figure.data])
