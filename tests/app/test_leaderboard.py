"""The table of the leaderboard: order, verdicts and unranked rows."""

from __future__ import annotations

import math

import pytest

from pages.shared.leaderboard_table import (
    BAR,
    GREY,
    MAX_ROWS,
    OTHER_BINS,
    STALE,
    columns,
    grey_unranked,
    height,
    leaderboard,
)
from pages.shared.session import LeaderboardRow
from smart_core.calibrators import methods
from smart_core.evaluation import HEADLINE, measured_label
from smart_core.experiments import Comparison, MethodResult
from smart_core.metrics import Floor, Interval


def row(id: str, *values: float, seeds: int = 5, **changed: list[float]) -> LeaderboardRow:
    figures = {name: list(values) for name in HEADLINE} | changed
    ends = {name: Interval(0.01, 0.03, 0.95, "population") for name in HEADLINE}
    result = MethodResult(id, True, None, 1234, False, 0.5, figures, ends, {"ece": Floor(0.005, 0.0123, 100)})
    return LeaderboardRow(result, {}, seeds, 15)


def failed(id: str, reason: str) -> LeaderboardRow:
    return LeaderboardRow(MethodResult(id, False, reason), {}, 5, 15)


def ranked(rows: dict[str, LeaderboardRow], best: str, tied: dict[str, bool], metric: str = "ece") -> Comparison:
    return Comparison(None, {id: each.result for id, each in rows.items()}, {}, metric, tied, best)  # type: ignore[arg-type]


@pytest.fixture
def rows() -> dict[str, LeaderboardRow]:
    return {
        "vanilla": row("vanilla", 0.05),
        "ts": row("ts", 0.02, accuracy=[0.9]),
        "smart": row("smart", 0.01, 0.03, 0.02, accuracy=[0.8]),
        "isotonic": row("isotonic", 0.001),
        "fc": failed("fc", "needs features and head"),
        "bbq": row("bbq", math.nan),
    }


def test_order_and_verdicts(rows: dict[str, LeaderboardRow]) -> None:
    fresh = {id: rows[id] for id in ("vanilla", "ts", "smart")}
    standing = ranked(fresh, "ts", {"ts": True, "smart": True, "vanilla": False})
    table = leaderboard(rows, standing, {"isotonic": STALE}, "ece")
    # by the value, one without a value after those with one; then stale ones, however good; then failed ones
    assert dict(zip(table["method"], table["Verdict"], strict=True)) == {
        "ts": "best",
        "smart": "tied",
        "vanilla": "worse",
        "bbq": "",
        "isotonic": STALE,
        "fc": "needs features and head",
    }
    assert list(table["method"])[2:] == ["vanilla", "bbq", "isotonic", "fc"]


def test_accuracy_is_sorted_in_descending_order(rows: dict[str, LeaderboardRow]) -> None:
    two = {id: rows[id] for id in ("smart", "ts")}
    assert list(leaderboard(two, None, {}, "accuracy")["method"]) == ["ts", "smart"]


def test_without_a_ranking_there_are_no_verdicts(rows: dict[str, LeaderboardRow]) -> None:
    assert set(leaderboard({"ts": rows["ts"], "smart": rows["smart"]}, None, {}, "ece")["Verdict"]) == {""}


def test_every_headline_metric_has_its_range_in_a_column_of_its_own(rows: dict[str, LeaderboardRow]) -> None:
    line = leaderboard({"smart": rows["smart"]}, None, {}, "ece").iloc[0].map(lambda text: text.replace("\u00a0", " "))
    assert line["ECE, measured"] == "2.00%"
    assert line["± seeds"] == "1.00%"  # of 1, 3 and 2%
    assert line["noise floor"] == "1.23%"
    assert line["ECE, true, 95%"] == line["AdaECE, true, 95%"] == "1.00–3.00%"
    assert line["AdaECE, measured"] == "2.00%"
    assert (line["NLL"], line["NLL, true, 95%"]) == ("0.0200", "0.0100–0.0300")
    assert (line["parameters"], line["seconds"], line["top-1"]) == ("1,234", "0.50", "may change")
    assert {measured_label(name) for name in HEADLINE} <= set(line.index)


def test_few_columns_are_shown_at_first() -> None:
    first = ["Method", "Verdict", "ECE, measured", BAR]
    assert columns("ece", everything=False) == [*first, "NLL", "Accuracy", "top-1", "seconds"]
    assert columns("nll", everything=False) == ["Method", "Verdict", "NLL", BAR, "Accuracy", "top-1", "seconds"]
    assert set(columns("ece", everything=False)) < set(columns("ece", everything=True))


def test_the_table_is_tall_enough_for_every_method() -> None:
    assert height(len(methods())) > 35 * (1 + len(methods()))
    assert height(3) < height(4)
    assert height(500) == height(MAX_ROWS)


def test_one_seed_has_no_spread(rows: dict[str, LeaderboardRow]) -> None:
    assert leaderboard({"ts": rows["ts"]}, None, {}, "ece").iloc[0]["± seeds"] == "–"


def test_unranked_rows_are_grey(rows: dict[str, LeaderboardRow]) -> None:
    table = leaderboard(rows, None, {"isotonic": STALE, "ts": OTHER_BINS}, "ece")
    styles = grey_unranked(table)._compute().ctx
    grey = {table["method"].iloc[line] for (line, _), found in styles.items() if found}
    assert grey == {"isotonic", "ts", "fc"}
    assert GREY.startswith("color")
