"""The first page without a browser."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax
from streamlit.testing.v1 import AppTest

import sample_logits
from pages.shared.wording import percent, verdict
from tests.conftest import ROOT


@pytest.fixture
def app() -> AppTest:
    return AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=120).run()


def shown(app: AppTest) -> dict[str, str]:
    return {tile.label: tile.value for tile in app.metric}


def test_opens_on_the_bundled_sample(app: AppTest) -> None:
    assert not app.exception
    assert app.title[0].value == "Diagnose"
    assert any("fitted on **719**, judged on **719**" in line.value for line in app.sidebar.markdown)
    assert any(line.value.startswith("#### Too confident") for line in app.markdown)


def test_figures_are_those_of_the_file(app: AppTest) -> None:
    with np.load(sample_logits.path("digits")) as bundle:
        probabilities = softmax(bundle["test_logits"].astype(np.float64), axis=1)
        hit = probabilities.argmax(axis=1) == bundle["test_labels"]
    confidence = probabilities.max(axis=1)
    tiles = shown(app)
    assert tiles["Accuracy"] == percent(hit.mean())
    assert tiles["Mean confidence"] == percent(confidence.mean())
    bin_of = np.ceil(confidence * 15).astype(int)
    ece = sum(abs((confidence - hit)[bin_of == b].sum()) for b in range(16)) / len(hit)
    assert tiles["ECE, 15 bins"] == percent(ece)


def test_interval_and_floor_are_shown(app: AppTest) -> None:
    tiles = {tile.label: tile for tile in app.metric}
    low, high = (float(side.rstrip("%\u00a0")) for side in tiles["ECE, 15 bins"].delta.split(" – "))
    # far from calibrated: the interval of the true ECE lies above the floor and around the estimate
    assert 1.4 < low < 5.2 < high < 9
    assert 0.5 < float(tiles["Noise floor"].value.rstrip("%\u00a0")) < 1.5


def test_bins_change_the_table(app: AppTest) -> None:
    app.slider(key="bins").set_value(10).run()
    assert "ECE, 10 bins" in shown(app)
    bars = _trace(app, "bar")
    assert len(_numbers(bars["y"])) == 10
    assert _numbers(bars["y"]).sum() == 719


def _trace(app: AppTest, kind: str) -> dict[str, Any]:
    spec = json.loads(app.get("plotly_chart")[0].proto.spec)
    (found,) = [trace for trace in spec["data"] if trace["type"] == kind]
    return found


def _numbers(column: Any) -> np.ndarray:
    import base64

    if isinstance(column, dict):
        return np.frombuffer(base64.b64decode(column["bdata"]), dtype=column["dtype"])
    return np.asarray(column)


@pytest.mark.parametrize(
    ("ece", "confidence", "accuracy", "words"),
    [
        (0.01, 0.95, 0.94, "No miscalibration can be seen"),
        (0.05, 0.95, 0.90, "Too confident:"),
        (0.05, 0.80, 0.85, "Not confident enough:"),
        (0.05, 0.81, 0.80, "Too confident in some ranges"),
    ],
)
def test_verdict(ece: float, confidence: float, accuracy: float, words: str) -> None:
    assert verdict(ece, 0.015, confidence, accuracy, 1000).startswith(words)
