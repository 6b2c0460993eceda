"""Numbers in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from smart_core.evaluation import metric_label, metric_number, metric_range, metric_value
from smart_core.formatting import decimal, duration, join_words, percent, plural, shorten
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.0435, "4.3%"), (0.0061, "0.61%"), (0, "0.0%"), (1, "100.0%"), (-0.2, "−20.0%"), (float("nan"), "–")],
)
def test_percent(value: float, words: str) -> None:
    assert percent(value) == words


def test_a_minus_sign_is_one() -> None:
    assert (decimal(-0.631), decimal(0.631), decimal(-1e-5, ".0e")) == ("−0.63", "0.63", "−1e−05")
    assert (percent(0.031, 1, "+"), percent(-0.031, 1, "+")) == ("+3.1%", "−3.1%")
    assert metric_value("ece", -0.012) == "−1.20%"


@pytest.mark.parametrize("folder", ["pages", "smart_core", "sample_logits", "docs"])
def test_a_per_cent_sign_follows_its_number_at_once(folder: str) -> None:
    """Plotly and Streamlit write no space before it, so neither does any text."""
    spaced = re.compile(r"\d(?: |\xa0|\\u00a0|&nbsp;)%(?![{a-z(])|:\+?\.\d[ef%]\}[^\n]{0,8}\xa0%")
    files = [path for kind in ("*.py", "*.md", "*.html", "*.csv") for path in (ROOT / folder).rglob(kind)]
    assert files
    found = {path.name: spaced.findall(path.read_text(encoding="utf-8")) for path in files}
    assert not {name: hits for name, hits in found.items() if hits}


def test_hover_text_has_the_minus_sign_of_the_other_text() -> None:
    """The formats in hover templates write a hyphen; signed numbers come as text or by the format of the axis."""
    for path in Path(ROOT / "smart_core" / "figures").glob("*.py"):
        assert not re.search(r"%\{[^}]*:\+", path.read_text(encoding="utf-8")), path.name


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
    [("ece", 0.00614, "0.61", "0.61%", "ECE, %"), ("nll", 0.20381, "0.2038", "0.2038", "NLL")],
)
def test_a_metric_has_one_form(metric: str, value: float, number: str, words: str, label: str) -> None:
    assert metric_number(metric, value) == number
    assert metric_value(metric, value) == words
    assert metric_label(metric) == label
    assert metric_range(metric, value, value) == f"{number}–{words}"
    assert (metric_number(metric, float("nan")), metric_value(metric, float("nan"))) == ("", "–")
    assert metric_range(metric, float("nan"), value) == "–"
