"""Cells of tables over seeds: statistics against NumPy, and text with contrast on every colour."""

from __future__ import annotations

import numpy as np
import pytest

from smart_core.experiments.results import OverSeeds
from smart_core.figures.seed_tables import best_cell, cell_inks, cell_text, cell_words
from smart_core.figures.theme import ink, sequential
from tests.figures.test_theme import contrast


def test_mean_and_std_over_seeds_equal_numpys():
    rng = np.random.default_rng(0)
    values = rng.random((3, 4, 5))
    values[0, 0, 2:] = np.nan
    values[1, 1, 1:] = np.nan
    values[2, 2] = np.nan
    cells = OverSeeds.of(values)
    assert cells.seeds[0, 0] == 2
    assert cells.mean[0, 0] == pytest.approx(values[0, 0, :2].mean())
    assert cells.std[0, 0] == pytest.approx(values[0, 0, :2].std(ddof=1))
    assert cells.mean[1, 1] == values[1, 1, 0]
    assert np.isnan(cells.std[1, 1])
    assert np.isnan(cells.mean[2, 2])
    assert cells.seeds[2, 2] == 0
    np.testing.assert_allclose(cells.mean[1, 2:], values[1, 2:].mean(axis=1))
    assert cells.published_std[1, 1] == 0.0
    assert np.isnan(cells.published_std[2, 2])
    assert OverSeeds.of([0.1, 0.1, 0.1]).std == 0.0


def test_a_cells_text_has_a_spread_only_for_several_seeds():
    cells = OverSeeds.of(np.array([[[0.0061, 0.0063], [0.02, np.nan], [np.nan, np.nan]]]))
    assert [cell_text(cells, "ece", (0, j)) for j in range(3)] == ["0.62<br>±0.01", "2.00", ""]
    assert cell_words(cells, "ece", (0, 0)) == "ECE 0.62% ± 0.01% over 2 seeds"
    assert cell_words(cells, "ece", (0, 1)) == "ECE 2.00%"


@pytest.mark.parametrize(("metric", "place"), [("ece", (1, 0)), ("accuracy", (0, 1))])
def test_best_cell_ignores_empty_ones(metric: str, place: tuple[int, int]):
    values = np.array([[np.nan, 3.0], [1.0, 2.0]])
    assert best_cell(values, metric) == place
    assert best_cell(-values, metric, worst=True) == place
    assert best_cell(np.full((2, 2), np.nan), metric) is None


@pytest.mark.parametrize("dark", [False, True])
def test_numbers_can_be_read_on_every_colour(dark: bool):
    stops = sequential(dark)
    places = np.linspace(0.0, 1.0, 41)
    inks = cell_inks(places.reshape(1, -1), dark)
    for place, text in zip(places, inks, strict=True):
        mixed = [
            np.interp(place, [at for at, _ in stops], [int(c[k : k + 2], 16) for _, c in stops]) for k in (1, 3, 5)
        ]
        colour = "#" + "".join(f"{round(level):02X}" for level in mixed)
        assert contrast(text, colour) >= 4.4, (place, colour)


def test_inks_of_empty_and_equal_cells():
    assert cell_inks(np.array([[np.nan, np.nan]]), False) == [ink(False).quiet] * 2
    assert len(set(cell_inks(np.full((2, 3), 0.4), True))) == 1
