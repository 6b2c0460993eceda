"""The Benchmark page without a browser."""

from __future__ import annotations

import json

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import smart_core as sc
from pages.shared import benchmarks, workspace
from pages.shared.session import Session
from smart_core.experiments.benchmark_result import paper_benchmark
from smart_core.export.workspace import load_workspace
from tests.app.driver import charts, click, open_page, session_of, text_of


def run(app: AppTest, sets: list[str], methods: list[str]) -> AppTest:
    app.multiselect(key="benchmark-sets").set_value(sets)
    app.multiselect(key="benchmark-methods").set_value(methods)
    app.number_input(key="benchmark-seeds").set_value(1).run()
    return click(app, "run-benchmark")


@pytest.fixture(scope="module")
def ran() -> AppTest:
    return run(open_page("benchmark"), ["digits", "fashion_brier"], ["vanilla", "ts", "isotonic"])


def test_an_unused_page_shows_the_paper_and_says_what_to_do() -> None:
    app = open_page("benchmark")
    assert "Not run yet." in text_of(app)
    matrix = charts(app)[0]
    assert np.shape(matrix["data"][0]["z"]) == (26, len(paper_benchmark().methods))


def test_cells_are_those_of_the_engine(ran: AppTest) -> None:
    result = session_of(ran).studies[benchmarks.KIND].result
    assert result.complete
    assert list(result.cells) == ["Digits", "Fashion-MNIST, Brier"]
    expected = sc.benchmark({"Digits": sc.load("sample:digits")}, "vanilla,ts,isotonic", seeds=1).matrix()
    assert result.matrix().loc["Digits"].to_numpy() == pytest.approx(expected.loc["Digits"].to_numpy(), abs=1e-9)
    shown = text_of(ran)
    assert "2 data sets: too few for a claim over data sets." in shown
    assert np.shape(charts(ran)[0]["data"][0]["z"]) == (2, 3)


def test_a_second_run_makes_only_new_fits(ran: AppTest) -> None:
    before = dict(session_of(ran).records.records)
    run(ran, ["digits", "fashion_brier"], ["vanilla", "ts", "isotonic", "beta"])
    after = session_of(ran).records.records
    assert len(after) == len(before) + 2
    assert all(after[key] is record for key, record in before.items())


def test_a_benchmark_is_saved_with_the_workspace(ran: AppTest) -> None:
    here = session_of(ran)
    gathered, left_out = workspace.gather(here, {})
    assert left_out == []
    again = load_workspace(workspace.to_bytes(gathered))
    (name,) = [name for name in again.studies if benchmarks.KIND in name]
    assert again.studies[name]["result"].to_json() == here.studies[benchmarks.KIND].result.to_json()
    opened = Session()
    workspace.restore(workspace.to_bytes(gathered), opened)
    assert opened.studies[benchmarks.KIND].result.methods == here.studies[benchmarks.KIND].result.methods


def test_two_models_on_the_same_samples() -> None:
    app = open_page("benchmark", data="fashion")
    shown = text_of(app)
    assert "The two models disagree on" in shown
    pair = sc.compare_models(sc.load("sample:fashion"), sc.load("sample:fashion_brier"))
    assert len(pair.disagreeing) > 0
    assert json.loads(pair.to_json())["disagreeing"] == len(pair.disagreeing)
