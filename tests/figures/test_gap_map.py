"""The heat map of gaps against a pandas grouping of the samples."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta

from smart_core.analysis.margin_groups import margin_edges, samples_in
from smart_core.figures.margin_groups import gap_heatmap
from tests.figures.samples import evaluation_of, texts, too_sure


def by_pandas(judged, edges: np.ndarray, bins: int) -> pd.DataFrame:
    frame = pd.DataFrame({"p": judged.confidence, "a": judged.correct, "m": judged.margin})
    frame["group"] = pd.cut(frame["m"], edges, include_lowest=True, labels=False)
    frame["bin"] = pd.cut(frame["p"], np.linspace(0, 1, bins + 1), include_lowest=True, labels=False)
    found = frame.groupby(["group", "bin"]).agg(n=("p", "size"), p=("p", "mean"), a=("a", "mean"))
    return found.assign(gap=found["p"] - found["a"])


def test_colours_are_the_gaps_and_cells_within_noise_are_dimmed() -> None:
    judged, bins = too_sure(1500), 60
    edges = margin_edges(judged.margin, 4)
    expected = by_pandas(judged, edges, bins)
    full, dim = [t for t in gap_heatmap(judged, edges, bins).figure.data if t.type == "heatmap"]
    assert dim.opacity < 0.5 < full.opacity
    seen = 0
    for (group, column), cell in expected.iterrows():
        hits = cell["n"] * cell["a"]
        low, high = beta(hits + 0.5, cell["n"] - hits + 0.5).ppf([0.025, 0.975])
        layer, other = (dim, full) if low <= cell["p"] <= high else (full, dim)
        assert layer.z[group][column] == pytest.approx(cell["gap"])
        assert np.isnan(other.z[group][column])
        seen += 1
    assert np.isfinite(full.z).sum() + np.isfinite(dim.z).sum() == seen
    assert min(np.isfinite(full.z).sum(), np.isfinite(dim.z).sum()) > 0  # both cases are there


def test_a_selected_cell_gives_its_samples() -> None:
    judged, bins = too_sure(700, seed=3), 8
    edges = margin_edges(judged.margin, 3)
    chart = gap_heatmap(judged, edges, bins)
    (points,) = [t for t in chart.figure.data if t.name == "cells"]
    total = 0
    for x, y, data in zip(points.x, points.y, points.customdata, strict=True):
        group, column, count = int(data[0]), int(data[1]), int(data[2])
        assert y == group
        assert int(x * bins) == column
        assert samples_in(judged, edges, bins, group=group, confidence_bin=column).size == count
        total += count
    assert total == 700


def test_words_name_the_largest_gap_of_a_cell_with_enough_samples() -> None:
    # two of three samples are off by 0.28, which noise explains, and half of sixty by 0.3, which it does not
    judged = evaluation_of([0.95] * 3 + [0.8] * 60, [0, 1, 1] + [1, 0] * 30, [1.0] * 3 + [3.0] * 60)
    chart = gap_heatmap(judged, [0.0, 2.0, 4.0], 10)
    assert "1 cell within noise dimmed" in chart.alt
    assert "largest gap is at margin 2.0–4.0 and confidence 70.0% to 80.0%" in chart.alt
    assert "60 samples claim 80.0% and are right 50.0% of the time" in chart.alt
    assert list(chart.table["samples"]) == [3, 60]
    np.testing.assert_allclose(chart.table["gap"], [0.95 - 2 / 3, 0.3])


@pytest.mark.parametrize("dark", [False, True])
def test_scale_is_even_about_zero(dark: bool) -> None:
    chart = gap_heatmap(too_sure(400), [0, 2, 20], dark=dark)
    scale = chart.figure.layout.coloraxis
    assert scale.cmin == -scale.cmax
    assert scale.cmid == 0
    assert "nan" not in texts(chart.figure)


def test_a_single_sample_is_noise() -> None:
    chart = gap_heatmap(evaluation_of([0.9], [1], [0.0]), [0.0, 0.0])
    assert chart.alt.endswith("no cell is off beyond noise.")
    assert len(chart.table) == 1
