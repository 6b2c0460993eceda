"""The chart of Venn-Abers' interval draws the steps of its table."""

from __future__ import annotations

import numpy as np

from smart_core.analysis.probability_interval import ProbabilityInterval
from smart_core.figures.probability_interval import probability_interval_plot
from smart_core.figures.theme import palette
from tests.figures.samples import named, texts

STEPS = ProbabilityInterval(
    np.array([0.5, 0.7, 0.9, 1.0]), np.array([0.1, 0.6, 0.8]), np.array([0.9, 0.7, 0.85]), np.array([0, 30, 30])
)


def test_the_band_and_the_line_are_the_steps() -> None:
    chart = probability_interval_plot(STEPS)
    (band,), (value,) = named(chart.figure, "p0 to p1"), named(chart.figure, "calibrated")
    assert band.fill == "tonexty"
    below = chart.figure.data[list(chart.figure.data).index(band) - 1]
    np.testing.assert_array_equal(band.x, [0.5, 0.7, 0.7, 0.9, 0.9, 1.0])
    np.testing.assert_array_equal(band.y, [0.9, 0.9, 0.7, 0.7, 0.85, 0.85])
    np.testing.assert_array_equal(below.y, [0.1, 0.1, 0.6, 0.6, 0.8, 0.8])
    np.testing.assert_allclose(value.y[::2], [0.9 / 1.8, 0.7 / 1.1, 0.85 / 1.05])
    assert value.line.color == palette()["vennabers"].color
    assert "<b>" not in texts(chart.figure)


def test_the_words_name_the_widest_step_that_holds_samples() -> None:
    chart = probability_interval_plot(STEPS, dark=True)
    alt = chart.alt.replace("\u00a0", " ")
    assert "7.5% wide on average over 60 samples" in alt
    assert "from 60.0% to 70.0%, at confidence 70.0% to 90.0%" in alt
    assert chart.table["samples"].tolist() == [0, 30, 30]
    np.testing.assert_allclose(chart.table["calibrated"], STEPS.value)
