"""The scatter plot of distances: every known sample once, missing ones counted, the alt text."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import pytest

import smart_core as sc
from smart_core.analysis.hardness import Hardness, hardness
from smart_core.figures.hardness import hardness_scatter
from smart_core.figures.theme import RIGHT, WRONG


def made(n: int = 100, missing: int = 7, attacked: bool = False) -> Hardness:
    rng = np.random.default_rng(n)
    logits = np.zeros((n, 3), dtype=np.float32)
    logits[:, 0] = rng.gamma(3.0, 1.0, n)
    distance = 0.1 * logits[:, 0] + 0.05 + 0.02 * rng.random(n)
    distance[:missing] = np.nan
    part = sc.Part(logits, (rng.random(n) < 0.3).astype(int), cw_l2=distance)
    return hardness(part, attacked=np.ones(n, bool) if attacked else None, resamples=20)


def points(figure: go.Figure, label: str) -> list[go.Scatter]:
    return [
        trace
        for trace in figure.data
        if trace.type != "heatmap" and trace.mode == "markers" and (trace.name or "").startswith(label)
    ]


def test_right_and_wrong_are_drawn_apart():
    result = made()
    figure = hardness_scatter(result).figure
    for label, look, which in (("right", RIGHT, result.correct), ("wrong", WRONG, ~result.correct)):
        (trace,) = points(figure, label)
        np.testing.assert_array_equal(trace.x, result.value[which])
        np.testing.assert_array_equal(trace.y, result.distance[which])
        np.testing.assert_array_equal(trace.customdata, np.arange(7, 100)[which])
        assert (trace.marker.color, trace.marker.symbol) == (look.color, look.symbol)
        assert trace.type == "scatter"
        assert trace.name == f"{label} ({which.sum()})"
    assert RIGHT.symbol != WRONG.symbol


def test_samples_without_a_distance_are_in_the_legend_and_not_drawn():
    figure = hardness_scatter(made(attacked=True)).figure
    drawn = np.concatenate([trace.y for label in ("right", "wrong") for trace in points(figure, label)])
    assert len(drawn) == 93
    assert drawn.min() > 0.0
    (said,) = points(figure, "not drawn: 7 attacks failed")
    assert said.x == (None,)
    assert "Not drawn: 7 attacks failed." in hardness_scatter(made(attacked=True)).alt
    assert not points(hardness_scatter(made(missing=0)).figure, "not drawn")


def test_alt_has_both_correlations_with_their_intervals():
    result = made()
    found = result.correlation
    alt = hardness_scatter(result).alt
    assert f"r = {found.pearson:.2f} (95% interval {found.pearson_low:.2f} to {found.pearson_high:.2f})" in alt
    assert f"Spearman's {found.spearman:.2f}" in alt
    assert "of 93 samples" in alt


@pytest.mark.parametrize("dark", [False, True])
def test_trend_is_medians_and_can_be_left_out(dark: bool):
    result = made(missing=0)
    figure = hardness_scatter(result, trend_bins=5, dark=dark).figure
    (line,) = [trace for trace in figure.data if trace.name == "median and quartiles"]
    groups = np.split(np.argsort(result.value), 5)
    np.testing.assert_allclose(line.y, [np.median(result.distance[rows]) for rows in groups])
    assert not [trace for trace in hardness_scatter(result, trend_bins=None).figure.data if trace.mode == "lines"]


def test_many_points_use_webgl_and_too_many_a_density():
    many = hardness_scatter(made(2500, 0)).figure
    assert {trace.type for trace in points(many, "right")} == {"scattergl"}
    result = made(20_100, 0)
    chart = hardness_scatter(result)
    (density,) = [trace for trace in chart.figure.data if trace.type == "heatmap"]
    assert np.asarray(density.customdata).sum() == 20_100
    drawn = [trace for label in ("right", "wrong") for trace in points(chart.figure, label)]
    assert sum(len(trace.x) for trace in drawn) == 2000 == len(chart.table)
    assert {trace.type for trace in drawn} == {"scatter"}
    assert "density with 2,000 samples as points" in chart.alt
    assert sum(int(trace.name.split("(")[1][:-1].replace(",", "")) for trace in drawn) == 20_100


def test_table_is_what_is_drawn():
    result = made()
    table = hardness_scatter(result).table
    np.testing.assert_array_equal(table["row"], result.index)
    np.testing.assert_array_equal(table["C&W L2 distance"], result.distance)
    np.testing.assert_array_equal(table["right"], result.correct)


def test_one_sample():
    chart = hardness_scatter(made(1, 0))
    assert "too few" in chart.alt
    assert "nan" not in chart.alt
