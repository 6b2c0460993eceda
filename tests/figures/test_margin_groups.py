"""The grid of margin groups, panel by panel."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import calibration_curve

from smart_core.analysis.margin_groups import margin_edges
from smart_core.errors import CalibrationError
from smart_core.figures.margin_groups import margin_group_grid
from tests.figures.samples import NASTY, evaluation_of, texts, too_sure


def axis(number: int) -> str:
    return "x" if number == 0 else f"x{number + 1}"


def panel(figure, number: int, name: str, type: str = "scatter"):
    (found,) = [t for t in figure.data if t.xaxis == axis(number) and t.name == name and t.type == type]
    return found


def test_every_panel_equals_scikit_learns_curve_of_its_group() -> None:
    judged = too_sure(3000)
    edges = margin_edges(judged.margin, 5)
    figure = margin_group_grid(judged, None, edges, 10).figure
    for number in range(5):
        inside = (judged.margin > edges[number]) & (judged.margin <= edges[number + 1])
        inside |= (number == 0) & (judged.margin == edges[0])
        accuracy, mean = calibration_curve(judged.correct[inside], judged.confidence[inside], n_bins=10)
        line = panel(figure, number, "Vanilla")
        np.testing.assert_allclose(line.x, mean)
        np.testing.assert_allclose(line.y, accuracy)
        bars = panel(figure, number, "Vanilla: share of samples", "bar")
        assert sum(bars.y) == pytest.approx(1)
        assert sum(bars.customdata) == inside.sum()


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
        "margin 1.0–3.0, n = 50<br>ECE 80.0 → 10.0\u00a0%",
        "margin 3.0–5.0, n = 50<br>ECE 20.0 → 10.0\u00a0%",
    ]


def test_words_name_the_worst_group_of_each_side() -> None:
    margin = np.repeat([2.0, 4.0], 500)
    correct = np.concatenate([np.arange(500) % 2, np.arange(500) % 10 > 0])
    before = evaluation_of(np.repeat([0.8, 0.9], 500), correct, margin)
    after = evaluation_of(np.repeat([0.5, 0.9], 500), correct, margin)
    alt = margin_group_grid(before, after, [1.0, 3.0, 5.0]).alt
    assert "Vanilla: worst at margins 1.00 to 3.00: claims 80 %, right 50 % (ECE 30.0\u00a0%)" in alt
    assert "SMART: no group is off beyond noise." in alt


def test_table_holds_the_points_drawn() -> None:
    judged = too_sure(400)
    chart = margin_group_grid(judged, None, margin_edges(judged.margin, 3))
    for number, (_, rows) in enumerate(chart.table.groupby("margin from")):
        held = rows[rows["samples"] > 0]
        line = panel(chart.figure, number, "Vanilla")
        np.testing.assert_array_equal(held["mean confidence"], line.x)
        np.testing.assert_array_equal(held["accuracy"], line.y)


@pytest.mark.parametrize(("groups", "columns", "dark"), [(1, 3, True), (7, 3, False), (5, 1, True), (30, 4, False)])
def test_any_number_of_panels_is_a_small_svg(groups: int, columns: int, dark: bool) -> None:
    judged = too_sure(300)
    chart = margin_group_grid(judged, judged, margin_edges(judged.margin, groups), columns=columns, dark=dark)
    assert {t.type for t in chart.figure.data} == {"bar", "scatter"}
    assert "nan" not in texts(chart.figure)
    # the lowest panel of every column shows its axis
    shown = sum(bool(chart.figure.layout[f"xaxis{n or ''}"].showticklabels) for n in ["", *range(2, groups + 1)])
    assert shown == min(groups, columns)


def test_an_empty_group_and_a_single_sample() -> None:
    judged = evaluation_of([0.7], [1], [1.0])
    chart = margin_group_grid(judged, None, [0.0, 2.0, 4.0])
    assert [note.text for note in chart.figure.layout.annotations][1].endswith("n = 0")
    assert len(panel(chart.figure, 1, "Vanilla").x) == 0


def test_names_are_plain_text() -> None:
    judged = too_sure(50)
    chart = margin_group_grid(judged, None, margin_edges(judged.margin, 2), labels=(NASTY, "b"))
    assert "<b>" not in texts(chart.figure)
    assert chart.table["method"].iloc[0] == NASTY


def test_too_many_groups_and_different_samples_are_errors() -> None:
    judged = too_sure(300)
    with pytest.raises(CalibrationError, match="31 margin groups are too many"):
        margin_group_grid(judged, None, margin_edges(judged.margin, 31))
    with pytest.raises(CalibrationError, match="they have 300 and 200"):
        margin_group_grid(judged, too_sure(200), margin_edges(judged.margin, 3))
