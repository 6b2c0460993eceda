"""One recommendation: Compare, Start, Export, the report, the command line and Python name the same method."""

from __future__ import annotations

import html
import json
from dataclasses import replace

import pytest

import smart_core as sc
from pages.shared.session import LeaderboardRow
from smart_core.cli.compare import leaderboard_text
from smart_core.experiments.compare import Comparison, summarise
from smart_core.report import Findings, report_html
from tests.app.driver import add_rows, open_page, text_of


@pytest.fixture(scope="module")
def rows(digits: sc.LogitSet, fitted_rows: dict[str, LeaderboardRow]) -> dict[str, LeaderboardRow]:
    """With the histogram, which has the lowest ECE on this sample, and an NLL far above the model's."""
    found = sc.compare(digits, ("histogram",), 1).results["histogram"]
    return {**fitted_rows, "histogram": LeaderboardRow(found, {}, 1, 15)}


@pytest.fixture(scope="module")
def ranked(digits: sc.LogitSet, rows: dict[str, LeaderboardRow]) -> Comparison:
    return summarise(digits, {id: row.result for id, row in rows.items()})


def test_every_place_names_the_same_method(
    digits: sc.LogitSet, rows: dict[str, LeaderboardRow], ranked: Comparison
) -> None:
    found = sc.recommend(ranked)
    assert ranked.best == "histogram" != found.method
    app = open_page("compare")
    app.number_input(key="seeds").set_value(1).run()
    add_rows(app, digits, rows)
    assert f"#### {found.title}" in text_of(app)
    assert all(part in text_of(app) for part in (found.choice, found.cost, found.warning))
    app.switch_page("pages/start.py").run()
    assert f"**{found.title}**. {found.gain} {found.cost}" in text_of(app)
    assert f"**After {found.label}" in text_of(app)
    app.switch_page("pages/export.py").run()
    assert f"**{found.title}**. {found.gain} {found.cost}" in text_of(app)
    assert app.selectbox(key="export-method").value == found.method
    page = html.unescape(report_html(Findings(ranked)))
    assert f"{found.title}. {found.reason}" in page
    assert f"{found.title}. {found.reason}" in leaderboard_text(ranked)
    assert json.loads(ranked.to_json())["recommended"] == {"method": found.method, "reason": found.reason}


def test_a_worse_proper_score_is_marked_in_every_table(
    digits: sc.LogitSet, rows: dict[str, LeaderboardRow], ranked: Comparison
) -> None:
    mark = "best, worse NLL than the model"
    short = "best, worse NLL"
    app = open_page("compare")
    app.number_input(key="seeds").set_value(1).run()
    table = add_rows(app, digits, rows).dataframe[0].value.set_index("method")
    assert (table.loc["histogram", "Verdict"], ranked.standing_text("histogram")) == (short, mark)
    assert mark in leaderboard_text(ranked)
    assert f"<td>{mark}</td>" in report_html(Findings(ranked))
    assert ranked.to_frame()["worse_than_model"].to_dict() == {"vanilla": "", "ts": "", "smart": "", "histogram": "nll"}
    latex = sc.export.comparison_latex(ranked, methods="rows")
    assert r"Histogram$^\dagger$ &" in latex
    assert r"TS$^\dagger$" not in latex
    assert r"$\dagger$: an NLL, Brier score or accuracy worse" in latex


def test_the_report_draws_what_is_selected_and_else_the_recommended(ranked: Comparison) -> None:
    found = Findings(ranked)
    assert (found.drawn, found.repair) == ([sc.recommend(ranked).method], sc.recommend(ranked).method)
    assert replace(found, selected=("smart", "vanilla", "ts")).drawn == ["smart", "ts"]
    assert replace(found, selected=("vector",)).drawn == found.drawn
