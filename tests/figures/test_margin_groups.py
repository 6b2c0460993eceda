"""The grid of margin groups, panel by panel."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta
from sklearn.calibration import calibration_curve

from smart_core.analysis.margin_groups import margin_edges
from smart_core.errors import CalibrationError
from smart_core.figures.margin_groups import margin_group_grid
from tests.figures.samples import NASTY, evaluation_of, texts, too_sure


def axis(number: int) -> str:
    return "x" if number == 0 else f"x{number + 1}"


def points(figure, number: int, name: str):
    """Confidence, accuracy and samples of every point of a panel, by rising confidence: on the line, and faded."""
    line, faded = [t for t in figure.data if t.xaxis == axis(number) and t.name == name]
    assert (line.mode, faded.mode, faded.marker.opacity) == ("lines+markers", "markers", 0.3)
    x, y = (np.concatenate([getattr(line, of), getattr(faded, of)]) for of in "xy")
    samples = np.concatenate([line.customdata[:, 0], faded.customdata[:, 0]])
    order = np.argsort(x)
    return x[order], y[order], samples[order]


def test_every_panel_equals_scikit_learns_curve_of_its_group() -> None:
    judged = too_sure(3000)
    edges = margin_edges(judged.margin, 5)
    figure = margin_group_grid(judged, None, edges, 10).figure
    for number in range(5):
        inside = (judged.margin > edges[number]) & (judged.margin <= edges[number + 1])
        inside |= (number == 0) & (judged.margin == edges[0])
        accuracy, mean = calibration_curve(judged.correct[inside], judged.confidence[inside], n_bins=10)
        x, y, samples = points(figure, number, "Vanilla")
        np.testing.assert_allclose(x, mean)
        np.testing.assert_allclose(y, accuracy)
        assert samples.sum() == inside.sum()


def test_panels_are_zoomed_to_their_lines_and_bands() -> None:
    """A bin of few samples is faded and does not widen the axes; both axes of a panel have the same range."""
    confidence = np.concatenate([np.full(3, 0.2), np.linspace(0.9, 0.95, 497), np.full(500, 0.999)])
    margin = np.repeat([2.0, 4.0], 500)
    correct = np.random.default_rng(0).random(1000) < confidence
    figure = margin_group_grid(evaluation_of(confidence, correct, margin), None, [1.0, 3.0, 5.0]).figure
    line, faded = [t for t in figure.data if t.xaxis == "x" and t.name == "Vanilla"]
    assert list(faded.x) == pytest.approx([0.2])
    assert len(line.x) == 2
    first, second = figure.layout.xaxis.range, figure.layout.xaxis2.range
    assert first[0] > 0.8
    assert second[0] > 0.97
    assert first == figure.layout.yaxis.range
    # a single point has error bars in the place of a band
    (alone, _) = [t for t in figure.data if t.xaxis == "x2" and t.name == "Vanilla"]
    low, high = beta(500 * alone.y[0] + 0.5, 500 * (1 - alone.y[0]) + 0.5).ppf([0.025, 0.975])
    np.testing.assert_allclose(
        [alone.error_y.arrayminus[0], alone.error_y.array[0]], [alone.y[0] - low, high - alone.y[0]]
    )
    assert [t.name for t in figure.data if t.xaxis == "x" and t.fill == "toself"] == ["Vanilla: 95% band"]


def test_before_and_after_share_panels_and_one_legend() -> None:
    judged = too_sure(600)
    after = evaluation_of(judged.confidence - 0.1, judged.correct, judged.margin)
    chart = margin_group_grid(judged, after, margin_edges(judged.margin, 4), methods=("vanilla", "ts"), columns=2)
    assert [t.name for t in chart.figure.data if t.showlegend is not False] == ["Vanilla", "TS"]
    assert {t.xaxis for t in chart.figure.data} == {axis(number) for number in range(4)}
    assert set(chart.table["method"]) == {"Vanilla", "TS"}
    assert len(chart.table) == 2 * 4 * 15


def test_titles_have_margins_samples_and_the_error_before_and_after() -> None:
    margin = np.repeat([2.0, 4.0], 50)
    before = evaluation_of(np.full(100, 0.8), np.repeat([0, 1], 50), margin)
    after = evaluation_of(np.repeat([0.1, 0.9], 50), np.repeat([0, 1], 50), margin)
    figure = margin_group_grid(before, after, [1.0, 3.0, 5.0], columns=2).figure
    assert [note.text for note in figure.layout.annotations] == [
        "<b>margin 1.0–3.0</b><br>n = 50<br>ECE 80.0 → 10.0%",
        "<b>margin 3.0–5.0</b><br>n = 50<br>ECE 20.0 → 10.0%",
    ]


def test_words_name_the_worst_group_of_each_side() -> None:
    margin = np.repeat([2.0, 4.0], 500)
    correct = np.concatenate([np.arange(500) % 2, np.arange(500) % 10 > 0])
    before = evaluation_of(np.repeat([0.8, 0.9], 500), correct, margin)
    after = evaluation_of(np.repeat([0.5, 0.9], 500), correct, margin)
    alt = margin_group_grid(before, after, [1.0, 3.0, 5.0]).alt
    assert "Vanilla: worst at margins 1.00–3.00, mean confidence 80%, accuracy 50% (ECE 30.0%)" in alt
    assert "SMART: no group is off beyond noise." in alt


def test_table_holds_the_points_drawn() -> None:
    judged = too_sure(400)
    chart = margin_group_grid(judged, None, margin_edges(judged.margin, 3))
    for number, (_, rows) in enumerate(chart.table.groupby("margin from")):
        held = rows[rows["samples"] > 0]
        x, y, _ = points(chart.figure, number, "Vanilla")
        np.testing.assert_array_equal(held["mean confidence"], x)
        np.testing.assert_array_equal(held["accuracy"], y)


@pytest.mark.parametrize(("groups", "columns", "dark"), [(1, 3, True), (7, 3, False), (5, 1, True), (30, 4, False)])
def test_any_number_of_panels_is_a_small_svg(groups: int, columns: int, dark: bool) -> None:
    judged = too_sure(300)
    chart = margin_group_grid(judged, judged, margin_edges(judged.margin, groups), columns=columns, dark=dark)
    assert {t.type for t in chart.figure.data} == {"scatter"}
    assert "nan" not in texts(chart.figure)
    # the lowest panel of every column names its axis
    named = sum(bool(chart.figure.layout[f"xaxis{n or ''}"].title.text) for n in ["", *range(2, groups + 1)])
    assert named == min(groups, columns)


def test_an_empty_group_and_a_single_sample() -> None:
    judged = evaluation_of([0.7], [1], [1.0])
    chart = margin_group_grid(judged, None, [0.0, 2.0, 4.0])
    assert [note.text for note in chart.figure.layout.annotations][1].endswith("n = 0")
    assert len(points(chart.figure, 1, "Vanilla")[0]) == 0


def test_names_are_plain_text() -> None:
    judged = too_sure(50)
    chart = margin_group_grid(judged, None, margin_edges(judged.margin, 2), labels=(NASTY, "b"))
    assert "<b>x" not in texts(chart.figure).replace("<b>margin", "")
    assert chart.table["method"].iloc[0] == NASTY


def test_too_many_groups_and_different_samples_are_errors() -> None:
    judged = too_sure(300)
    with pytest.raises(CalibrationError, match="31 margin groups are too many"):
        margin_group_grid(judged, None, margin_edges(judged.margin, 31))
    with pytest.raises(CalibrationError, match="they have 300 and 200"):
        margin_group_grid(judged, too_sure(200), margin_edges(judged.margin, 3))
