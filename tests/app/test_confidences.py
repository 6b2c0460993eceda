"""A table of confidences without logits on every page: what works, and what says that it needs logits."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import smart_core as sc
from pages.shared import quick_fit
from pages.shared.navigation import NEEDS_LOGITS
from pages.shared.session import NEXT_DATASET, LoadedDataset
from pages.shared.sources import SOURCES
from tests.app.driver import click, open_file, open_page, plain_ece, run_code, session_of, text_of


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    confidence = np.round(rng.beta(5, 2, 2000), 3)
    site = np.where(rng.random(2000) < 0.3, "north", "south")
    correct = rng.random(2000) < confidence ** np.where(site == "north", 3.0, 1.2)
    table = pd.DataFrame({"confidence": confidence, "correct": correct, "site": site, "age": rng.normal(40, 9, 2000)})
    target = tmp_path_factory.mktemp("tables") / "judge.csv"
    table.to_csv(target, index=False)
    return target


def test_diagnose_slices_by_any_column(path: Path) -> None:
    app = open_file("diagnose", path)
    data = sc.load(path)
    assert {tile.label: tile.value for tile in app.metric}["ECE, measured, 15 bins"].startswith(
        f"{100 * plain_ece(data.test.confidence, data.test.correct):.2f}"
    )
    assert "The margin needs logits" in text_of(app)
    assert app.selectbox(key="slice-column").options == ["site", "age"]
    assert "By site, worst is north" in text_of(app)
    app.selectbox(key="slice-column").set_value("age").run()
    assert not app.exception
    assert "By age, " in text_of(app)
    names, printed = run_code(app)
    assert names["data"].kind == "confidence"
    assert printed


def test_compare_fits_what_can_run(path: Path) -> None:
    app = open_file("compare", path)
    click(app, "fit-recommended")
    data = session_of(app).datasets["judge"].data
    rows = {id: row for key, row in session_of(app).rows.items() for id in [row.result.id] if data.content_hash in key}
    assert set(rows) == {id for id, method in sc.calibrators.methods().items() if method.top_label}
    assert all(row.result.available for row in rows.values())
    assert app.button(key="next-page").label == "Next: Shift →"
    app.switch_page("pages/export.py").run()
    assert not app.exception
    assert "predict_confidence(confidence)" in "\n".join(block.value for block in app.code)


def test_export_offers_a_method_that_can_run(path: Path, tmp_path: Path) -> None:
    app = open_file("export", path)
    assert app.button(key="export-fit").label == "Fit Isotonic"
    click(app, "export-fit")
    shown = text_of(app)
    assert "Confidences in, calibrated confidences out" in shown
    assert "Calibrated confidences of the test part" in [each.value for each in app.subheader]
    names, _ = run_code(app, {'save("': f'save("{tmp_path.as_posix()}/'})
    assert names["calibrator"].id == "isotonic"


@pytest.mark.parametrize("page", NEEDS_LOGITS)
def test_pages_that_need_logits_say_so_in_one_line(page: str, path: Path) -> None:
    app = open_file(page, path)
    assert [info.value for info in app.info] == [
        f"{app.title[0].value} needs logits; judge holds confidences alone. Compare and Diagnose work with them."
    ]


def test_shift_over_a_column(path: Path) -> None:
    app = open_file("shift", path)
    app.selectbox(key="shift-by").set_value("site").run()
    app.multiselect(key="shift-methods").set_value(["beta"]).run()
    click(app, "run-shift")
    assert "Beta" in text_of(app)
    assert "ts" not in app.multiselect(key="shift-methods").options


def test_start_shows_a_repair_and_where_files_come_from(path: Path) -> None:
    app = open_file("start", path)
    assert "confidences without logits" in "\n".join(line.value for line in app.sidebar.markdown)
    assert f"**After {sc.calibrators.methods()[quick_fit.method(sc.load(path))].label}" in text_of(app)
    app.selectbox(key="source").set_value("Confidences without logits").run()
    assert 'table.to_csv("judge.csv", index=False)' in "\n".join(block.value for block in app.code)


def test_classwise_metrics_are_not_offered(path: Path) -> None:
    app = open_file("compare", path)
    assert "cwECE" not in app.sidebar.selectbox(key="metric").options
    app = open_page("compare", metric="cece")
    assert "cwECE" in app.sidebar.selectbox(key="metric").options
    session_of(app).datasets["judge"] = LoadedDataset(sc.load(path), "judge", {"whole": [str(path)]})
    app.session_state[NEXT_DATASET] = "judge"
    app.run()
    assert not app.exception
    assert app.sidebar.selectbox(key="metric").value == "ece"


@pytest.mark.parametrize("source", [name for name, (_, code) in SOURCES.items() if code.startswith("import")])
def test_the_lines_that_make_a_file_run(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    z, y, x = rng.normal(size=(60, 3)), rng.integers(0, 3, 60), rng.normal(size=(60, 2))
    loader = [(torch.randn(20, 4), torch.arange(20) % 3)]
    names = {
        "model": LogisticRegression().fit(x, y) if source.startswith("scikit") else torch.nn.Linear(4, 3),
        **{"val_loader": loader, "test_loader": loader, "validation": (z, y), "test": (z, y)},
        **{"trainer": SimpleNamespace(predict=lambda rows: rows), "z_val": z, "y_val": y, "z_test": z, "y_test": y},
        **{"X_val": x, "X_test": x, "confidence": rng.random(60), "prediction": y, "label": y[::-1], "site": y},
    }
    exec(SOURCES[source][1], names)
    (written,) = [each for each in tmp_path.iterdir() if each.is_file()]
    assert sc.load(written).kind == ("confidence" if written.suffix == ".csv" else "logits")
