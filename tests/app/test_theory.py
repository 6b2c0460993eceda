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

import smart_core as sc
from pages.shared import downloads
from pages.shared.session import LeaderboardRow
from pages.shared.theory import certificate as certificate_view
from pages.shared.theory.nll import boxed_slice, direction_verdict, in_conflict
from smart_core.theory.certificate import Certificate
from smart_core.theory.nll_probe import Estimate
from tests.app.driver import (
    add_rows,
    charts,
    load_own_file,
    open_page,
    run_code,
    session_of,
    settle,
    text_of,
)


def open_view(view: str, data: str = "digits") -> AppTest:
    app = open_page("theory", data, view=view)
    assert not app.error
    return app


def test_margin_bounds_follow_the_sliders() -> None:
    app = open_view("Margin bounds")
    low, high = 2 / math.log(9 / 0.25), 2 / math.log(4)
    assert f"at a T between {low:.3f} and {high:.3f}" in text_of(app)
    assert "none of 1,000 samples lies outside the bounds" in text_of(app)
    assert len(charts(app)) == 4
    app.slider(key="theory-classes").set_value(2).run()
    assert f"at exactly T = {high:.3f}" in text_of(app)
    app.slider(key="theory-classes").set_value(10)
    app.slider(key="theory-target").set_value(0.3).run()
    assert "there is no upper bound" in text_of(app)
    app.slider(key="theory-target").set_value(0.1).run()
    assert "only if all logits are equal" in text_of(app)
    app.slider(key="theory-target").set_value(0.05).run()
    assert "no temperature gives" in text_of(app)
    assert not app.error
    assert charts(app) == []


def test_margin_bounds_on_test_samples() -> None:
    app = open_view("Margin bounds")
    app.segmented_control(key="theory-rows").set_value("Test samples").run()
    assert "none of 720 samples lies outside the bounds" in text_of(app)
    names, printed = run_code(app)
    assert names["study"].outside() == 0
    assert printed.startswith("interval")


def test_the_code_uses_the_same_test_samples_as_the_page() -> None:
    """Of 10,000 test rows a thousand are drawn evenly, not the first thousand."""
    app = open_view("Margin bounds", "cifar10")
    app.segmented_control(key="theory-rows").set_value("Test samples").run()
    names, _ = run_code(app)
    assert len(names["data"].test) > 1000 == names["study"].temperature.size
    assert f"a factor of {names['study'].spread('margin'):.2f} at equal margin" in text_of(app)
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
    said = direction_verdict(0, 1, falls, rises, Estimate(1e-4, 1e-3))
    assert "the witness itself cannot be distinguished from 0" in said
    assert in_conflict(falls, rises, Estimate(0.01, 1e-3))
    assert "but raises the witness" in direction_verdict(0, 1, falls, rises, Estimate(0.01, 1e-3))


def test_json_keeps_the_full_precision() -> None:
    frame = pd.DataFrame({"x": [1 / 3, np.inf, np.nan], "name": ["a", "b", "c"]})
    back = json.loads(downloads.json_bytes(frame))
    assert back[0] == {"x": pytest.approx(1 / 3, abs=1e-15), "name": "a"}
    assert [row["x"] for row in back[1:]] == [None, None]


def test_the_certificate_of_vanilla_and_ts_and_of_other_fitted_methods(
    digits: sc.LogitSet, fitted_rows: dict[str, LeaderboardRow]
) -> None:
    app = open_view("smCE certificate")
    assert "Every inequality of the chain holds for Vanilla and TS." in text_of(app)
    raw = digits.test.logits.astype(np.float64)
    p = 1 / np.exp(raw - raw.max(axis=1, keepdims=True)).sum(axis=1)
    exact = sc.metrics.smce(p, raw.argmax(axis=1) == digits.test.labels)
    assert f"{exact:.4f} ≤ " in text_of(app)
    assert "✗" not in text_of(app)
    _, printed = run_code(app)
    assert printed.count("True") == 8
    add_rows(app, digits, fitted_rows)
    assert "holds for Vanilla, TS and SMART." in text_of(app)
    assert list(app.selectbox(key="theory-chain").options) == ["Vanilla", "TS", "SMART"]


