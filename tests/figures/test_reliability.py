"""The reliability diagram draws the values of its table."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import pytest
from sklearn.calibration import calibration_curve

from smart_core.figures.reliability import Curve, reliability_diagram
from smart_core.figures.theme import palette
from smart_core.metrics import ece, reliability
from tests.figures.samples import NASTY, texts


@pytest.fixture
def drawn() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    confidence = rng.beta(5, 1.5, 3000)
    return confidence, rng.random(3000) < confidence**1.5


def bands(figure: go.Figure) -> list[go.Scatter]:
    return [t for t in figure.data if t.type == "scatter" and t.fill == "toself"]


def line_of(figure: go.Figure, name: str) -> go.Scatter:
    (found,) = [t for t in figure.data if t.name == name and t.type == "scatter" and t.yaxis == "y"]
    return found


def bars_of(figure: go.Figure) -> go.Bar:
    (found,) = [t for t in figure.data if t.type == "bar"]
    return found


def test_points_equal_scikit_learns(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    confidence, correct = drawn
    figure = reliability_diagram([Curve(reliability(confidence, correct, 10), "ts")]).figure
    accuracy, mean = calibration_curve(correct, confidence, n_bins=10)
    line = line_of(figure, "TS")
    np.testing.assert_allclose(line.x, mean)
    np.testing.assert_allclose(line.y, accuracy)
    assert line.line.color == palette()["ts"].color
    bars = bars_of(figure)
    np.testing.assert_array_equal(bars.y, np.histogram(confidence, 10, (0, 1))[0])


def test_empty_bins_are_left_out_of_the_line_and_kept_in_the_counts() -> None:
    table = reliability([0.95, 0.97, 0.55], [1, 0, 1], 10)
    figure = reliability_diagram([Curve(table, "smart", "mine")]).figure
    line = line_of(figure, "mine")
    assert list(line.x) == [pytest.approx(0.55), pytest.approx(0.96)]
    assert list(line.y) == [1.0, 0.5]
    assert list(bars_of(figure).y) == [0, 0, 0, 0, 0, 1, 0, 0, 0, 2]


def test_the_band_is_a_closed_outline(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    table = reliability(*drawn, 5)
    low, high = table.accuracy - 0.1, table.accuracy + 0.2
    figure = reliability_diagram([Curve(table, "vanilla", None, low, high)]).figure
    (band,) = bands(figure)
    held = table.count > 0
    np.testing.assert_allclose(band.y, [*low[held], *high[held][::-1]])
    np.testing.assert_allclose(band.x, [*table.confidence[held], *table.confidence[held][::-1]])
    assert band.mode == "lines"


def test_no_band_where_none_is_given(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    figure = reliability_diagram([Curve(reliability(*drawn), "vanilla")]).figure
    assert not bands(figure)


def test_several_curves_share_the_count_panel(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    confidence, correct = drawn
    curves = [Curve(reliability(confidence**power, correct), id) for power, id in ((1, "vanilla"), (1.5, "smart"))]
    figure = reliability_diagram(curves).figure
    outlines = [t for t in figure.data if t.yaxis == "y2"]
    assert [t.name for t in outlines] == ["Vanilla", "SMART"]
    assert all(t.type == "scatter" for t in outlines)
    named = [t.name for t in figure.data if t.showlegend is not False]
    assert named == ["perfectly calibrated", "Vanilla", "SMART"]


def test_adaptive_bins_are_drawn_with_their_own_widths(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    confidence, correct = drawn
    figure = reliability_diagram([Curve(reliability(confidence, correct, 6, adaptive=True), "vanilla")]).figure
    bars = bars_of(figure)
    assert set(bars.y) == {500}
    left, right = bars.x - bars.width / 2, bars.x + bars.width / 2
    assert (left[1:] >= right[:-1]).all()
    assert left[0] >= confidence.min()
    assert right[-1] <= confidence.max()


@pytest.mark.parametrize("dark", [False, True])
def test_the_figure_is_json_without_urls(drawn: tuple[np.ndarray, np.ndarray], dark: bool) -> None:
    text = reliability_diagram([Curve(reliability(*drawn))], dark=dark).figure.to_json()
    assert "http" not in text
    assert "NaN" not in text


def test_without_curves_only_the_diagonal_is_drawn() -> None:
    figure = reliability_diagram([]).figure
    assert [t.name for t in figure.data] == ["perfectly calibrated"]


def test_table_holds_every_bin_of_every_curve(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    confidence, correct = drawn
    chart = reliability_diagram([Curve(reliability(confidence, correct, 10), "ts"), Curve(reliability([1.0], [1], 4))])
    assert len(chart.table) == 14
    accuracy, mean = calibration_curve(correct, confidence, n_bins=10)
    rows = chart.table[(chart.table["method"] == "TS") & (chart.table["samples"] > 0)]
    np.testing.assert_allclose(rows["accuracy"], accuracy)
    np.testing.assert_allclose(rows["mean confidence"], mean)
    assert "accuracy low" not in chart.table


def test_alt_of_one_curve_names_the_bin_that_adds_most() -> None:
    confidence = [0.95] * 80 + [0.35] * 20
    chart = reliability_diagram([Curve(reliability(confidence, [1] * 60 + [0] * 40, 10), "vanilla", "the model")])
    assert "Reliability diagram of the model" in chart.alt
    # 0.8 * |0.95 - 0.75| + 0.2 * |0.35 - 0|
    assert "ECE 23.0%" in chart.alt
    assert "the 80 samples at confidence 90.0% to 100.0%, which claim 95.0% and are right 75.0" in chart.alt


def test_alt_of_several_curves_names_best_and_worst(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    confidence, correct = drawn
    curves = [Curve(reliability(confidence**power, correct), id) for power, id in ((1, "ts"), (1.5, "smart"))]
    chart = reliability_diagram(curves)
    assert "smallest for SMART" in chart.alt
    assert "largest for TS" in chart.alt
    assert f"({100 * ece(confidence, correct):.1f}" in chart.alt


def test_many_curves_have_no_lines_through_bins_of_few_samples() -> None:
    table = reliability([0.15] * 3 + [0.55] * 10 + [0.95] * 50, [1] * 63, 10)
    chart = reliability_diagram([Curve(table, id) for id in [*palette(), "mine", "yours", NASTY]])
    upper = [t for t in chart.figure.data if t.yaxis == "y" and t.name == "SMART"]
    line, thin = sorted(upper, key=lambda t: t.mode)
    assert (line.mode, thin.mode) == ("lines+markers", "markers")
    assert list(line.x) == [pytest.approx(0.55), pytest.approx(0.95)]
    assert list(thin.x) == [pytest.approx(0.15)]
    assert thin.showlegend is False
    assert sum(t.showlegend is not False for t in chart.figure.data) == len(palette()) + 4
    assert "<b>" not in texts(chart.figure)


def test_one_sample() -> None:
    chart = reliability_diagram([Curve(reliability([1.0], [1], 15))])
    assert "the 1 sample at confidence 93.3" in chart.alt
