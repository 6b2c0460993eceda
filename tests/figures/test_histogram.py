"""Histograms against NumPy's own, with every sample in one bar."""

from __future__ import annotations

import numpy as np
import pytest

from smart_core.evaluation import Evaluation
from smart_core.figures.chart import Chart
from smart_core.figures.histogram import confidence_histogram, margin_histogram
from tests.figures.samples import evaluation_of, named, texts, too_sure


def bars(chart: Chart, name: str) -> np.ndarray:
    (found,) = [t for t in named(chart.figure, name) if t.type == "bar"]
    return np.asarray(found.y)


def test_confidence_counts_equal_numpys_and_are_stacked() -> None:
    judged = too_sure(2000)
    chart = confidence_histogram(judged, bins=10)
    for name, kind in (("right", True), ("wrong", False)):
        expected = np.histogram(judged.confidence[judged.correct == kind], 10, (0, 1))[0]
        np.testing.assert_array_equal(bars(chart, name), expected)
        np.testing.assert_array_equal(chart.table[name], expected)
    assert chart.figure.layout.barmode == "stack"
    assert [t.name for t in chart.figure.data if t.type == "bar"] == ["wrong", "right"]


def test_both_means_are_lines_and_in_the_alt_text() -> None:
    chart = confidence_histogram(evaluation_of([0.9] * 8 + [0.6] * 2, [1] * 7 + [0] * 3))
    lines = {t.name: list(t.x) for t in chart.figure.data if t.type == "scatter"}
    assert lines == {
        "mean confidence": [pytest.approx(0.84)] * 2,
        "accuracy": [pytest.approx(0.7)] * 2,
    }
    assert "84.0% lies above the accuracy of 70.0%" in chart.alt
    timid = confidence_histogram(evaluation_of([0.5] * 4, [1] * 4))
    assert "lies below" in timid.alt


def test_margin_counts_equal_numpys() -> None:
    judged = too_sure(2000)
    chart = margin_histogram(judged, bins=25)
    top = judged.margin.max()
    for name, kind in (("right", True), ("wrong", False)):
        expected = np.histogram(judged.margin[judged.correct == kind], 25, (0, top))[0]
        np.testing.assert_array_equal(bars(chart, name), expected)
    assert chart.table["margin to"].iloc[-1] == pytest.approx(top)
    right, wrong = np.median(judged.margin[judged.correct]), np.median(judged.margin[~judged.correct])
    assert f"is {right:.3g} where the prediction is right and {wrong:.3g} where it is wrong" in chart.alt


def test_the_last_bar_holds_margins_far_beyond_the_others() -> None:
    margin = np.append(np.linspace(0, 10, 999), 1e30)
    chart = margin_histogram(evaluation_of(np.full(1000, 0.5), np.ones(1000), margin), bins=20)
    counts = bars(chart, "right")
    assert counts.sum() == 1000
    assert (counts > 0).sum() > 10
    assert "up to 1e+30" in chart.alt
    assert chart.table["margin to"].iloc[-1] == 1e30


@pytest.mark.parametrize("draw", [confidence_histogram, margin_histogram])
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(
    "judged",
    [
        evaluation_of([1.0], [1], [0.0]),
        evaluation_of([0.0], [0], [3.0]),
        evaluation_of([0.2, 0.2], [1, 0], [np.inf, 1.0]),
        evaluation_of(np.float32([0.25, 1.0]), [True, True], np.float32([1, 2])),
    ],
    ids=["one right", "one wrong", "infinite margin", "no wrong"],
)
def test_edges(draw, dark: bool, judged: Evaluation) -> None:
    chart = draw(judged, dark=dark)
    assert bars(chart, "right").sum() == judged.correct.sum()
    assert bars(chart, "wrong").sum() == (~judged.correct).sum()
    assert texts(chart.figure)
    assert "nan" not in chart.alt
