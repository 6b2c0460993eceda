"""The leaderboard chart of constructed comparisons."""

from __future__ import annotations

import math
import re
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

from smart_core.experiments.compare import Comparison, MethodResult
from smart_core.figures.chart import Chart
from smart_core.figures.leaderboard import leaderboard_plot, row_images
from smart_core.figures.theme import palette, style
from smart_core.metrics import Floor, Interval
from tests.figures.samples import NASTY, named, texts


def row(
    id: str,
    values: list[float],
    ends: tuple[float, float] | None = None,
    floor: tuple[float, float] | None = None,
    metric: str = "ece",
) -> MethodResult:
    return MethodResult(
        id,
        available=True,
        values={metric: values},
        intervals={metric: Interval(*ends, 0.95, "of it")} if ends else {},
        floor={metric: Floor(*floor, 100)} if floor else {},
    )


def comparison(*rows: MethodResult, **fields: Any) -> Comparison:
    return Comparison(data=None, results={row.id: row for row in rows}, floor={}, **fields)  # type: ignore[arg-type]


@pytest.fixture
def three() -> Comparison:
    return comparison(
        row("vanilla", [0.05], (0.045, 0.056), (0.002, 0.004)),
        row("smart", [0.011, 0.009, 0.010], (0.006, 0.013), (0.005, 0.0105)),
        row("ts", [0.012], (0.007, 0.016), (0.004, 0.008)),
        MethodResult("fc", available=False, reason="needs features and head"),
        tied={"smart": True, "ts": True, "vanilla": False},
        best="smart",
    )


def order(chart: Chart) -> list[str]:
    return list(chart.figure.layout.yaxis.ticktext)


def marker(chart: Chart, id: str) -> Any:
    (found,) = named(chart.figure, style(id).label)
    return found


def test_rows_are_sorted_with_the_best_on_top(three: Comparison) -> None:
    chart = leaderboard_plot(three)
    assert order(chart) == ["<b>SMART</b>", "TS", "Vanilla"]
    bottom, top = chart.figure.layout.yaxis.range
    assert bottom > top  # row 0 is the uppermost
    for number, (id, value) in enumerate([("smart", 0.010), ("ts", 0.012), ("vanilla", 0.05)]):
        assert list(marker(chart, id).x) == [pytest.approx(value)]
        assert list(marker(chart, id).y) == [number]
        assert marker(chart, id).marker.color == palette()[id].color


def test_intervals_seeds_and_floors_come_from_the_rows(three: Comparison) -> None:
    chart = leaderboard_plot(three)
    assert [list(t.x) for t in named(chart.figure, "interval")] == [[0.006, 0.013], [0.007, 0.016], [0.045, 0.056]]
    (seeds,) = named(chart.figure, "seeds")
    assert sorted(zip(seeds.y, seeds.x, strict=True)) == [(0, 0.009), (0, 0.010), (0, 0.011)]
    (floor,) = named(chart.figure, "noise floor")
    left = pytest.approx(10 ** chart.figure.layout.xaxis.range[0])  # Vanilla makes the axis logarithmic
    ends = [(low, pytest.approx(low + width)) for low, width in zip(floor.base, floor.x, strict=True)]
    assert ends == [(left, 0.0105), (left, 0.008), (left, 0.004)]


def test_tied_methods_have_filled_markers_and_others_open_ones(three: Comparison) -> None:
    chart = leaderboard_plot(three)
    assert [marker(chart, id).marker.symbol for id in ("smart", "ts", "vanilla")] == ["circle", "circle", "circle-open"]
    assert named(chart.figure, "best or tied")


def test_ties_are_shown_only_for_the_primary_metric(three: Comparison) -> None:
    for id, value in (("vanilla", 0.9), ("smart", 0.95), ("ts", 0.93)):
        three.results[id].values["accuracy"] = [value]
    chart = leaderboard_plot(three, "accuracy")
    assert order(chart) == ["SMART", "TS", "Vanilla"]  # higher is better, and none is bold
    assert not named(chart.figure, "best or tied")
    assert "distinguished" not in chart.alt
    low, high = chart.figure.layout.xaxis.range
    assert 0.85 < low < 0.9
    assert 0.95 < high < 1


