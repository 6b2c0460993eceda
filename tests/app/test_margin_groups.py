"""Margin groups without a browser: groups against an independent computation, custom edges, before and after."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from scipy.special import softmax
from streamlit.testing.v1 import AppTest

import sample_logits
import smart_core as sc
from pages.shared.session import SELECTED, LeaderboardRow, row_key
from tests.app.driver import add_rows, click, open_page, plain_ece
from tests.conftest import ROOT


@pytest.fixture
def app() -> AppTest:
    return open_page("margin_groups")


@pytest.fixture(scope="module")
def model() -> dict[str, np.ndarray]:
    """Margin, confidence and hits of the digits sample's test part."""
    with np.load(sample_logits.path("digits")) as bundle:
        logits, labels = bundle["test_logits"], bundle["test_labels"]
    top = np.sort(logits, axis=1)
    probabilities = softmax(logits.astype(np.float64), axis=1)
    hit = probabilities.argmax(axis=1) == labels
    return {"margin": top[:, -1] - top[:, -2], "confidence": probabilities.max(axis=1), "hit": hit}


def sentences(app: AppTest) -> list[str]:
    return [line.value.removeprefix("##### ") for line in app.main.markdown if line.value.startswith("##### ")]


def panels(app: AppTest) -> int:
    layout = json.loads(app.get("plotly_chart")[0].proto.spec)["layout"]
    return sum("margin" in note["text"] for note in layout["annotations"])


def test_the_worst_group_is_named(app: AppTest, model: dict[str, np.ndarray]) -> None:
    (words,) = sentences(app)
    found = re.search(r"margins ([\d.]+)–([\d.]+)", words)
    assert found is not None
    low, high = (float(end) for end in found.groups())
    inside = (model["margin"] > low - 0.006) & (model["margin"] <= high + 0.006)
    confidence, hit = model["confidence"][inside], model["hit"][inside]
    size = int(re.search(r"\((\d+) samples", words)[1])  # type: ignore[index]
    assert size == pytest.approx(len(hit), abs=3)  # the sentence rounds the edges
    assert size == pytest.approx(len(model["hit"]) / 6, abs=1)
    assert f"mean confidence {100 * confidence.mean():.0f}%" in words
    assert f"accuracy {100 * hit.mean():.0f}%" in words
    # none of the six is worse by the plain measure
    errors = [
        plain_ece(model["confidence"][rows], model["hit"][rows])
        for rows in np.array_split(np.argsort(model["margin"], kind="stable"), 6)
    ]
    shown = float(re.search(r"ECE ([\d.]+)", words)[1]) / 100  # type: ignore[index]
    assert shown == pytest.approx(max(errors), abs=0.006)


def test_a_larger_error_within_noise_is_mentioned(
    app: AppTest, digits: sc.LogitSet, fitted_rows: dict[str, LeaderboardRow]
) -> None:
    add_rows(app, digits, fitted_rows)
    groups = {}
    for note in json.loads(app.get("plotly_chart")[0].proto.spec)["layout"]["annotations"]:
        found = re.match(r"<b>margin ([\d.]+)–.*ECE [\d.]+ → ([\d.]+)", note["text"].replace("<br>", " "))
        if found:
            groups[found[1]] = float(found[2])
    assert len(groups) == 6
    words = sentences(app)[1]
    low = float(max(groups, key=groups.__getitem__))
    named = [float(edge) for edge in re.findall(r"margins ([\d.]+)–", words)]
    # the largest figure on the chart stands in the sentence: as the worst, or as one that chance explains
    assert any(edge == pytest.approx(low, abs=0.051) for edge in named), (words, groups)


def test_the_slider_changes_the_grid(app: AppTest) -> None:
    assert panels(app) == 6
    app.slider(key="groups").set_value(3).run()
    assert panels(app) == 3


