"""Every layout of predictions opens on the page and on the command line, without a flag but for `--group`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from smart_core.cli import main
from tests.app.driver import open_page, session_of
from tests.data.layouts import ACCURACY, LAYOUTS, ROWS


@pytest.mark.parametrize("name", LAYOUTS)
def test_on_the_command_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = LAYOUTS[name]
    for path, content in layout.files.items():
        (tmp_path / "set" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / path).write_bytes(content)
    source = tmp_path / "set" if layout.folder else tmp_path / "set" / next(iter(layout.files))
    command = ["inspect", str(source), "--json", "-"]
    if layout.group is not None:
        assert main(command) == 2
        assert "choose one with --group" in capsys.readouterr().err
        command += ["--group", layout.group]
    assert main(command) == 0
    card = json.loads(capsys.readouterr().out)
    parts = card["validation"], card["test"]
    assert card["kind"] == layout.kind
    assert sum(part["samples"] for part in parts) == ROWS
    assert sum(part["samples"] * part["accuracy"] for part in parts) / ROWS == pytest.approx(ACCURACY)


@pytest.fixture(scope="module")
def app() -> AppTest:
    return open_page("start")


@pytest.mark.parametrize("name", LAYOUTS)
def test_on_the_page(name: str, app: AppTest) -> None:
    layout = LAYOUTS[name]
    for uploader in app.file_uploader:
        if uploader.key in ("start-files", "start-folder") and uploader.value:
            uploader.set_value([]).run()
    prefix = "set/" if layout.folder else ""
    files = [(f"{prefix}{path}", content, "application/octet-stream") for path, content in layout.files.items()]
    app.file_uploader(key="start-folder" if layout.folder else "start-files").set_value(files)
    app.run()
    if layout.group is not None:
        app.selectbox(key="start-group").set_value(layout.group).run()
    assert not app.exception
    assert not app.error
    data = session_of(app).datasets[app.selectbox(key="data").value].data
    parts = data.validation, data.test
    assert data.kind == layout.kind
    assert sum(len(part) * part.accuracy for part in parts) / ROWS == pytest.approx(ACCURACY)
