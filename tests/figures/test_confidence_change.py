"""The change of confidence along the margin, for constructed changes."""

from __future__ import annotations

import numpy as np
import pytest

from smart_core.analysis.margin_groups import ConfidenceChange
from smart_core.figures.confidence_change import confidence_change_plot
from smart_core.figures.theme import palette
from tests.figures.samples import NASTY, named, texts


def change(after: list[float], before: float = 0.9, needed: float = -0.2) -> ConfidenceChange:
    places = np.arange(1.0, len(after) + 1)
    even = np.full(len(after), before)
    return ConfidenceChange(
        places, places - 0.5, places + 0.5, np.full(len(after), 10), even, np.array(after), even * 0 + needed
    )


def test_one_line_per_method_and_one_for_the_needed_change() -> None:
    figure = confidence_change_plot({"ts": change([0.8, 0.85]), "smart": change([0.7, 0.95])}).figure
    (needed,), (ts,), (smart,) = (named(figure, name) for name in ("needed", "TS", "SMART"))
    np.testing.assert_allclose(needed.y, [-0.2, -0.2])
    np.testing.assert_allclose(ts.y, [-0.1, -0.05])
    np.testing.assert_allclose(smart.y, [-0.2, 0.05])
    assert list(ts.x) == [1, 2]
    assert smart.line.color == palette()["smart"].color


def test_alt_names_the_largest_changes_and_the_closest_method() -> None:
    alt = confidence_change_plot({"ts": change([0.8, 0.85]), "smart": change([0.7, 0.95])}).alt
    assert "SMART lowers it most, by 20.0 percentage points at margin 1." in alt
    assert "SMART raises it most, by 5.0 percentage points at margin 2." in alt
    # TS misses by 0.1 and 0.15, SMART by 0 and 0.25: both 12.5% on average; the first is named
    assert "TS, off by 12.5 percentage points on average" in alt


def test_table_holds_the_lines() -> None:
    chart = confidence_change_plot({"pts": change([0.5, 0.6, 0.7])}, labels={"pts": NASTY})
    np.testing.assert_allclose(chart.table["change"], [-0.4, -0.3, -0.2])
    assert set(chart.table["method"]) == {NASTY}
    assert "<b>" not in texts(chart.figure)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("ids", [[], ["ts"], [*palette(), "mine", "other", "more"]])
def test_no_one_and_twenty_methods(ids: list[str], dark: bool) -> None:
    chart = confidence_change_plot({id: change([0.9]) for id in ids}, dark=dark)
    assert len(chart.figure.data) == len(ids) + bool(ids)
    assert "nan" not in texts(chart.figure)
    assert "lowers" not in chart.alt