def test_custom_edges(app: AppTest) -> None:
    app.text_input(key="edges").set_value("1.8, 2.9; 5").run()
    assert not app.warning
    assert panels(app) == 4  # two between the edges, and one beyond either end: no sample is lost


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("low, high", "numbers separated by commas"),
        ("5, 2", "must rise"),
        ("3", "at least two"),
        ("nan, 3", "finite"),
        (", ".join(str(k / 10) for k in range(40)), "too many"),
    ],
)
def test_invalid_edges_are_reported_and_the_slider_is_used(app: AppTest, text: str, words: str) -> None:
    app.text_input(key="edges").set_value(text).run()
    assert not app.exception
    assert words in app.warning[0].value
    assert panels(app) == 6


def test_without_fits_the_page_offers_one_and_runs_it(app: AppTest) -> None:
    click(app, "fit-two")
    assert app.selectbox(key="after").options == ["Vanilla", "TS", "SMART"]
    assert app.selectbox(key="after").value == "smart"
    assert [words.split()[0].rstrip(":") for words in sentences(app)] == ["Vanilla", "SMART"]
    assert not [button for button in app.button if button.key == "fit-two"]
    kept = app.selectbox(key="after").set_value("ts").run()
    kept.switch_page("pages/diagnose.py").run()
    kept.switch_page("pages/margin_groups.py").run()
    assert kept.selectbox(key="after").value == "ts"


def test_the_table_of_groups_adds_up(app: AppTest, model: dict[str, np.ndarray]) -> None:
    app.session_state["group-box"] = True
    app.run()
    (found,) = [
        each.value for each in app.dataframe if "mean confidence" in each.value.columns and "noise floor" in each.value
    ]
    assert found["samples"].sum() == len(model["hit"])
    assert np.average(found["accuracy"], weights=found["samples"]) == pytest.approx(model["hit"].mean())
    assert np.average(found["mean confidence"], weights=found["samples"]) == pytest.approx(
        model["confidence"].mean(), abs=1e-6
    )
    assert (found["true, 95% low"] <= found["true, 95% high"]).all()


def test_the_code_prints_the_verdict_of_the_page(
    app: AppTest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    exec(app.main.code[-1].value, {})
    printed = capsys.readouterr().out.strip().splitlines()
    assert len(printed) == 7
    worst = printed[-1].removeprefix("worst: ")
    assert worst in printed[:-1]
    assert worst in sentences(app)[0].replace("\u200b", "").replace("\\", "")


def test_rows_selected_on_compare_are_drawn_here_and_proposed_on_shift(
    fitted_rows: dict[str, LeaderboardRow], digits: sc.LogitSet
) -> None:
    app = open_page("margin_groups")
    app.session_state["session"].rows.update({row_key(digits, id): each for id, each in fitted_rows.items()})
    app.session_state[SELECTED] = ["ts"]
    app.run()
    assert not app.exception
    assert app.selectbox(key="after").value == "ts"
    drawn = json.loads(app.get("plotly_chart")[-1].proto.spec)["data"]
    assert "TS" in {trace.get("name") for trace in drawn}
    assert "SMART" not in {trace.get("name") for trace in drawn}
    app.switch_page("pages/shift.py").run()
    assert app.multiselect(key="shift-methods").value == ["ts"]


def test_a_selection_on_compare_carries_over_until_it_is_changed(
    app: AppTest, digits: sc.LogitSet, fitted_rows: dict[str, LeaderboardRow]
) -> None:
    add_rows(app, digits, fitted_rows)
    app.run()
    assert app.selectbox(key="after").value == "smart"
    app.session_state[SELECTED] = ["ts"]
    assert app.run().selectbox(key="after").value == "ts"
    app.selectbox(key="after").set_value("smart").run()
    assert app.run().selectbox(key="after").value == "smart"  # a choice on the page stays
    app.session_state[SELECTED] = ["vanilla", "ts"]
    assert app.run().selectbox(key="after").value == "ts"
