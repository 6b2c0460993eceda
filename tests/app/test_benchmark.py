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


SETS = ["digits", "fashion_brier", "fashion_mmce"]
TITLES = ["Digits", "Fashion-MNIST, Brier", "Fashion-MNIST, MMCE"]


def view(name: str, **query: str) -> AppTest:
    return open_page("benchmark", **{"benchmark-view": name, **query})


def said(app: AppTest) -> str:
    """The text of the page without the escapes of Markdown."""
    return text_of(app).replace("\\", "")


@pytest.fixture(scope="module")
def ran() -> AppTest:
    return run(open_page("benchmark"), SETS, ["vanilla", "ts", "isotonic"])


def test_an_unused_page_says_what_to_do() -> None:
    assert "Not run yet." in text_of(open_page("benchmark"))


def test_the_paper_in_the_same_views_with_its_claims_checked() -> None:
    app = view("The paper")
    assert np.shape(charts(app)[0]["data"][0]["z"]) == (26, len(paper_benchmark().methods))
    assert "✓ SMART has the lowest ECE on CIFAR-10, CIFAR-100 and ImageNet-1K: 10 of 10 in its table" in said(app)
    app.selectbox(key="metric").set_value("adaece").run()
    assert "✕ SMART has the lowest AdaECE on 24 of 26 networks: 19 of 26 in its table." in said(app)
    app.selectbox(key="metric").set_value("nll").run()
    assert "The paper has no table of NLL" in text_of(app)
    assert not app.exception


def test_cells_are_those_of_the_engine(ran: AppTest) -> None:
    result = session_of(ran).studies[benchmarks.KIND].result
    assert result.complete
    assert list(result.cells) == TITLES
    expected = sc.benchmark({"Digits": sc.load("sample:digits")}, "vanilla,ts,isotonic", seeds=1).matrix()
    assert result.matrix().loc["Digits"].to_numpy() == pytest.approx(expected.loc["Digits"].to_numpy(), abs=1e-9)
    shown = said(ran)
    assert "3 data sets: too few for a claim over data sets." in shown
    assert np.shape(charts(ran)[0]["data"][0]["z"]) == (3, 3)


def test_the_cost_counts_the_fits_that_are_missing(ran: AppTest) -> None:
    assert "All fits are done." in said(ran)
    assert "21 fits, about" in said(open_page("benchmark", **{"benchmark-seeds": "1"}))  # 3 sets, 7 methods


def test_sets_are_sorted(ran: AppTest) -> None:
    result = session_of(ran).studies[benchmarks.KIND].result
    for order, values in (("ts", result.matrix()["ts"]), ("accuracy", {n: i.accuracy for n, i in result.sets.items()})):
        ran.selectbox(key="benchmark-order").set_value(order).run()
        assert charts(ran)[0]["layout"]["yaxis"]["ticktext"] == sorted(TITLES, key=values.__getitem__)
    ran.selectbox(key="benchmark-order").set_value("").run()


def test_ties_by_another_metric_are_tested_on_demand(ran: AppTest) -> None:
    ran.selectbox(key="metric").set_value("accuracy").run()
    click(ran, "mark-ties")
    tied = session_of(ran).studies[benchmarks.KIND].result.tied["accuracy"]
    assert tied == {name: dict.fromkeys(("vanilla", "ts", "isotonic"), True) for name in TITLES}  # all keep top-1
    assert "mark-ties" not in {button.key for button in ran.button}
    ran.selectbox(key="metric").set_value("ece").run()


def test_models_of_the_same_samples_before_and_after_a_method(ran: AppTest) -> None:
    ran.selectbox(key="losses-after").set_value("isotonic").run()
    result = session_of(ran).studies[benchmarks.KIND].result
    shown = [chart for chart in charts(ran) if chart["layout"]["xaxis"].get("ticktext") == ["Vanilla", "Isotonic"]]
    assert [chart["layout"]["yaxis"]["ticktext"] for chart in shown] == [TITLES[1:]]
    assert result.view(TITLES[1:], ("vanilla", "isotonic")).matrix().shape == (2, 2)


def test_a_set_below_the_row_of_the_same_model_in_the_paper(ran: AppTest) -> None:
    again = view("The paper")
    session_of(again).studies[benchmarks.KIND] = session_of(ran).studies[benchmarks.KIND]
    again.run()
    again.selectbox(key="beside-row-Digits").set_value("CIFAR-10 / ResNet-50").run()
    both = charts(again)[0]["layout"]
    assert both["yaxis"]["ticktext"] == ["the paper, CIFAR-10<br>ResNet-50", "Digits"]
    assert both["xaxis"]["ticktext"] == ["Vanilla", "TS"]
    assert both["annotations"][0]["text"] == "<u>4.34</u>"


def test_a_second_run_makes_only_new_fits(ran: AppTest) -> None:
    before = dict(session_of(ran).records.records)
    run(ran, SETS[:2], ["vanilla", "ts", "isotonic", "beta"])
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
    app = open_page("benchmark", "fashion", **{"benchmark-view": "Two models"})
    shown = text_of(app)
    assert "The two models disagree on" in shown
    pair = sc.compare_models(sc.load("sample:fashion"), sc.load("sample:fashion_brier"))
    assert len(pair.disagreeing) > 0
    assert json.loads(pair.to_json())["disagreeing"] == len(pair.disagreeing)


@pytest.mark.parametrize("page", ["diagnose", "compare"])
def test_two_models_are_offered_where_two_sets_share_labels(page: str) -> None:
    assert not [button for button in open_page(page, "digits").button if button.key == "offer-pair"]
    app = open_page(page, "fashion_mmce")
    assert "predictions of the same test samples" in text_of(app)
    app.button(key="offer-pair").click().run()
    assert "The two models disagree on" in text_of(app)
