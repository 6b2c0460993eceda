"""A multiple-choice set whose rows lack classes, on every page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pages.shared.navigation import TITLES
from smart_core.experiments.running import unavailable
from tests.app.driver import click, open_file, session_of, wait
from tests.test_ragged import questions


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (val, y_val), (test, y_test) = questions(600, 0), questions(600, 1)
    target = tmp_path_factory.mktemp("ragged") / "choices.npz"
    np.savez(target, val_logits=val, val_labels=y_val, test_logits=test, test_labels=y_test)
    return target


def test_every_page_opens(path: Path) -> None:
    app = open_file("start", path)
    for file in TITLES:
        app.switch_page(file).run()
        wait(app)
        assert not app.exception
        assert [error.value for error in app.error] == [], file


def test_compare_fits_what_can_run(path: Path) -> None:
    app = open_file("compare", path)
    click(app, "fit-recommended")
    data = session_of(app).datasets["choices"].data
    found = [row.result for key, row in session_of(app).rows.items() if data.content_hash in key]
    assert "smart" in {result.id for result in found}
    assert all(result.available and unavailable(result.id, data) is None for result in found)
