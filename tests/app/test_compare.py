"""Compare without a browser: jobs, stale rows, and metrics against independent computations."""

from __future__ import annotations

import json
import re
from collections.abc import Collection

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from streamlit.testing.v1 import AppTest

import sample_logits
import smart_core as sc
from pages.shared import estimates, workspace
from pages.shared.leaderboard_table import OTHER_BINS, STALE
from pages.shared.session import LeaderboardRow, LoadedDataset, Session, row_key
from smart_core.calibrators import methods
from smart_core.calibrators.base import Calibrator
from smart_core.data.logitset import LogitSet, Part
from smart_core.evaluation import MEASURED_AND_TRUE, metric_value
from smart_core.experiments import MethodResult
from smart_core.formatting import join_words
from tests.app.driver import charts, open_page, plain_ece, settle, unlinked, wait
from tests.conftest import ROOT

QUICK = ("vanilla", "ts", "smart")


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the method of every fit, except Vanilla, which fits nothing."""
    made: list[str] = []
    original = Calibrator.fit

    def counted(self: Calibrator, *arguments: object, **options: object) -> Calibrator:
        if self.id != "vanilla":
            made.append(self.id)
        return original(self, *arguments, **options)

    monkeypatch.setattr(Calibrator, "fit", counted)
    monkeypatch.setattr(estimates, "machine_factor", lambda: 1.0)  # it times fits of its own
    return made


def fit(app: AppTest, wanted: Collection[str], seeds: int = 2) -> AppTest:
    app.number_input(key="seeds").set_value(seeds)
    for box in app.main.checkbox:
        if str(box.key).startswith("compare-") and not box.disabled:
            box.set_value(box.key.removeprefix("compare-") in wanted)
    app.button(key="fit-selected").click().run()
    return wait(app)


def table(app: AppTest) -> pd.DataFrame:
    return app.dataframe[0].value.set_index("method")


def headline(app: AppTest) -> str:
    return next((line.value for line in app.main.markdown if line.value.startswith("#### ")), "")


@pytest.fixture(scope="module")
def made() -> Session:
    """A session with three rows, SMART with few epochs."""
    session = Session()
    data = sc.load(sample_logits.path("digits"))
    session.settings["smart"] = {"epochs": 20}

    def keep(result: MethodResult) -> None:
        session.rows[row_key(data, result.id)] = LeaderboardRow(result, session.settings.get(result.id, {}), 2, 15)

    sc.compare(data, QUICK, 2, settings=session.settings, on_result=keep, cache=session.fits)
    return session


@pytest.fixture
def fitted(made: Session, fits: list[str]) -> AppTest:
    """Compare in a session with these rows."""
    app = open_page("compare")
    here = app.session_state["session"]
    here.rows.update(made.rows)
    here.fits.update(made.fits)
    here.settings.update(made.settings)
    app.number_input(key="seeds").set_value(2).run()
    assert not app.exception
    fits.clear()
    return app


def test_nothing_is_fitted_at_first() -> None:
    app = open_page("compare")
    assert not app.exception
    captions = [line.value.replace("\u00a0", " ") for line in app.caption]
    assert any(re.match(r"\d+ methods, about [\d.]+ (s|min)( \d+ s)?$", caption) for caption in captions)
    assert app.button(key="fit-recommended").label == "Fit the recommended set"
    assert headline(app) == ""


def test_the_metrics_are_those_of_an_independent_fit(fitted: AppTest) -> None:
    with np.load(sample_logits.path("digits")) as bundle:
        found = {name: bundle[name].astype(np.float64) for name in ("val_logits", "test_logits")}
        labels = {name: bundle[name] for name in ("val_labels", "test_labels")}
    rows = np.arange(len(labels["val_labels"]))

    def nll(t: float) -> float:
        return -log_softmax(found["val_logits"] / t, axis=1)[rows, labels["val_labels"]].mean()

    best = minimize_scalar(nll, bounds=(0.05, 20), method="bounded", options={"xatol": 1e-10}).x
    shown = table(fitted)
    for method, temperature in (("vanilla", 1.0), ("ts", best)):
        probabilities = softmax(found["test_logits"] / temperature, axis=1)
        hit = probabilities.argmax(axis=1) == labels["test_labels"]
        assert shown.loc[method, "ECE, measured"] == metric_value("ece", plain_ece(probabilities.max(axis=1), hit))
        log = -log_softmax(found["test_logits"] / temperature, axis=1)[np.arange(len(hit)), labels["test_labels"]]
        assert shown.loc[method, "NLL"].startswith(metric_value("nll", log.mean()))
    assert shown.loc["smart", "parameters"] == "49"
    assert shown.loc["smart", "top-1"] == "kept"


def test_the_verdict_names_the_best_row(fitted: AppTest) -> None:
    shown = table(fitted)
    (best,) = shown.index[shown["Verdict"] == "best"]
    assert headline(fitted).startswith("#### Recommended: TS")
    captions = [unlinked(line.value) for line in fitted.caption]
    measured = next(line for line in captions if "has the lowest ECE" in line)
    assert measured.startswith(f"{methods()[best].label} has the lowest ECE")
    # the repair is called real where the paired test tells the model itself from the best, and only there
    assert shown.loc["vanilla", "Verdict"] in ("worse", "tied")
    assert ("the repair is real" in measured) == (shown.loc["vanilla", "Verdict"] == "worse")
    assert ("the difference is not significant" in measured) == (shown.loc["vanilla", "Verdict"] == "tied")


def test_the_columns_and_the_chart_are_explained(fitted: AppTest) -> None:
    columns = json.loads(fitted.dataframe[0].proto.columns)
    assert "Tied: a paired test cannot distinguish" in columns["Verdict"]["help"]
    assert columns["ECE, measured"]["help"].endswith(MEASURED_AND_TRUE)
    assert columns["ECE, true, 95%"]["help"] == columns["noise floor"]["help"] == MEASURED_AND_TRUE
    captions = [line.value for line in fitted.caption]
    best = table(fitted).index[0]
    drawn = [methods()[id].label for id in dict.fromkeys((*QUICK, best))]
    assert any(f"Drawn: {join_words(drawn)}. Select rows" in line for line in captions)


def test_selected_methods_are_fitted_once(fits: list[str]) -> None:
    app = open_page("compare")
    app.number_input(key="set-smart-epochs").set_value(20).run()
    fit(app, QUICK)
    assert sorted(fits) == ["smart", "smart", "ts"]
    before = table(app)
    assert sorted(before.index) == sorted(QUICK)
    fit(app, QUICK)
    assert len(fits) == 3
    pd.testing.assert_frame_equal(table(app), before)


def test_a_row_with_other_settings_is_stale_until_it_is_refitted(fitted: AppTest, fits: list[str]) -> None:
    fits.clear()
    fitted.number_input(key="set-smart-epochs").set_value(10).run()
    shown = table(fitted)
    assert shown["Verdict"].to_dict()["smart"] == STALE
    assert shown.index[-1] == "smart"
    assert "SMART" not in headline(fitted)
    fitted.button(key="refit").click().run()
    wait(fitted)
    assert fits == ["smart", "smart"]
    assert STALE not in set(table(fitted)["Verdict"])


def test_other_seeds_make_only_stochastic_methods_stale(fitted: AppTest) -> None:
    fitted.number_input(key="seeds").set_value(3).run()
    verdicts = table(fitted)["Verdict"]
    assert verdicts["smart"] == STALE
    assert STALE not in (verdicts["ts"], verdicts["vanilla"])


def test_other_bins_need_an_evaluation_but_no_fit(fitted: AppTest, fits: list[str]) -> None:
    fits.clear()
    fitted.slider(key="bins").set_value(10).run()
    assert set(table(fitted)["Verdict"]) == {OTHER_BINS}
    assert headline(fitted) == ""
    assert fitted.button(key="refit").label == "Re-evaluate with 10 bins"
    fitted.button(key="refit").click().run()
    wait(fitted)
    assert fits == []
    with np.load(sample_logits.path("digits")) as bundle:
        probabilities = softmax(bundle["test_logits"].astype(np.float64), axis=1)
        hit = probabilities.argmax(axis=1) == bundle["test_labels"]
    assert table(fitted).loc["vanilla", "ECE, measured"] == metric_value(
        "ece", plain_ece(probabilities.max(axis=1), hit, 10)
    )


def test_rows_and_controls_are_kept_while_another_page_is_open(fitted: AppTest) -> None:
    for box in fitted.main.checkbox:
        if str(box.key).startswith("compare-") and not box.disabled:
            box.set_value(box.key == "compare-beta")
    fitted.run()
    before = table(fitted)
    fitted.switch_page("pages/diagnose.py").run()
    fitted.switch_page("pages/compare.py").run()
    pd.testing.assert_frame_equal(table(fitted), before)
    assert fitted.number_input(key="seeds").value == 2
    assert [box.key for box in fitted.main.checkbox if box.value] == ["compare-beta"]


def test_a_restored_workspace_gives_the_same_verdict(fitted: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    gathered, gather = [], workspace.gather
    monkeypatch.setattr(workspace, "gather", lambda *given: gathered.append(gather(*given)) or gathered[-1])
    before, said = table(fitted), headline(fitted)
    fitted.switch_page("pages/export.py").run()
    saved = workspace.to_bytes(gathered[-1][0])
    fresh = open_page("export", "fashion")
    fresh.file_uploader(key="export-restore").set_value(("w.zip", saved, "application/zip")).run()
    fresh.switch_page("pages/compare.py").run()
    assert not fresh.exception
    assert fresh.number_input(key="seeds").value == 2
    assert headline(fresh) == said != ""
    pd.testing.assert_frame_equal(table(fresh), before)
    # and the control still works
    fresh.number_input(key="seeds").set_value(3).run()
    assert table(fresh).loc["smart", "Verdict"] == STALE


def test_a_preset_fills_the_settings() -> None:
    app = open_page("compare")
    assert app.segmented_control(key="preset-smart").value == "default"
    app.segmented_control(key="preset-smart").set_value("paper").run()
    assert app.number_input(key="set-smart-batch_size").value == 1024
    assert app.selectbox(key="set-smart-init").value == "random"
    app.number_input(key="set-smart-epochs").set_value(20).run()
    assert app.segmented_control(key="preset-smart").value == "other"
    app.segmented_control(key="preset-smart").set_value("default").run()
    assert app.number_input(key="set-smart-batch_size").value is None
    assert app.number_input(key="set-smart-epochs").value == sc.SMART().epochs


def test_settings_are_reset_to_the_defaults(fitted: AppTest) -> None:
    fitted.button(key="set-smart-reset").click().run()
    assert fitted.number_input(key="set-smart-epochs").value == sc.SMART().epochs
    assert table(fitted).loc["smart", "Verdict"] == STALE


def test_the_device_is_a_setting(fitted: AppTest) -> None:
    assert fitted.selectbox(key="set-smart-device").value == "auto"
    fitted.selectbox(key="set-smart-device").set_value("cpu").run()
    assert not fitted.exception
    assert fitted.session_state["session"].settings["smart"]["device"] == "cpu"


def test_methods_that_need_features_give_the_reason() -> None:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 3, 300)
    logits = (generator.normal(size=(300, 3)) + 2 * np.eye(3)[labels]).astype(np.float32)
    bare = LogitSet("bare *x*", Part(logits[:150], labels[:150]), Part(logits[150:], labels[150:]))
    app = open_page("compare")
    app.session_state["session"].datasets["0123456789ab"] = LoadedDataset(bare, "bare *x*", {"whole": ["bare.npz"]})
    app.run().selectbox(key="data").set_value("0123456789ab").run()
    assert not app.exception
    boxes = {box.key.removeprefix("compare-"): box for box in app.main.checkbox if box.key.startswith("compare-")}
    assert {id for id, box in boxes.items() if box.disabled} == {id for id, each in methods().items() if each.needs}
    assert "needs features" in boxes["fc"].label
    fit(app, ("ts", "gc"), seeds=1)
    assert list(table(app).index) in (["ts", "gc"], ["gc", "ts"])
    assert any("GC" in line.value and "features" in line.value for line in app.caption)


def test_the_code_runs(fitted: AppTest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    scope: dict[str, object] = {}
    exec(fitted.main.code[-1].value, scope)
    shown = table(fitted)
    result = scope["result"]
    assert isinstance(result, sc.experiments.Comparison)
    for method in QUICK:
        assert shown.loc[method, "ECE, measured"] == metric_value("ece", result.results[method].mean("ece"))
    (best,) = shown.index[shown["Verdict"] == "best"]
    assert f"best: {best}" in capsys.readouterr().out


def test_a_chain_is_fitted_and_has_settings() -> None:
    app = open_page("compare")
    app.number_input(key="seeds").set_value(1).run()
    app.selectbox(key="chain-second").set_value("ts").run()
    app = settle(app.button(key="fit-chain").click().run())
    assert not app.exception
    row = table(app).loc["svs+ts"]
    assert row["Method"] == "SVS then TS"
    assert "SVS then TS" in app.selectbox(key="settings-of").options
    app.selectbox(key="settings-of").set_value("svs+ts").run()
    app.number_input(key="set-svs+ts-first.lambda_diagonal").set_value(2.0).run()
    assert not app.exception
    assert table(app).loc["svs+ts", "Verdict"] == STALE


def test_the_interval_of_venn_abers_is_drawn_on_request(fits: list[str]) -> None:
    app = fit(open_page("compare"), {"vanilla", "vennabers"})
    app.toggle(key="show-interval").set_value(True).run()
    assert not app.exception
    (drawn,) = [chart for chart in charts(app) if any(trace.get("name") == "p0 to p1" for trace in chart["data"])]
    line = next(trace for trace in drawn["data"] if trace.get("name") == "calibrated")
    data = sc.load(sample_logits.path("digits"))
    low, high = sc.VennAbers().fit_part(data.validation).probability_interval(data.test.logits)
    confidence = softmax(data.test.logits.astype(np.float64), axis=1).max(axis=1)
    step = np.searchsorted(line["x"][::2], confidence, side="right") - 1
    found = line["customdata"][::2][step]
    same = np.isclose(found, np.stack([low, high], axis=1), atol=1e-6).all(axis=1)
    assert same.mean() > 0.99  # but for samples at the very confidence of a validation sample
