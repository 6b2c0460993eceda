"""Diagnose without a browser."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax
from streamlit.testing.v1 import AppTest

import sample_logits
import smart_core as sc
from pages.shared.session import LoadedDataset
from smart_core.data.logitset import Notice
from smart_core.evaluation import FURTHER, HEADLINE, MEASURED_AND_TRUE, METRICS, TRUE_RANGE, metric_value
from smart_core.formatting import percent
from tests.app.driver import open_page, plain_ece
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def app() -> AppTest:
    """The page, for tests that only read it."""
    return open_page("diagnose")


def shown(app: AppTest) -> dict[str, str]:
    return {tile.label: tile.value for tile in app.metric}


def test_a_new_session_opens_with_a_verdict() -> None:
    app = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=120).run()
    assert not app.exception
    assert app.title[0].value == "Start"
    assert any(line.value.startswith("#### ") for line in app.main.markdown)


def test_opens_on_a_bundled_sample(app: AppTest) -> None:
    assert not app.exception
    assert app.title[0].value == "Diagnose"
    assert any("tested on **720** samples" in line.value for line in app.sidebar.markdown)
    assert any(line.value.startswith("#### Overconfident") for line in app.markdown)


def test_the_metrics_are_those_of_the_file(app: AppTest) -> None:
    with np.load(sample_logits.path("digits")) as bundle:
        probabilities = softmax(bundle["test_logits"].astype(np.float64), axis=1)
        hit = probabilities.argmax(axis=1) == bundle["test_labels"]
    confidence = probabilities.max(axis=1)
    tiles = shown(app)
    assert tiles["Accuracy"] == percent(hit.mean())
    assert tiles["Mean confidence"] == percent(confidence.mean())
    assert tiles["ECE, measured, 15 bins"] == metric_value("ece", plain_ece(confidence, hit))


def test_the_interval_and_the_floor_are_shown(app: AppTest) -> None:
    tiles = {tile.label: tile for tile in app.metric}
    low, high = (float(side.rstrip("%")) for side in tiles[f"ECE, {TRUE_RANGE}"].value.split("–"))
    assert {tile.help for tile in tiles.values() if tile.help} == {MEASURED_AND_TRUE}
    # far from calibrated: the interval of the true ECE lies above the floor and around the estimate
    assert 1.0 < low < 4.3 < high < 8
    assert 0.5 < float(tiles["Noise floor"].value.rstrip("%\u00a0")) < 1.5


def test_bins_change_the_table() -> None:
    app = open_page("diagnose")
    app.slider(key="bins").set_value(10).run()
    assert "ECE, measured, 10 bins" in shown(app)
    bars = _trace(app, "bar")
    assert len(_numbers(bars["y"])) == 10
    assert _numbers(bars["y"]).sum() == 720


def _trace(app: AppTest, kind: str) -> dict[str, Any]:
    spec = json.loads(app.get("plotly_chart")[0].proto.spec)
    (found,) = [trace for trace in spec["data"] if trace["type"] == kind]
    return found


def _numbers(column: Any) -> np.ndarray:
    import base64

    if isinstance(column, dict):
        return np.frombuffer(base64.b64decode(column["bdata"]), dtype=column["dtype"])
    return np.asarray(column)


def test_every_metric_has_its_interval() -> None:
    app = open_page("diagnose")
    app.session_state["every-metric-box"] = True
    app.run()
    (found,) = [each.value for each in app.dataframe if TRUE_RANGE in each.value]
    figures = found.set_index("metric")
    assert list(figures.index) == [
        *(METRICS[name].label for name in HEADLINE),
        *(described.label for described in FURTHER.values()),
    ]
    assert figures["meaning"].str.endswith("No interval.").sum() == len(FURTHER)
    with np.load(sample_logits.path("digits")) as bundle:
        probabilities = softmax(bundle["test_logits"].astype(np.float64), axis=1)
        labels = bundle["test_labels"]
    of_label = probabilities[np.arange(len(labels)), labels]
    assert figures.loc["NLL", "measured"] == f"{-np.log(of_label).mean():.4f}"
    assert figures.loc["Brier", "measured"] == f"{((probabilities - np.eye(10)[labels]) ** 2).sum(axis=1).mean():.4f}"
    assert figures.loc["NLL", "noise floor"] == ""
    assert figures.loc["ECE", "noise floor"].endswith("%")


def test_notices_of_the_data_are_shown() -> None:
    app = open_page("diagnose")
    data = sc.load(sample_logits.path("digits"))
    noted = replace(data, notices=(Notice("odd", "Something *odd* was found."),))
    app.session_state["session"].datasets["0123456789ab"] = LoadedDataset(noted, "noted", {"whole": ["noted.npz"]})
    app.run().selectbox(key="data").set_value("0123456789ab").run()
    assert [box.value for box in app.main.info] == [r"Something \*odd\* was found."]


def test_the_code_prints_the_ece_of_the_page(
    app: AppTest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    exec(app.main.code[-1].value, {})
    printed = float(capsys.readouterr().out.split()[0])
    assert metric_value("ece", printed) == shown(app)["ECE, measured, 15 bins"]
