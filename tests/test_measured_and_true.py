"""A measured calibration error and the range of the true one are two quantities in every front end."""

from __future__ import annotations

import re

import pytest

import smart_core as sc
from pages.shared.leaderboard_table import leaderboard
from pages.shared.session import LeaderboardRow
from smart_core.cli.compare import leaderboard_text
from smart_core.evaluation import MEASURED_AND_TRUE, TRUE_RANGE
from smart_core.experiments import Comparison
from smart_core.export.tables import comparison_latex
from smart_core.figures import leaderboard_plot
from smart_core.report import Findings, report_html
from tests.figures.samples import texts

BRACKETED = re.compile(
    r"\d[\s\u00a0]*%?[\s\u00a0]*[(\[][\s\u00a0]*\d[\d.]*[\s\u00a0]*%?[\s\u00a0]*(–|-|to|,)[\s\u00a0]*\d"
)
"""A number followed by a range in brackets: `0.67% (0.00–0.61)`."""


@pytest.fixture(scope="module")
def compared() -> Comparison:
    return sc.compare(sc.simulate_set(300, 400, 4, seed=0), "vanilla,ts", seeds=1)


def without_scripts(html: str) -> str:
    return re.sub(r"<[^>]*>", " ", re.sub(r"<(script|style)\b.*?</\1>", "", html, flags=re.DOTALL))


def front_ends(compared: Comparison) -> dict[str, str]:
    rows = {id: LeaderboardRow(row, {}, 1, 15) for id, row in compared.results.items()}
    return {
        "command line": leaderboard_text(compared),
        "report": without_scripts(report_html(Findings(compared))),
        "page": leaderboard(rows, compared, {}, "ece").to_csv(),
        "chart": texts(leaderboard_plot(compared).figure) + leaderboard_plot(compared).table.to_csv(),
        "LaTeX": comparison_latex(compared, methods="rows").replace("\\%", "%"),
    }


def test_the_pattern_finds_a_measured_value_before_its_range() -> None:
    for text in ("0.67% (0.00–0.61)", "0.67 % (0.00 – 0.61)", "4.31 [2.83, 4.09]", "0.67 (0.00 to 0.61)"):
        assert BRACKETED.search(text)
    assert not BRACKETED.search("0.67%, true, 95%: 0.00–0.61% (15 bins)")


def test_no_front_end_puts_a_range_in_brackets_behind_a_measured_value(compared: Comparison) -> None:
    for name, text in front_ends(compared).items():
        assert not BRACKETED.search(text), name
        assert TRUE_RANGE in text, name


def test_the_command_line_and_the_report_explain_both_in_the_same_words(compared: Comparison) -> None:
    shown = front_ends(compared)
    assert MEASURED_AND_TRUE in shown["command line"]
    assert MEASURED_AND_TRUE in shown["report"].replace("&#39;", "'")
