"""The theory page without a browser."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

import sample_logits
import smart_core as sc
from pages.shared import downloads, theory_certificate
from pages.shared.theory_probe import boxed_slice, direction_sentence, in_conflict
from smart_core.theory.certificate import Certificate
from smart_core.theory.nll_probe import Estimate
from tests.app.studying import bring, charts, click, desk, run_snippet, settle, words
from tests.conftest import ROOT


def open_view(view: str, data: str = "digits") -> AppTest:
    app = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=120)
    app.query_params["data"] = data
    app.query_params["view"] = view
    app.run()
    app.switch_page("pages/theory.py").run()
    assert not app.exception
    assert not app.error
    return app


def test_margin_bounds_follow_the_sliders() -> None:
    app = open_view("Margin bounds")
    low, high = 2 / math.log(9 / 0.25), 2 / math.log(4)
    assert f"at a T between {low:.3f} and {high:.3f}" in words(app)
    assert "none of 1,000 rows lies outside the bounds" in words(app)
    assert len(charts(app)) == 4
    app.slider(key="theory-classes").set_value(2).run()
    assert f"at exactly T = {high:.3f}" in words(app)
    app.slider(key="theory-classes").set_value(10)
    app.slider(key="theory-target").set_value(0.3).run()
    assert "there is no upper bound" in words(app)
    app.slider(key="theory-target").set_value(0.1).run()
    assert "only where all logits are equal" in words(app)
    app.slider(key="theory-target").set_value(0.05).run()
    assert "no temperature gives" in words(app)
    assert not app.error
    assert charts(app) == []


def test_margin_bounds_on_the_loaded_data() -> None:
    app = open_view("Margin bounds")
    app.segmented_control(key="theory-rows").set_value("The loaded data").run()
    assert "none of 720 rows lies outside the bounds" in words(app)
    names, printed = run_snippet(app)
    assert names["study"].outside() == 0
    assert printed.startswith("interval")


def test_the_python_of_the_loaded_data_takes_the_rows_of_the_page() -> None:
    """Of 10,000 test rows a thousand are drawn evenly, not the first thousand."""
    app = open_view("Margin bounds", "cifar10")
    app.segmented_control(key="theory-rows").set_value("The loaded data").run()
    names, _ = run_snippet(app)
    assert len(names["data"].test) > 1000 == names["study"].temperature.size
    assert f"a factor of {names['study'].spread('margin'):.2f} at equal margin" in words(app)
    assert names["rows"][-1] == len(names["data"].test) - 1


def test_a_box_on_the_chart_is_a_slice_within_the_slider() -> None:
    assert boxed_slice([], 20.0) is None
    assert boxed_slice([{"x": [3.204, 1.0]}], 20.0) == (1.0, 3.2)
    assert boxed_slice([{"x": [-1.0, 99.0]}], 20.0) == (0.0, 20.0)
    assert boxed_slice([{"x": [2.001, 2.002]}], 20.0) is None
    assert boxed_slice([{"x": [0, 1]}, {"x": [4, 6]}], 20.0) == (4.0, 6.0)  # the newest


def test_a_witness_within_noise_of_zero_has_no_direction() -> None:
    """Its sign is open, so that what raises its absolute value on one sample lowers it on another."""
    falls, rises = Estimate(-0.1, 0.01), Estimate(0.1, 0.01)
    assert not in_conflict(falls, rises, Estimate(1e-4, 1e-3))
    said = direction_sentence(0, 1, falls, rises, Estimate(1e-4, 1e-3))
    assert "moves a witness that noise cannot tell from 0" in said
    assert in_conflict(falls, rises, Estimate(0.01, 1e-3))
    assert "yet raises the witness" in direction_sentence(0, 1, falls, rises, Estimate(0.01, 1e-3))


def test_numbers_of_a_chart_as_json_keep_every_digit() -> None:
    frame = pd.DataFrame({"x": [1 / 3, np.inf, np.nan], "name": ["a", "b", "c"]})
    back = json.loads(downloads.json_bytes(frame))
    assert back[0] == {"x": pytest.approx(1 / 3, abs=1e-15), "name": "a"}
    assert [row["x"] for row in back[1:]] == [None, None]


def test_the_certificate_of_vanilla_and_ts_at_once_and_of_others_once_fitted() -> None:
    app = open_view("smCE certificate")
    assert "Every inequality of the chain holds for Vanilla and TS." in words(app)
    data = sc.load(sample_logits.path("digits"))
    raw = data.test.logits.astype(np.float64)
    p = 1 / np.exp(raw - raw.max(axis=1, keepdims=True)).sum(axis=1)
    exact = sc.metrics.smce(p, raw.argmax(axis=1) == data.test.labels)
    assert f"{exact:.4f} ≤ " in words(app)
    assert "✗" not in words(app)
    _, printed = run_snippet(app)
    assert printed.count("True") == 8
    app.switch_page("pages/temperature.py").run()
    click(app, "fit-curve")
    app.query_params["view"] = "smCE certificate"
    app.switch_page("pages/theory.py").run()
    assert "holds for Vanilla, TS and SMART." in words(app)
    assert list(app.selectbox(key="theory-chain").options) == ["Vanilla", "TS", "SMART"]


def test_a_violated_inequality_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = theory_certificate.certificate

    def lying(*args: object, **kwargs: object) -> Certificate:
        found = honest(*args, **kwargs)  # type: ignore[arg-type]
        return Certificate(**{**vars(found), "smce": 3.0})

    monkeypatch.setattr(theory_certificate, "certificate", lying)
    app = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=120)
    app.query_params["data"] = "digits_corrupted"  # whose certificates no other test has put into the memory
    app.query_params["view"] = "smCE certificate"
    app.run()
    app.switch_page("pages/theory.py").run()
    assert any("Violated: Vanilla: smCE ≤ H + 2 B_λ" in error.value for error in app.error)
    assert "**✗ violated** Theorem" in words(app)


def test_a_searched_slice_is_confirmed_on_test_and_drawn() -> None:
    app = open_view("NLL against calibration", "fashion_ls_0_05")
    assert len(charts(app)) == 2
    app.button(key="search-slice").click().run()
    assert not app.exception
    assert "On test it holds: NLL falls and the witness rises, both beyond noise." in words(app)
    assert "lowers the NLL yet raises the witness." in words(app)
    names, _ = run_snippet(app)
    data, chosen = names["data"], names["chosen"]
    # the same slice by hand: NLL a little further along s, from the softmax alone
    t = np.asarray(names["fitted"].temperatures(data.test.logits), dtype=np.float64)

    def nll(s: float) -> float:
        d = data.test.logits.astype(np.float64) / np.where(chosen, t / s, t)[:, None]
        d -= d.max(axis=1, keepdims=True)
        return float((np.log(np.exp(d).sum(axis=1)) - d[np.arange(len(d)), data.test.labels]).mean())

    slope = (nll(1 + 1e-5) - nll(1 - 1e-5)) / 2e-5
    assert slope < 0
    (shown,) = re.findall(r"dNLL/ds = (-[\d.]+e-\d+)", words(app))
    assert float(shown) == pytest.approx(slope, rel=0.0051)  # two digits behind the point


def test_where_nothing_is_found_the_page_says_so() -> None:
    app = open_view("NLL against calibration")
    app.selectbox(key="theory-map").set_value("vanilla").run()
    app.button(key="search-slice").click().run()
    assert not app.exception
    assert "no slice whose sharpening lowers NLL and raises a witness" in words(app)
    app.toggle(key="theory-counterexample").set_value(True).run()
    assert "The paper's condition is met, and yet NLL does not fall (dNLL/ds = 3.57e-01" in words(app)


def test_the_playground_runs_is_stale_when_changed_and_takes_a_drawn_law() -> None:
    app = open_view("Playground")
    assert len(charts(app)) == 1
    app.select_slider(key="theory-n").set_value(500)
    app.slider(key="theory-seeds").set_value(1)
    app.multiselect(key="theory-methods").set_value(["vanilla", "ts"]).run()
    app.button(key="run-playground").click().run()
    settle(app)
    assert "is nearest to the truth" in words(app)
    assert len(charts(app)) == 2
    names, _ = run_snippet(app)
    best = np.nanmin(names["result"].mean()[:, -1])
    assert f"{100 * best:.2f}\u00a0%" in words(app)

    app.selectbox(key="theory-law").set_value("drawn").run()
    assert "Settings changed: run again." in words(app)
    app.slider(key="knot-6").set_value(6.0).run()
    assert "does not rise everywhere" in words(app)
    app.button(key="run-playground").click().run()
    settle(app)
    assert "Settings changed" not in words(app)
    assert any("playground" in key for key in desk(app).studies)
    assert not app.error


def test_a_file_with_logits_only(tmp_path: Path) -> None:
    app = bring(open_view("smCE certificate"), tmp_path)
    assert "Every inequality of the chain holds" in words(app)
    assert not app.error
