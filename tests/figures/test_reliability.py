"""The reliability diagram: what is drawn is what the table holds."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import pytest
from sklearn.calibration import calibration_curve

from smart_core.figures.reliability import Curve, reliability_diagram
from smart_core.figures.theme import PALETTE
from smart_core.metrics import reliability


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


def test_points_are_scikit_learns(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    confidence, correct = drawn
    figure = reliability_diagram([Curve(reliability(confidence, correct, 10), "ts")])
    accuracy, mean = calibration_curve(correct, confidence, n_bins=10)
    line = line_of(figure, "TS")
    np.testing.assert_allclose(line.x, mean)
    np.testing.assert_allclose(line.y, accuracy)
    assert line.line.color == PALETTE["ts"].color
    bars = bars_of(figure)
    np.testing.assert_array_equal(bars.y, np.histogram(confidence, 10, (0, 1))[0])


def test_empty_bins_are_left_out_of_the_line_and_kept_in_the_counts() -> None:
    table = reliability([0.95, 0.97, 0.55], [1, 0, 1], 10)
    figure = reliability_diagram([Curve(table, "smart", "mine")])
    line = line_of(figure, "mine")
    assert list(line.x) == [pytest.approx(0.55), pytest.approx(0.96)]
    assert list(line.y) == [1.0, 0.5]
    assert list(bars_of(figure).y) == [0, 0, 0, 0, 0, 1, 0, 0, 0, 2]


def test_band_goes_there_and_back(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    table = reliability(*drawn, 5)
    low, high = table.accuracy - 0.1, table.accuracy + 0.2
    figure = reliability_diagram([Curve(table, "vanilla", None, low, high)])
    (band,) = bands(figure)
    held = table.count > 0
    np.testing.assert_allclose(band.y, [*low[held], *high[held][::-1]])
    np.testing.assert_allclose(band.x, [*table.confidence[held], *table.confidence[held][::-1]])
    assert band.mode == "lines"


def test_no_band_where_none_is_given(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    figure = reliability_diagram([Curve(reliability(*drawn), "vanilla")])
    assert not bands(figure)


def test_several_curves_share_the_count_panel(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    confidence, correct = drawn
    curves = [Curve(reliability(confidence**power, correct), id) for power, id in ((1, "vanilla"), (1.5, "smart"))]
    figure = reliability_diagram(curves)
    outlines = [t for t in figure.data if t.yaxis == "y2"]
    assert [t.name for t in outlines] == ["Vanilla", "SMART"]
    assert all(t.type == "scatter" for t in outlines)
    named = [t.name for t in figure.data if t.showlegend is not False]
    assert named == ["perfectly calibrated", "Vanilla", "SMART"]


def test_adaptive_bins_are_drawn_with_their_own_widths(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    confidence, correct = drawn
    figure = reliability_diagram([Curve(reliability(confidence, correct, 6, adaptive=True), "vanilla")])
    bars = bars_of(figure)
    assert set(bars.y) == {500}
    left, right = bars.x - bars.width / 2, bars.x + bars.width / 2
    assert (left[1:] >= right[:-1]).all()
    assert left[0] >= confidence.min()
    assert right[-1] <= confidence.max()


@pytest.mark.parametrize("dark", [False, True])
def test_figure_is_complete_json_without_anything_from_outside(
    drawn: tuple[np.ndarray, np.ndarray], dark: bool
) -> None:
    text = reliability_diagram([Curve(reliability(*drawn))], dark=dark).to_json()
    assert "http" not in text
    assert "NaN" not in text


def test_no_curves_leave_the_diagonal() -> None:
    figure = reliability_diagram([])
    assert [t.name for t in figure.data] == ["perfectly calibrated"]
