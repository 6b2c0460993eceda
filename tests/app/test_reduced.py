"""A reduced set on every page: what works, and what says that it needs the logits of all classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import smart_core as sc
from pages.shared.navigation import NEEDS_WHOLE_ROWS
from tests.app.driver import click, open_file, plain_ece, run_code, session_of, text_of


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reduced")
    part = sc.simulate(1600, classes=120, seed=4)
    np.save(folder / "logits.npy", part.logits)
    return sc.reduce(folder / "logits.npy", folder / "tokens.parquet", labels=part.labels).path


def test_diagnose_and_start(path: Path) -> None:
    app = open_file("diagnose", path)
    data = sc.load(path)
    model = sc.evaluate(sc.Vanilla().fit_part(data.validation), data.test)
    assert {tile.label: tile.value for tile in app.metric}["ECE, measured, 15 bins"].startswith(
        f"{100 * plain_ece(model.confidence, model.correct):.2f}"
    )
    names, _ = run_code(app)
    assert names["data"].kind == "reduced"
    app.switch_page("pages/start.py").run()
    assert not app.exception
    assert "120 classes, reduced" in "\n".join(line.value for line in app.sidebar.markdown)


def test_compare_fits_what_can_run_and_export_gives_it(path: Path) -> None:
    app = open_file("compare", path)
    assert "cwECE" not in app.sidebar.selectbox(key="metric").options
    click(app, "fit-recommended")
    data = session_of(app).datasets["tokens"].data
    rows = {row.result.id: row for key, row in session_of(app).rows.items() if data.content_hash in key}
    assert "ts" in rows
    assert all(row.result.available and sc.calibrators.methods()[id].reducible for id, row in rows.items())
    app.switch_page("pages/export.py").run()
    assert not app.exception


@pytest.mark.parametrize("page", ["margin_groups", "sensitivity", "shift", "benchmark", "guide"])
def test_other_pages_open(page: str, path: Path) -> None:
    app = open_file(page, path)
    assert not app.exception
    assert "needs the logits" not in text_of(app)


@pytest.mark.parametrize("page", NEEDS_WHOLE_ROWS)
def test_pages_that_need_whole_rows_say_so_in_one_line(page: str, path: Path) -> None:
    app = open_file(page, path)
    (info,) = [info.value for info in app.info]
    assert info.startswith(f"{app.title[0].value} needs the logits of all classes; tokens holds reduced rows.")
