"""Temperature curves: lines, band, support and density come from the curve."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from smart_core.analysis.temperature_curve import Support, TemperatureCurve
from smart_core.errors import CalibrationError
from smart_core.figures.temperature import temperature_chart
from smart_core.figures.theme import DARK, LIGHT, SERIES, palette
from tests.figures.test_theme import contrast


def curve(seeds: int = 3, method: str = "smart", *, exact: bool = True, **changes: Any) -> TemperatureCurve:
    x = np.linspace(0.0, 10.0, 21)
    temperature = 1.0 + 0.2 * x + 0.1 * np.arange(seeds)[:, None]
    given: dict[str, Any] = {
        "method": method,
        "indicator": "margin",
        "x": x,
        "temperature": temperature,
        "exact": exact,
        "low": None if exact else temperature.min(axis=0) - 0.3,
        "high": None if exact else temperature.max(axis=0) + 0.3,
        "edges": np.linspace(0.0, 10.0, 6),
        "count": np.array([1, 4, 2, 2, 1]),
        "support": Support(1.0, 1.5, 7.5, 8.0),
        "outside": 2,
        "pearson": np.full(seeds, 0.94),
        "test_range": (1.4, 2.6),
    }
    return TemperatureCurve(**{**given, **changes})


def named(figure: go.Figure, start: str) -> list[Any]:
    return [trace for trace in figure.data if (trace.name or "").startswith(start)]


def test_mean_line_is_solid_where_validation_had_samples_and_dotted_beyond():
    found = curve()
    inside, beyond = named(temperature_chart({"set": found}).figure, "set, r")
    y = np.array(inside.y, dtype=float)
    known = (found.x >= 1.0) & (found.x <= 8.0)
    np.testing.assert_allclose(y[known], found.temperature.mean(axis=0)[known])
    assert np.isnan(y[~known]).all()
    outer = np.array(beyond.y, dtype=float)
    assert np.isfinite(outer[~known]).all()
    assert np.isnan(outer[known][1:-1]).all()  # but for the two ends, where the lines meet
    assert inside.line.color == palette()["smart"].color
    assert inside.name == "set, r = 0.94"


def test_the_band_spans_the_seeds_and_each_seed_is_a_line():
    found = curve()
    figure = temperature_chart({"set": found}).figure
    (band,) = named(figure, "range of 3 seeds")
    np.testing.assert_allclose(band.y[:21], found.temperature.min(axis=0))
    np.testing.assert_allclose(band.y[21:][::-1], found.temperature.max(axis=0))
    (seeds,) = named(figure, "each seed")
    assert np.isnan(seeds.y).sum() == 3
    assert not named(temperature_chart({"set": curve(1)}).figure, "range of")


def test_methods_that_use_more_than_the_indicator_have_a_band_over_samples():
    found = curve(method="pts", exact=False)
    (band,) = named(temperature_chart({"PTS": found}).figure, "80% of the samples")
    np.testing.assert_allclose(band.y[:21], found.low)
    np.testing.assert_allclose(band.y[21:][::-1], found.high)


def test_ranges_without_validation_samples_are_shaded():
    shapes = temperature_chart({"set": curve()}).figure.layout.shapes
    assert [(shape.x0, shape.x1) for shape in shapes] == [(0.0, 1.0), (8.0, 10.0), (1.0, 1.5), (7.5, 8.0)]
    both = temperature_chart({"a": curve(), "b": curve(support=Support(0.0, 0.1, 8.9, 9.0))}).figure.layout.shapes
    assert [(shape.x0, shape.x1) for shape in both] == [(9.0, 10.0)]
    assert temperature_chart({"set": curve(support=None)}).figure.layout.shapes == ()


def test_density_is_the_share_of_test_samples():
    figure = temperature_chart({"set": curve()}).figure
    (bars,) = [trace for trace in figure.data if trace.type == "bar"]
    np.testing.assert_allclose(bars.y, [0.1, 0.4, 0.2, 0.2, 0.1])
    outlines = named(temperature_chart({"a": curve(), "b": curve()}).figure, "a: test")
    np.testing.assert_allclose(outlines[0].y, np.repeat([0.1, 0.4, 0.2, 0.2, 0.1], 2))


def test_ts_is_a_dashed_line_for_all_or_for_each():
    (line,) = named(temperature_chart({"set": curve()}, 2.4975).figure, "TS")
    assert list(line.y) == [2.4975, 2.4975]
    assert line.line.dash != "solid"
    assert line.name == "TS, T = 2.50"
    two = temperature_chart({"a": curve(), "b": curve()}, {"b": 1.5})
    (line,) = named(two.figure, "TS")
    assert line.name == "TS on b, T = 1.50"
    assert "TS uses 1.50 for all samples of b" in two.alt


def test_alt_has_the_curve_r_and_samples_outside_the_validation_range():
    alt = temperature_chart({"set": curve()}).alt
    assert "set (SMART, 3 seeds): T is 1.30 at margin 1.00 and 2.70 at 8.00" in alt
    assert "lowest 1.30 at 1.00, highest 2.70 at 8.00" in alt
    assert "r = 0.94" in alt
    assert "2 test samples outside the validation range" in alt


def test_a_single_temperature_has_no_r():
    flat = curve(1, "ts", exact=False, pearson=np.array([np.nan]))
    chart = temperature_chart({"TS": flat})
    assert "the same for every sample" in chart.alt
    assert named(chart.figure, "TS, one T for all")
    assert "nan" not in chart.alt


def test_data_sets_and_methods_have_different_styles():
    sets = temperature_chart({name: curve() for name in "abcd"}).figure
    colors = {trace.line.color for name in "abcd" for trace in named(sets, f"{name}, r")}
    assert len(colors) == 4
    methods = temperature_chart({"SMART": curve(), "PTS": curve(method="pts", exact=False)}).figure
    assert named(methods, "PTS, r")[0].line.color == palette()["pts"].color


def test_temperatures_far_apart_are_drawn_on_a_log_axis():
    assert temperature_chart({"set": curve()}).figure.layout.yaxis.type != "log"
    wild = curve(temperature=np.exp(np.linspace(0.0, 9.0, 21))[None], pearson=np.array([0.5]))
    assert temperature_chart({"set": wild}).figure.layout.yaxis.type == "log"


def test_table_holds_what_is_drawn():
    found = curve()
    table = temperature_chart({"set": found}, 2.0).table
    mean = table[table["quantity"] == "T, mean over seeds"]
    np.testing.assert_array_equal(mean["margin"], found.x)
    np.testing.assert_allclose(mean["value"], found.temperature.mean(axis=0))
    for seed in range(3):
        np.testing.assert_array_equal(table[table["quantity"] == f"T, seed {seed}"]["value"], found.temperature[seed])
    shares = table[table["quantity"] == "share of test samples"]["value"]
    np.testing.assert_allclose(shares, [0.1, 0.4, 0.2, 0.2, 0.1])
    assert table[table["quantity"] == "T of TS"]["value"].item() == 2.0


def test_what_cannot_be_drawn_is_an_error():
    with pytest.raises(CalibrationError, match="5 curves"):
        temperature_chart({str(n): curve() for n in range(5)})
    with pytest.raises(CalibrationError, match="0 curves"):
        temperature_chart({})
    with pytest.raises(CalibrationError, match="different indicators"):
        temperature_chart({"a": curve(), "b": curve(indicator="entropy")})


@pytest.mark.parametrize("dark", [False, True])
def test_foreign_names_are_escaped(dark: bool):
    chart = temperature_chart({"<b>x</b>": curve()}, {"<b>x</b>": 2.0}, dark=dark)
    assert all("<b>" not in (trace.name or "") for trace in chart.figure.data)
    assert all("<b>" not in (trace.hovertemplate or "") for trace in chart.figure.data)
    assert "<b>x</b> (SMART" in chart.alt
    assert "NaN" not in chart.figure.to_json()


def test_styles_of_data_sets_have_contrast_and_differ_in_dash_and_symbol():
    assert all(contrast(look.color, shade.background) >= 3 for look in SERIES for shade in (LIGHT, DARK))
    for what in ("color", "dash", "symbol"):
        assert len({getattr(look, what) for look in SERIES}) == len(SERIES)
