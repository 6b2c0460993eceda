"""Sets that stay in their files: shards and a large reduced set, opened by their path in the server's folder."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import smart_core as sc
from pages.shared.uploads import FOLDER_VARIABLE
from smart_core.cli import dashboard
from smart_core.data.lazy import opening
from tests.app.driver import open_page, session_of, text_of, wait
from tests.conftest import ROOT


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    (tmp_path / "shards").mkdir()
    part = sc.simulate(1600, classes=30, seed=4)
    for number, rows in enumerate(np.array_split(np.arange(1600), 12)):
        np.save(tmp_path / "shards" / f"logits_{number}.npy", part.logits[rows])
    np.save(tmp_path / "shards" / "labels.npy", part.labels)
    sc.reduce(tmp_path / "shards", tmp_path / "tokens.parquet")
    return tmp_path


def opened(name: str) -> AppTest:
    app = open_page("start")
    app.text_input(key="start-pattern").set_value(name).run()
    app.button(key="start-load").click().run()
    assert not app.exception
    for _ in range(3):  # the evaluation, then the first fit
        wait(app)
    return app


def test_shards_by_a_pattern(folder: Path):
    app = opened("shards/*")
    (own,) = session_of(app).datasets.values()
    assert (own.in_place, own.call, len(own.paths)) == (True, 'sc.open("shards/*")', 13)
    np.testing.assert_array_equal(own.data.test.labels, sc.open(folder / "shards").test.labels)
    assert "ECE of" in text_of(app)
    assert "stay in the files" in text_of(app)
    for page in ("diagnose", "compare", "margin_groups", "sensitivity", "shift", "export", "benchmark"):
        app.switch_page(f"pages/{page}.py").run()
        assert not app.exception, page
        assert not [error.value for error in app.error], page
    for page in ("temperature", "hardness", "ablation"):
        app.switch_page(f"pages/{page}.py").run()
        assert not app.exception, page


def test_a_shard_that_cannot_be_read_is_named(folder: Path):
    z = np.load(folder / "shards" / "logits_3.npy")
    z[:, 5] = np.nan
    np.save(folder / "shards" / "logits_3.npy", z)
    app = opened("shards/*")
    assert "holds NaN or infinity in row 0" in app.error[0].value
    assert app.error[0].value.startswith("logits\\_3.npy")


def test_a_large_reduced_set_stays_in_its_file(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(opening, "REDUCED_ABOVE", 1)
    app = opened("tokens.parquet")
    (own,) = session_of(app).datasets.values()
    assert (own.in_place, own.data.test.in_memory, own.data.kind) == (True, False, "reduced")
    assert "ECE of" in text_of(app)
    (given,) = dashboard.read([str(folder / "tokens.parquet")])
    assert given.in_place
    assert given.data.content_hash == own.data.content_hash


@pytest.mark.parametrize("pattern", ["../*", "/etc/*", "nothing_*.npy"])
def test_a_pattern_stays_in_the_folder(pattern: str, folder: Path):
    app = open_page("start")
    app.text_input(key="start-pattern").set_value(pattern).run()
    app.button(key="start-load").click().run()
    assert not app.exception
    assert [error.value for error in app.error]
    assert not session_of(app).datasets


def test_a_process_that_is_spawned_does_not_draw_the_app():
    # multiprocessing runs the main file, which under Streamlit is this one, before the work of a new process
    names = runpy.run_path(str(ROOT / "dashboard.py"), run_name="__mp_main__")
    assert "page" not in names
