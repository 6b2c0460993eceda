"""The sensitivity grid: cells, marks and alt text, for computed results and the paper's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from smart_core.experiments import paper
from smart_core.experiments.sensitivity import Sensitivity
from smart_core.figures.seed_tables import sensitivity_heatmap


def made(seeds: int = 2) -> Sensitivity:
    """A study under way."""
    values = np.array([[0.03, 0.02, 0.05], [0.01, 0.04, np.nan]])[:, :, None] + 0.001 * np.arange(seeds)
    return Sensitivity("sigma", "delta", (0.01, 0.05), (0.001, 0.01, 0.1), {"ece": values, "accuracy": 1.0 - values})


def heat(figure: go.Figure) -> go.Heatmap:
    (found,) = [trace for trace in figure.data if trace.type == "heatmap"]
    return found


def texts(figure: go.Figure) -> np.ndarray:
    """What is written in the cells, (rows, columns)."""
    found = np.empty(np.shape(heat(figure).z), dtype=object)
    for note in figure.layout.annotations:
        found[note.y, note.x] = note.text
    return found


def test_cells_have_the_means_as_colour_and_text():
    chart = sensitivity_heatmap(made())
    np.testing.assert_allclose(heat(chart.figure).z, [[0.0305, 0.0205, 0.0505], [0.0105, 0.0405, np.nan]])
    assert texts(chart.figure).tolist() == [
        ["3.05<br>±0.07", "2.05<br>±0.07", "5.05<br>±0.07"],
        ["★ 1.05<br>±0.07", "4.05<br>±0.07", "not yet"],
    ]
    assert list(chart.figure.layout.yaxis.ticktext) == ["0.01", "0.05"]
    assert list(chart.figure.layout.xaxis.ticktext) == ["0.001", "0.01", "0.1"]
    low, high = chart.figure.layout.yaxis.range
    assert low > high  # the first sigma is on top, as in the paper's table


def test_every_cell_can_be_selected_and_has_hover_text():
    (cells,) = [trace for trace in sensitivity_heatmap(made()).figure.data if trace.name == "cells"]
    assert list(zip(cells.y, cells.x, strict=True)) == [(i, j) for i in range(2) for j in range(3)]
    assert cells.customdata[1].replace("\u00a0", " ") == "σ = 0.01, δ = 0.01<br>ECE 2.05% ± 0.07% over 2 seeds"
    assert cells.customdata[5] == "σ = 0.05, δ = 0.1<br>no value yet"


def test_one_seed_has_no_spread():
    assert texts(sensitivity_heatmap(made(1)).figure)[0, 0] == "3.00"


def test_the_papers_default_is_framed_if_the_grid_has_it():
    (frame,) = sensitivity_heatmap(made()).figure.layout.shapes
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (-0.5, 0.5, 0.5, 1.5)
    assert sensitivity_heatmap(made(), paper_default=None).figure.layout.shapes == ()
    other = replace(made(), rows=(0.02, 0.03))
    assert sensitivity_heatmap(other).figure.layout.shapes == ()


def test_alt_names_best_worst_default_and_missing_cells():
    alt = sensitivity_heatmap(made()).alt.replace("\u00a0", " ")
    assert "lowest 1.05% at sigma 0.05, delta 0.001" in alt
    assert "highest 5.05% at sigma 0.01, delta 0.1" in alt
    assert "the paper's default has 1.05%" in alt
    assert "chosen on test" in alt
    assert "1 of 6 cells are not computed yet" in alt
    other = sensitivity_heatmap(made(), "accuracy").alt.replace("\u00a0", " ")
    assert "highest 98.95% at sigma 0.05, delta 0.001, lowest 94.95% at sigma 0.01, delta 0.1" in other


def test_nothing_computed_yet():
    empty = Sensitivity.empty("sigma", "delta", (0.01, 0.05), (0.001, 0.01, 0.1), 2)
    chart = sensitivity_heatmap(empty)
    assert set(texts(chart.figure).ravel()) == {"not yet"}
    assert chart.alt.endswith("no cell is computed yet.")
    assert "NaN" not in chart.figure.to_json()


def test_table_is_what_is_drawn():
    chart = sensitivity_heatmap(made())
    drawn = np.ravel(heat(chart.figure).z)
    np.testing.assert_array_equal(chart.table["ECE"], drawn)
    assert list(chart.table["sigma"]) == [0.01] * 3 + [0.05] * 3
    assert list(chart.table["seeds"]) == [2, 2, 2, 2, 2, 0]


@pytest.mark.parametrize("dark", [False, True])
def test_the_papers_own_grid(dark: bool):
    chart = sensitivity_heatmap(paper.sensitivity_grid(), source="the <paper>", dark=dark)
    assert texts(chart.figure)[2].tolist() == ["0.66", "3.11", "0.71", "0.72"]
    assert texts(chart.figure)[1, 0] == "★ 0.61"
    alt = chart.alt.replace("\u00a0", " ")
    assert "(the <paper>): lowest 0.61% at sigma 0.05, delta 0.001, highest 3.11% at sigma 0.1, delta 0.01" in alt


def test_our_own_result_is_drawn():
    import smart_core as sc
    from tests.calibrators.problems import over_confident

    problem = over_confident(200, 4, seed=1)
    part = sc.Part(problem.logits, problem.labels)
    result = sc.sensitivity(sc.LogitSet("made", part, part), [0.05], [0.001, 0.1], 2, settings={"epochs": 3})
    chart = sensitivity_heatmap(result)
    np.testing.assert_allclose(heat(chart.figure).z, result.mean())
    np.testing.assert_allclose(chart.table["ECE std over seeds"], result.std().ravel())