def test_words_and_table(three: Comparison) -> None:
    chart = leaderboard_plot(three)
    assert "SMART is best with 1.00%, Vanilla worst with 5.00%" in chart.alt
    assert "TS cannot be distinguished from SMART" in chart.alt
    assert "SMART within the noise floor" in chart.alt
    assert "Without a value: FC." in chart.alt
    table = chart.table.set_index("method")
    assert list(table.index) == ["SMART", "TS", "Vanilla"]
    assert table.loc["SMART", "ECE, measured"] == pytest.approx(0.010)
    assert table.loc["SMART", "spread over seeds (standard deviation)"] == pytest.approx(0.001)
    assert list(table["true, 95% high"]) == [0.013, 0.016, 0.056]
    assert list(table["tied with the best"]) == [True, True, False]


def test_a_method_far_worse_makes_the_axis_logarithmic() -> None:
    near = [
        row(id, [value], (value - 0.002, value + 0.002))
        for id, value in (("ts", 0.010), ("ets", 0.011), ("smart", 0.009), ("pts", 0.012))
    ]
    unsure = row("gc", [0.0105], (0.0, 0.013), (0.004, 0.008))
    chart = leaderboard_plot(comparison(*near, unsure, row("matrix", [0.31], (0.30, 0.32))))
    axis = chart.figure.layout.xaxis
    low, high = axis.range
    assert (axis.type, axis.title.text) == ("log", "ECE, logarithmic")
    # every value is drawn where it is, and the others take up a good part of the axis
    assert marker(chart, "matrix").x[0] == 0.31 < 10**high
    assert (np.log10(0.012) - np.log10(0.009)) / (high - low) > 0.05
    # a range that begins at 0 begins at the end of the axis
    assert min(trace.x[0] for trace in named(chart.figure, "interval")) == pytest.approx(10**low)
    (floor,) = named(chart.figure, "noise floor")
    assert [list(floor.base), list(floor.x)] == [[pytest.approx(10**low)], [pytest.approx(0.008 - 10**low)]]
    assert chart.table.set_index("method").loc["Matrix", "ECE, measured"] == 0.31
    assert "Matrix worst with 31.00%" in chart.alt


def test_images_of_rows_have_one_scale() -> None:
    rows = [row("ts", [0.01], (0.0, 0.02), (0.005, 0.01)), row("vanilla", [0.04], (0.03, 0.05)), row("pts", [0.02])]
    images = row_images({one.id: one for one in rows}, "ece")
    drawn = {id: unquote(image.removeprefix("data:image/svg+xml,")) for id, image in images.items()}
    places = {id: float(re.search(r'cx="([\d.]+)"', svg)[1]) for id, svg in drawn.items()}
    assert places["vanilla"] - places["pts"] == pytest.approx(2 * (places["pts"] - places["ts"]), abs=0.3)
    assert [svg.count("<rect") for svg in drawn.values()] == [2, 1, 0]  # floor and range, range alone, neither
    assert row_images({"fc": MethodResult("fc", available=False)}, "ece") == {}


def test_rows_without_interval_floor_or_value() -> None:
    chart = leaderboard_plot(
        comparison(row("ts", [0.02, math.nan]), row("pts", [math.nan]), row("smart", [0.01], (0.005, 0.02)))
    )
    assert order(chart) == ["SMART", "TS"]
    assert list(marker(chart, "ts").x) == [0.02]
    assert len(named(chart.figure, "interval")) == 1
    assert "Without a value: PTS." in chart.alt
    assert "nan" not in texts(chart.figure)


@pytest.mark.parametrize("dark", [False, True])
def test_many_rows_and_odd_names(dark: bool) -> None:
    ids = [*palette(), "mine", "other", NASTY]
    chart = leaderboard_plot(comparison(*(row(id, [0.01 + i / 1000]) for i, id in enumerate(ids))), dark=dark)
    assert len(order(chart)) == len(ids)
    assert "&lt;b&gt;bold" in order(chart)[-1]
    assert "<b>bold" not in texts(chart.figure)
    assert chart.figure.layout.height > 20 * 25
    assert style(NASTY).label == chart.table["method"].iloc[-1]


def test_one_row_and_none() -> None:
    one = leaderboard_plot(comparison(row("ts", [0.0], (0.0, 0.0))))
    assert np.isfinite(one.figure.layout.xaxis.range).all()
    low, high = one.figure.layout.xaxis.range
    assert low < high
    none = leaderboard_plot(comparison(MethodResult("fc", available=False, reason="needs features")))
    assert none.table.empty
    assert none.alt == "Leaderboard by ECE without any finished method."
