"""The ablation page without a browser."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sample_logits
import smart_core as sc
from smart_core.fitting.indicators import INDICATORS
from tests.app.driver import charts, click, load_own_file, open_page, plain_ece, run_code, session_of, settle, text_of
from tests.tolerance import binned_bound


def test_every_study_shows_its_cost() -> None:
    app = open_page("ablation")
    # objectives: 6 of TS and 6 x 3 of PTS and of SMART; indicators 6 x 3; sizes 50 100 200 500 720 x 6 methods x 3
    for fits in (42, 18, 90, 3):
        assert f"{fits} fits, about" in text_of(app)
    assert charts(app) == []


def test_indicators_and_training() -> None:
    app = settle(open_page("ablation"))
    app.number_input(key="ablation-seeds").set_value(1).run()
    click(app, "run-indicators")
    data = sc.load(sample_logits.path("digits"))
    smart = sc.SMART(indicator="entropy", seed=0).fit(data.validation.logits, data.validation.labels)
    confidence = smart.predict_proba(data.test.logits).max(axis=1)
    correct = data.test.logits.argmax(axis=1) == data.test.labels
    ece, off = plain_ece(confidence, correct), binned_bound(confidence, correct, 15)
    (dots,) = [trace for trace in charts(app)[0]["data"] if "error_x" in trace]
    drawn = np.asarray(dots["x"], dtype=float)
    assert drawn.shape == (len(INDICATORS),)
    assert np.isfinite(drawn).all()
    assert drawn[list(INDICATORS).index("entropy")] == pytest.approx(ece, abs=off)
    assert f"{100 * drawn.min():.2f}%" in text_of(app)
    assert "Lowest ECE: SMART with" in text_of(app)

    click(app, "run-traces")
    assert len(charts(app)) == 3
    assert "ECE on validation, first to last epoch:" in text_of(app)
    (traces,) = [study.result for key, study in session_of(app).studies.items() if "/traces" in key]
    assert traces.complete
    assert {len(trace) for trace in traces.runs.values()} == {300}

    app.number_input(key="ablation-seeds").set_value(2).run()
    assert "Settings changed: run again. These results were computed with seeds = 1." in text_of(app)


def test_the_tables_of_the_paper_are_shown_on_request() -> None:
    app = open_page("ablation")
    app.toggle(key="paper-objectives-shown").set_value(True)
    app.toggle(key="paper-indicators-shown").set_value(True).run()
    assert len(charts(app)) == 2
    assert all(chart["data"][0]["type"] == "heatmap" for chart in charts(app))


def test_the_code_runs(tmp_path: Path) -> None:
    app = load_own_file(open_page("ablation"), tmp_path)
    app.number_input(key="ablation-seeds").set_value(1).run()
    cheaper = {
        'metric="ece")\nprint(tables.obj': 'metric="ece", methods=["ts"], indicators=["margin"])\nprint(tables.obj',
        "['ts', 'pts', 'cts', 'spline', 'gc', 'smart']": "['ts']",
        "epochs=300": "epochs=5",
    }
    names, _ = run_code(app, cheaper)
    assert np.isfinite(names["tables"].objectives.mean("ece")).all()
    assert names["sizes"].columns[-1] == 720
