"""The shift page without a browser."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax
from streamlit.testing.v1 import AppTest

import sample_logits
import smart_core as sc
from tests.app.driver import buttons, charts, click, load_own_file, open_page, plain_ece, run_code, settle, text_of
from tests.tolerance import assert_within, binned_bound


def with_ts(app: AppTest) -> AppTest:
    app.multiselect(key="shift-methods").set_value(["ts"]).run()
    return settle(app)


def test_a_sample_without_groups_offers_its_corrupted_version() -> None:
    app = open_page("shift")
    assert app.button(key="open-corrupted").label == "Open Digits, corrupted"
    assert app.button(key="run-shift").disabled
    app.button(key="open-corrupted").click().run()
    app.run()
    assert app.selectbox(key="data").value == "digits_corrupted"
    assert "open-corrupted" not in buttons(app)
    assert not app.button(key="run-shift").disabled


def test_every_group_is_evaluated() -> None:
    app = click(with_ts(open_page("shift", "digits_corrupted")), "run-shift")
    data = sc.load(sample_logits.path("digits_corrupted"))
    ts = sc.TS().fit(data.validation.logits, data.validation.labels)
    temperature = float(np.asarray(ts.temperatures(data.test.logits[:1]))[0])
    names = list(dict.fromkeys(data.test.group.tolist()))
    before, after, off = [], [], []
    for name in names:
        rows = data.test.group == name
        correct = data.test.logits[rows].argmax(axis=1) == data.test.labels[rows]
        for found, t in ((before, 1.0), (after, temperature)):
            confidence = softmax(data.test.logits[rows].astype(np.float64) / t, axis=1).max(axis=1)
            found.append(plain_ece(confidence, correct))
        off.append(binned_bound(confidence, correct, 15))
    (dots,) = [trace for trace in charts(app)[0]["data"] if trace["name"] == "TS"]
    reduction = 1 - np.array(after) / np.array(before)
    assert_within(np.asarray(dots["x"], dtype=float), np.maximum(reduction, -1.0), 2 * np.array(off) / np.array(before))
    means = re.search(r"from ([\d.]+)% to ([\d.]+)%", text_of(app))
    assert means is not None
    stated = [float(number) for number in means.groups()]
    assert stated == pytest.approx([100 * np.mean(before), 100 * np.mean(after)], abs=0.0051)
    harmed = [name for name, saved in zip(names, reduction, strict=True) if saved < 0]
    assert ("makes no shift worse" in text_of(app)) == (not harmed)
    result, _ = run_code(app)
    assert_within(result["result"].mean("ece")[1], after, off)

    # accuracy is no error: nothing to reduce, and no failure either
    app.selectbox(key="metric").set_value("accuracy").run()
    assert "Accuracy is not an error" in text_of(app)
    assert len(charts(app)) == 1
    app.selectbox(key="metric").set_value("ece").run()
    app.number_input(key="shift-seeds").set_value(2).run()
    assert "Settings changed: run again. These results were computed with seeds = 3." in text_of(app)


def test_an_uploaded_file_is_evaluated_on_another_data_set(tmp_path: Path) -> None:
    app = load_own_file(open_page("shift"), tmp_path)
    app.multiselect(key="shift-others").set_value(["digits"])
    click(with_ts(app), "run-shift")
    assert "over 1 shifts" not in text_of(app)
    assert "lowers the mean ECE on Digits from" in text_of(app)
    names, _ = run_code(app)
    assert list(names["result"].columns) == ["Digits"]
