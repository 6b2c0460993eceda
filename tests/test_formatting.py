"""Numbers in words."""

from __future__ import annotations

import pytest

from smart_core.evaluation import metric_label, metric_number, metric_range, metric_value
from smart_core.formatting import duration, join_words, percent, plural, shorten


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.0435, "4.3 %"), (0.0061, "0.61 %"), (0, "0.0 %"), (1, "100.0 %"), (-0.2, "-20.0 %"), (float("nan"), "–")],
)
def test_percent(value: float, words: str) -> None:
    assert percent(value).replace("\u00a0", " ") == words


def test_lists_counts_and_durations() -> None:
    lists = ([], ["a"], ["a", "b"], ["a", "b", "c"])
    assert [join_words(items) for items in lists] == ["", "a", "a and b", "a, b and c"]
    assert [plural(n, "sample") for n in (0, 1, 2000)] == ["0 samples", "1 sample", "2,000 samples"]
    assert [plural(2, noun) for noun in ("class", "study")] == ["2 classes", "2 studies"]
    spoken = [duration(seconds).replace("\u00a0", " ") for seconds in (0.44, 4.2, 60, 130)]
    assert spoken == ["0.4 s", "4 s", "1 min", "2 min 10 s"]
    assert shorten("two\nlines " + "x" * 50, 12) == "two lines x…"


@pytest.mark.parametrize(
    ("metric", "value", "number", "words", "label"),
    [("ece", 0.00614, "0.61", "0.61 %", "ECE, %"), ("nll", 0.20381, "0.2038", "0.2038", "NLL")],
)
def test_a_metric_has_one_form(metric: str, value: float, number: str, words: str, label: str) -> None:
    assert metric_number(metric, value) == number
    assert metric_value(metric, value).replace("\u00a0", " ") == words
    assert metric_label(metric) == label
    assert metric_range(metric, value, value) == f"{number} – {number}"
    assert (metric_number(metric, float("nan")), metric_value(metric, float("nan"))) == ("", "–")
    assert metric_range(metric, float("nan"), value) == "–"
