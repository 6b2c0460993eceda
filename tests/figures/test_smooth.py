"""The smoothed reliability diagram against direct kernel sums; its gaps, band and alt text."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import trapezoid

from smart_core.figures.reliability import WIDEST, smooth_reliability
from smart_core.figures.theme import palette
from tests.figures.samples import NASTY, texts
from tests.metrics.samples import forecasts


def kernel_accuracy(t: np.ndarray, p: np.ndarray, a: np.ndarray, sigma: float) -> np.ndarray:
    """Accuracy at t by summing the Gaussian over p and its images in both mirrors."""
    weight = sum(np.exp(-0.5 * ((t[:, None] - image) / sigma) ** 2) for image in (p, -p, 2 - p))
    return (weight * a).sum(axis=1) / weight.sum(axis=1)


def line_of(chart, start: str):
    (found,) = [t for t in chart.figure.data if t.yaxis == "y" and t.name.startswith(start) and t.fill is None]
    return found


@pytest.mark.parametrize("shift", [-0.12, -0.03])
def test_line_is_the_kernel_average_at_the_width_of_the_error(shift: float) -> None:
    p, a = forecasts(2000, seed=1, shift=shift)
    chart = smooth_reliability({"ts": (p, a)})
    line = line_of(chart, "TS")
    sigma = chart.table["kernel width"].iloc[0]
    error = chart.table["SmoothECE"].iloc[0]
    assert sigma == min(error, WIDEST)
    # one sign throughout: the error is the mean residual
    assert error == pytest.approx(abs(np.mean(p - a)), abs=0.005)
    shown = np.isfinite(line.y)
    assert shown.sum() > 150
    expected = kernel_accuracy(np.asarray(line.x)[shown], p, a, sigma)
    np.testing.assert_allclose(np.asarray(line.y)[shown], expected, atol=2e-3)
    assert line.line.color == palette()["ts"].color
    assert line.name == f"TS: smECE {100 * error:.1f}%"


def test_the_curve_agrees_with_the_bins_where_the_error_is_large() -> None:
    """A fifth of the samples lies evenly below 90% and is right half of the time, the others above and mostly right."""
    rng = np.random.default_rng(4)
    p = np.concatenate([rng.uniform(0.3, 0.9, 1000), rng.uniform(0.97, 1.0, 4000)])
    a = rng.random(5000) < np.where(p < 0.9, 0.4, 0.8)
    chart = smooth_reliability({"vanilla": (p, a)})
    assert chart.table["SmoothECE"].iloc[0] > 0.15
    line = line_of(chart, "Vanilla")
    x, y = np.asarray(line.x), np.asarray(line.y, dtype=float)
    assert np.nanmax(np.abs(y[(x > 0.35) & (x < 0.75)] - 0.4)) < 0.15


def test_lower_panel_counts_samples() -> None:
    p, a = forecasts(4000, seed=2)
    chart = smooth_reliability({"vanilla": (p, a)})
    (density,) = [t for t in chart.figure.data if t.yaxis == "y2"]
    # samples per 0.01 of confidence, summed over the axis, are all samples
    assert trapezoid(density.customdata, density.x) * 100 == pytest.approx(4000, rel=0.01)


def test_the_curve_is_drawn_only_between_the_outermost_samples() -> None:
    rng = np.random.default_rng(3)
    p = 0.5 + 0.45 * rng.random(400)  # two classes: no confidence below 50%
    chart = smooth_reliability({"vanilla": (p, rng.random(400) < 0.6 * p)})
    line = line_of(chart, "Vanilla")
    seen = np.asarray(line.x)[np.isfinite(line.y)]
    assert chart.table["kernel width"].iloc[0] == WIDEST  # a wide kernel reaches beyond them
    assert p.min() <= seen.min() < p.min() + 0.01
    assert p.max() - 0.01 < seen.max() <= p.max()


def test_the_curve_has_gaps_where_there_are_no_samples() -> None:
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.uniform(0.3, 0.35, 300), rng.uniform(0.75, 0.8, 300)])
    chart = smooth_reliability({"vanilla": (p, rng.random(600) < p)})
    line = line_of(chart, "Vanilla")
    seen = np.asarray(line.x)[np.isfinite(line.y)]
    assert seen.min() > 0.2
    assert seen.max() < 0.95
    assert not ((seen > 0.45) & (seen < 0.65)).any()
    (band,) = [t for t in chart.figure.data if t.fill == "toself"]
    assert np.isnan(np.asarray(band.x, dtype=float)).sum() == 1  # two stretches


def test_band_is_drawn_for_one_curve_only_unless_asked_for() -> None:
    pair = forecasts(500)
    two = {"vanilla": pair, "smart": pair}
    assert not [t for t in smooth_reliability(two).figure.data if t.fill == "toself"]
    assert len([t for t in smooth_reliability(two, band=True).figure.data if t.fill == "toself"]) == 2
    alone = smooth_reliability({"vanilla": pair})
    (band,) = [t for t in alone.figure.data if t.fill == "toself"]
    line = line_of(alone, "Vanilla")
    half = len(band.x) // 2
    heights = dict(zip(line.x, line.y, strict=True))
    drawn = np.array([heights[x] for x in band.x[:half]])
    assert (np.asarray(band.y[:half]) <= drawn).all()
    assert (drawn <= np.asarray(band.y[half:])[::-1]).all()


def test_table_holds_what_is_drawn() -> None:
    chart = smooth_reliability({"vanilla": forecasts(300), "smart": forecasts(300, seed=1)})
    for id, label in (("vanilla", "Vanilla"), ("smart", "SMART")):
        rows = chart.table[chart.table["method"] == label]
        line = line_of(chart, palette()[id].label)
        np.testing.assert_array_equal(rows["confidence"], line.x)
        np.testing.assert_array_equal(rows["smoothed accuracy"], line.y)


def test_words_name_the_best_and_the_worst() -> None:
    good, bad = forecasts(3000), forecasts(3000, shift=-0.2)
    chart = smooth_reliability({"smart": bad, "ts": good})
    assert "smallest for TS" in chart.alt
    assert "largest for SMART (2" in chart.alt or "largest for SMART (1" in chart.alt
    alone = smooth_reliability({"smart": bad}, labels={"smart": "mine"})
    assert alone.alt.startswith("Smoothed reliability diagram of mine: SmoothECE ")


@pytest.mark.parametrize("pair", [([1.0], [1]), ([1.0], [0]), ([0.5, 0.5], [0, 1]), ([0.0, 1.0], [0, 1])])
def test_a_sample_or_two(pair: tuple[list[float], list[int]]) -> None:
    chart = smooth_reliability({"vanilla": pair})
    assert texts(chart.figure)
    assert np.isfinite(line_of(chart, "Vanilla").y).any()


@pytest.mark.parametrize("dark", [False, True])
def test_twenty_curves_with_odd_names_keep_their_legend(dark: bool) -> None:
    ids = [*palette(), "mine", "other", NASTY]
    chart = smooth_reliability({id: forecasts(200, seed) for seed, id in enumerate(ids)}, dark=dark)
    shown = [t.name for t in chart.figure.data if t.showlegend is not False]
    assert len(shown) == len(ids) + 1
    assert "<b>" not in texts(chart.figure)
    assert "&lt;b&gt;bold" in texts(chart.figure)
    assert chart.figure.layout.legend.title.text == "smECE"


def test_without_samples_only_the_diagonal_is_drawn() -> None:
    chart = smooth_reliability({})
    assert [t.name for t in chart.figure.data] == ["perfectly calibrated"]
    assert chart.table.empty
