"""Objectives, indicators and data efficiency are drawn with the values of their tables."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import pytest

from smart_core.experiments import paper
from smart_core.experiments.results import SeedTable
from smart_core.figures.efficiency import efficiency_curves
from smart_core.figures.seed_tables import seed_table_heatmap
from smart_core.figures.theme import palette


def table(rows: tuple, columns: tuple, seeds: int = 3, kind: str = "objective") -> SeedTable:
    found = SeedTable.empty("method", kind, rows, columns, seeds, ("ece",))
    found.metrics["ece"][:] = np.random.default_rng(0).uniform(0.005, 0.05, (len(rows), len(columns), seeds))
    return found


def heat(figure: go.Figure) -> go.Heatmap:
    (found,) = [trace for trace in figure.data if trace.type == "heatmap"]
    return found


def lines(figure: go.Figure) -> dict[str, go.Scatter]:
    return {trace.name: trace for trace in figure.data if trace.mode == "lines+markers"}


def test_objectives_run_down_and_methods_across():
    made = table(("ts", "smart"), ("nll", "charbonnier", "mse"))
    chart = seed_table_heatmap(made)
    np.testing.assert_allclose(heat(chart.figure).z, made.metrics["ece"].mean(axis=2).T)
    assert list(chart.figure.layout.yaxis.ticktext) == ["NLL", "Charbonnier-SoftECE", "MSE"]
    assert list(chart.figure.layout.xaxis.ticktext) == ["TS", "SMART"]
    np.testing.assert_array_equal(chart.table["ECE"], np.ravel(heat(chart.figure).z))
    assert list(chart.table["method"]) == ["ts", "smart"] * 3
    assert chart.name == "objectives"


def test_alt_names_the_best_objective_of_each_method():
    made = table(("ts", "smart"), ("nll", "mse"))
    made.metrics["ece"][:] = np.array([[0.02, 0.03], [0.04, 0.01]])[:, :, None]
    alt = seed_table_heatmap(made).alt.replace("\u00a0", " ")
    assert "TS 2.00% with NLL and SMART 1.00% with MSE" in alt
    assert "chosen on test" in alt


def test_the_papers_tables():
    chart = seed_table_heatmap(paper.objectives("ResNet-50"), source="the paper")
    alt = chart.alt.replace("\u00a0", " ")
    assert "TS 2.04% with NLL, PTS 0.94% with Charbonnier-SoftECE and SMART 0.52% with Charbonnier-SoftECE" in alt
    indicators = seed_table_heatmap(paper.indicators())
    assert list(indicators.figure.layout.yaxis.ticktext)[-1] == "Margin"
    assert indicators.alt.count("with Margin") == 5


def test_cells_not_run_are_empty_and_counted():
    made = table(("ts", "smart"), ("margin", "entropy"), kind="indicator")
    made.metrics["ece"][0, 1] = np.nan
    chart = seed_table_heatmap(made)
    written = [note.text for note in chart.figure.layout.annotations]
    assert written[2] == "not yet"
    assert "1 of 4 cells have no value yet" in chart.alt
    made.metrics["ece"][:] = np.nan
    assert "no cell is computed yet" in seed_table_heatmap(made).alt


def test_one_column_is_drawn_as_dots_with_their_spread_and_the_noise_floor():
    made = table(("smart",), ("margin", "entropy", "confidence"), kind="indicator")
    made.metrics["ece"][0] = [[0.01, 0.02, 0.03], [0.01, 0.01, 0.01], [np.nan] * 3]
    figure = seed_table_heatmap(made, floor=0.015).figure
    (dots,) = [trace for trace in figure.data if trace.error_x.array is not None]
    np.testing.assert_allclose(dots.x, [0.02, 0.01])
    np.testing.assert_allclose(dots.error_x.array, [0.01, 0.0])
    assert list(dots.marker.symbol) == ["circle", "star"]
    assert list(figure.layout.yaxis.ticktext)[2] == "Confidence"
    assert (figure.layout.shapes[0].x0, figure.layout.shapes[0].x1) == (0.0, 0.015)


def test_colours_begin_at_the_noise_floor():
    """Differences below the floor have one colour; without it, an error begins at 0."""
    made = table(("ts", "smart"), ("margin", "entropy"), kind="indicator")
    made.metrics["ece"][:] = np.array([[0.004, 0.006], [0.008, 0.009]])[:, :, None]
    (heat,) = [trace for trace in seed_table_heatmap(made, floor=0.01).figure.data if trace.type == "heatmap"]
    assert (heat.zmin, heat.zmax) == (0.01, 0.02)
    (heat,) = [trace for trace in seed_table_heatmap(made).figure.data if trace.type == "heatmap"]
    assert (heat.zmin, heat.zmax) == (0.0, 0.009)


def test_names_are_escaped_in_the_figure_and_not_in_the_alt_text():
    made = table(("smart",), ("<script>x</script>", "b"))
    made.metrics["ece"][0, 0] = 0.0
    chart = seed_table_heatmap(made)
    assert "<script>" not in chart.figure.to_json().replace("\\u003c", "<")
    assert "<script>x</script>" in chart.alt


def sizes_table(rows: tuple = ("ts", "pts", "smart"), seeds: int = 3) -> SeedTable:
    return table(rows, (50, 500, 5000), seeds, "size")


def test_curves_are_means_against_size_on_a_log_axis():
    made = sizes_table()
    chart = efficiency_curves(made)
    assert chart.figure.layout.xaxis.type == "log"
    found = lines(chart.figure)
    assert list(found) == ["TS", "PTS", "SMART"]
    for i, name in enumerate(found):
        np.testing.assert_array_equal(found[name].x, [50, 500, 5000])
        np.testing.assert_allclose(found[name].y, made.metrics["ece"][i].mean(axis=1))
    assert found["SMART"].line.color == palette()["smart"].color
    bands = [trace for trace in chart.figure.data if trace.fill == "toself"]
    assert len(bands) == 3
    spread = made.metrics["ece"][0].std(axis=1, ddof=1)
    np.testing.assert_allclose(bands[0].y[3:][::-1], made.metrics["ece"][0].mean(axis=1) + spread)
    assert len(chart.table) == 9


def test_sizes_without_a_fit_are_left_out_and_counted():
    made = sizes_table()
    made.metrics["ece"][1, 0] = np.nan
    chart = efficiency_curves(made)
    assert list(lines(chart.figure)["PTS"].x) == [500, 5000]
    assert "1 of 9 points have no value" in chart.alt
    assert len(chart.table) == 8
    assert "NaN" not in chart.figure.to_json()


def test_the_floor_is_a_line_and_in_the_alt_text():
    chart = efficiency_curves(sizes_table(), floor=0.004)
    (floor,) = [trace for trace in chart.figure.data if trace.name.startswith("noise floor")]
    assert list(floor.y) == [0.004, 0.004]
    assert "the noise floor is 0.40" in chart.alt


def test_alt_names_the_best_at_both_ends():
    made = sizes_table(("ts", "smart"), 1)
    made.metrics["ece"][:, :, 0] = [[0.02, 0.02, 0.02], [0.04, 0.02, 0.01]]
    alt = efficiency_curves(made).alt.replace("\u00a0", " ")
    assert "at 50 the lowest is TS with 2.00%" in alt
    assert "at 5,000 the lowest is SMART with 1.00%" in alt


@pytest.mark.parametrize("rows", [("smart",), tuple(palette()), tuple(f"mine {n}" for n in range(20))])
@pytest.mark.parametrize("dark", [False, True])
def test_one_method_and_many(rows: tuple, dark: bool):
    chart = efficiency_curves(sizes_table(rows), dark=dark)
    assert len(lines(chart.figure)) == len(rows)
    assert bool([trace for trace in chart.figure.data if trace.fill]) == (len(rows) <= 6)


def test_a_single_size():
    made = table(("ts",), (200,), 1, "size")
    chart = efficiency_curves(made)
    assert list(lines(chart.figure)["TS"].x) == [200]
    assert "200 to 200" in chart.alt
