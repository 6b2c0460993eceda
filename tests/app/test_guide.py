"""The guide agrees with the registry, the paper's contradictions and the selected data set."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.special import softmax
from streamlit.testing.v1 import AppTest

import sample_logits
from smart_core.calibrators import methods
from smart_core.evaluation import METRICS
from smart_core.experiments import paper
from tests.app.driver import open_page
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def app() -> AppTest:
    app = open_page("guide")
    assert not app.error
    return app


def test_every_metric_method_and_tension_is_there(app: AppTest) -> None:
    (metrics,) = [table.value for table in app.table if "when it misleads" in table.value]
    (calibrators,) = [table.value for table in app.table if "properties" in table.value]
    assert list(metrics.index) == [metric.label for metric in METRICS.values()]
    assert metrics["when it misleads"].str.len().min() > 20
    assert list(calibrators.index) == [method.label for method in methods().values()]
    text = "\n".join(line.value for line in app.markdown).replace("\\", "")
    assert all(tension.text in text for tension in paper.TENSIONS)


def test_every_keyboard_shortcut_is_listed(app: AppTest) -> None:
    text = "\n".join(line.value for line in app.markdown)
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "pages").rglob("*.py"))
    bound = set(re.findall(r'"(Ctrl\+\w+|Esc|Alt\+\w+)"', source))
    assert bound == {"Ctrl+Enter", "Esc", "Alt+Right"}
    assert all(f"| {key} |" in text for key in ("Ctrl+Enter", "Esc", "Alt+→"))


def test_the_noise_floor_is_that_of_the_selected_data_set(app: AppTest) -> None:
    with np.load(sample_logits.path("digits")) as bundle:
        confidence = softmax(bundle["test_logits"].astype(np.float64), axis=1).max(axis=1)
    rng = np.random.default_rng(0)
    place = np.ceil(confidence * 15).astype(int)
    gaps = (rng.random((2000, len(confidence))) < confidence) - confidence
    errors = sum(np.abs(gaps[:, place == b].sum(axis=1)) for b in range(16)) / len(confidence)
    (line,) = [line.value for line in app.markdown if "On the test part of" in line.value]
    mean, high = (float(number) for number in re.findall(r"([\d.]+)\u00a0%", line)[:2])
    assert mean == pytest.approx(100 * errors.mean(), abs=0.1)
    assert high == pytest.approx(100 * np.quantile(errors, 0.95), abs=0.15)


def test_the_code_runs(app: AppTest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    exec(app.main.code[-1].value, {})
    (line,) = [line.value for line in app.markdown if "On the test part of" in line.value]
    shown = float(re.findall(r"([\d.]+)\u00a0%", line)[0])
    printed = float(re.findall(r"mean=([\d.]+)", capsys.readouterr().out)[0])
    assert shown == pytest.approx(100 * printed, abs=0.051)
