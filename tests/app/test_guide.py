"""The guide agrees with the registry, the paper's contradictions and the selected data set."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.special import softmax
from streamlit.testing.v1 import AppTest

import sample_logits
from pages.shared import glossary
from pages.shared.glossary import TERMS
from smart_core.calibrators import methods
from smart_core.evaluation import METRICS
from smart_core.experiments import paper
from tests.app.driver import open_page
from tests.conftest import ROOT


def screen(topic: str) -> AppTest:
    """Open a screen of the guide."""
    app = open_page("guide", topic=topic)
    assert not app.error
    assert app.radio(key="topic").value == topic
    return app


def text(app: AppTest) -> str:
    return "\n".join(line.value for line in app.markdown)


@pytest.fixture(scope="module")
def app() -> AppTest:
    return screen("Noise")


def test_every_screen_answers_its_question() -> None:
    app = screen("Calibration")
    for topic in app.radio(key="topic").options:
        app.radio(key="topic").set_value(topic).run()
        assert not app.error
        assert app.header[0].value.endswith("?")
        assert len(text(app)) > 200 or app.table or app.main.code


def test_every_metric_method_and_tension_is_there() -> None:
    (metrics,) = (table.value for table in screen("Metrics").table)
    assert list(metrics.index) == [metric.label for metric in METRICS.values()]
    assert metrics["when it misleads"].str.len().min() > 20
    calibrators, departures = (line.value for line in screen("Methods").markdown if line.value.startswith("- **"))
    assert re.findall(r"^- \*\*(.*?)\*\*: ", calibrators, re.MULTILINE) == [each.label for each in methods().values()]
    assert "- **PTS**: The default starts at the temperature of TS" in departures
    assert "**Vanilla**" not in departures
    assert ">>>" not in departures
    shown = text(screen("The paper")).replace("\\", "")
    assert all(tension.text in shown for tension in paper.TENSIONS)


def test_every_keyboard_shortcut_is_listed() -> None:
    shown = text(screen("Keyboard"))
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "pages").rglob("*.py"))
    bound = set(re.findall(r'"(Ctrl\+\w+|Esc|Alt\+\w+)"', source))
    assert bound == {"Ctrl+Enter", "Esc", "Alt+Right"}
    assert all(f"| {key} |" in shown for key in ("Ctrl+Enter", "Esc", "Alt+→"))


def test_a_link_to_a_term_opens_its_meaning() -> None:
    app = open_page("guide", topic="Glossary", term="noise-floor")
    assert f"**noise floor**: {TERMS['noise floor']}" in [line.value for line in app.markdown]


def test_terms_are_linked_once_and_code_is_left_alone() -> None:
    linked = glossary.linked("The ECE and its noise floor: `ECE` is an ECE, not the AdaECE.")
    address = "guide?topic=Glossary&term="
    assert linked == (
        f"The [ECE]({address}ece) and its [noise floor]({address}noise-floor): `ECE` is an ECE, not the "
        f"[AdaECE]({address}adaece)."
    )
    assert glossary.linked("of_margin [margin](x) pre-margin") == "of_margin [margin](x) pre-margin"


@pytest.mark.parametrize("page", ["diagnose", "margin_groups", "temperature", "hardness", "sensitivity"])
def test_every_link_of_a_page_leads_to_a_term(page: str) -> None:
    app = open_page(page)
    lines = [line.value for line in (*app.markdown, *app.caption)]
    found = set(re.findall(r"guide\?topic=Glossary&term=([\w-]+)", "\n".join(lines)))
    assert found
    assert found <= {glossary.anchor(name) for name in TERMS}


def test_the_noise_floor_is_that_of_the_selected_data_set(app: AppTest) -> None:
    with np.load(sample_logits.path("digits")) as bundle:
        confidence = softmax(bundle["test_logits"].astype(np.float64), axis=1).max(axis=1)
    rng = np.random.default_rng(0)
    place = np.ceil(confidence * 15).astype(int)
    gaps = (rng.random((2000, len(confidence))) < confidence) - confidence
    errors = sum(np.abs(gaps[:, place == b].sum(axis=1)) for b in range(16)) / len(confidence)
    (line,) = [line.value for line in app.markdown if "On the test part of" in line.value]
    mean, high = (float(number) for number in re.findall(r"([\d.]+)%", line)[:2])
    assert mean == pytest.approx(100 * errors.mean(), abs=0.1)
    assert high == pytest.approx(100 * np.quantile(errors, 0.95), abs=0.15)


def test_the_code_runs(app: AppTest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    exec(app.main.code[-1].value, {})
    (line,) = [line.value for line in app.markdown if "On the test part of" in line.value]
    shown = float(re.findall(r"([\d.]+)%", line)[0])
    printed = float(re.findall(r"mean=([\d.]+)", capsys.readouterr().out)[0])
    assert shown == pytest.approx(100 * printed, abs=0.051)