def test_a_violated_inequality_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = certificate_view.certificate

    def lying(*args: object, **kwargs: object) -> Certificate:
        found = honest(*args, **kwargs)  # type: ignore[arg-type]
        return Certificate(**{**vars(found), "smce": 3.0})

    monkeypatch.setattr(certificate_view, "certificate", lying)
    app = open_page("theory", "digits_corrupted", view="smCE certificate")  # not cached by another test
    assert any("Violated: Vanilla: smCE ≤ H + 2 $B_λ$" in error.value for error in app.error)
    assert "**✗ violated** Theorem" in text_of(app)


def test_a_search_finds_a_slice_that_test_confirms() -> None:
    app = open_view("NLL against calibration", "fashion_ls_0_05")
    assert len(charts(app)) == 2
    app.button(key="search-slice").click().run()
    assert not app.exception
    assert "Test confirms it: NLL falls and the witness rises, both beyond noise." in text_of(app)
    assert "lowers the NLL but raises the witness." in text_of(app)
    names, _ = run_code(app)
    data, chosen = names["data"], names["chosen"]
    # the same slice by hand: NLL a little further along s, from the softmax alone
    t = np.asarray(names["fitted"].temperatures(data.test.logits), dtype=np.float64)

    def nll(s: float) -> float:
        d = data.test.logits.astype(np.float64) / np.where(chosen, t / s, t)[:, None]
        d -= d.max(axis=1, keepdims=True)
        return float((np.log(np.exp(d).sum(axis=1)) - d[np.arange(len(d)), data.test.labels]).mean())

    slope = (nll(1 + 1e-5) - nll(1 - 1e-5)) / 2e-5
    assert slope < 0
    (shown,) = re.findall(r"dNLL/ds = (-[\d.]+) ± ", text_of(app).replace("−", "-"))
    assert float(shown) == pytest.approx(slope, abs=0.51 * 10.0 ** -len(shown.partition(".")[2]))


def test_a_search_without_a_result_is_reported() -> None:
    app = open_view("NLL against calibration")
    app.selectbox(key="theory-map").set_value("vanilla").run()
    app.button(key="search-slice").click().run()
    assert not app.exception
    assert "no slice was found whose sharpening lowers NLL and raises a witness" in text_of(app)
    app.toggle(key="theory-counterexample").set_value(True).run()
    assert "The paper's condition is met, yet NLL does not fall (dNLL/ds = 0.36" in text_of(app)


def test_the_playground_runs_becomes_stale_and_takes_a_custom_law() -> None:
    app = open_view("Playground")
    assert len(charts(app)) == 1
    app.select_slider(key="theory-n").set_value(500)
    app.slider(key="theory-seeds").set_value(1)
    app.multiselect(key="theory-methods").set_value(["vanilla", "ts"]).run()
    app.button(key="run-playground").click().run()
    settle(app)
    assert "is closest to the truth" in text_of(app)
    assert len(charts(app)) == 2
    names, _ = run_code(app)
    best = np.nanmin(names["result"].mean()[:, -1])
    assert f"{100 * best:.2f}%" in text_of(app)

    app.selectbox(key="theory-law").set_value("drawn").run()
    assert "Settings changed: run again." in text_of(app)
    app.slider(key="knot-6").set_value(6.0).run()
    assert "does not rise everywhere" in text_of(app)
    app.button(key="run-playground").click().run()
    settle(app)
    assert "Settings changed" not in text_of(app)
    assert any("playground" in key for key in session_of(app).studies)
    assert not app.error


def test_a_file_with_logits_only(tmp_path: Path) -> None:
    app = load_own_file(open_view("smCE certificate"), tmp_path)
    assert "Every inequality of the chain holds" in text_of(app)
    assert not app.error


@pytest.mark.parametrize("view", ["Margin bounds", "smCE certificate", "NLL against calibration"])
def test_the_symbols_of_a_view_are_explained_where_the_pointer_rests(view: str) -> None:
    app = open_page("theory", view=view)
    tips = [element.proto.help for kind in (app.markdown, app.subheader) for element in kind if element.proto.help]
    assert tips
    shown = "\n".join(tips)
    expected = {"Margin bounds": "**T**", "smCE certificate": r"**$ε_\text{agg}$**", "NLL against calibration": "**ψ**"}
    assert expected[view] in shown
