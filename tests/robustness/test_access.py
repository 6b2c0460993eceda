"""Who may reach what: the address, the server's folder, the size of uploads; and no name from a file becomes markup."""

from __future__ import annotations

import ast
import csv
import html
import io
import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

import smart_core as sc
from pages.shared import downloads, loading, uploads
from pages.shared.components import plain_text
from smart_core.cli import main
from smart_core.experiments.results import SeedTable
from smart_core.experiments.shift import Shift
from smart_core.figures.chart import without_formulas
from smart_core.figures.seed_tables import shift_heatmap
from smart_core.figures.shift import reduction_dots
from smart_core.figures.theme import plain
from tests.app.driver import load_own_file, open_page
from tests.conftest import ROOT
from tests.data.files import npz
from tests.robustness.arrays import Y, Z
from tests.robustness.names import HOSTILE_NAMES, SCRIPT

LOOPBACK = ("127.0.0.1", "localhost", "::1")
CONFIG = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())
RAW_TAG = re.compile(r"<(?!/?(b|i|br|sub|sup|extra|span|a)\b)[a-zA-Z!/]", re.IGNORECASE)
"""A tag that the figures do not write themselves."""
PAGE_FILES = sorted([ROOT / "dashboard.py", *(ROOT / "pages").rglob("*.py")])


def test_binds_to_loopback_and_limits_uploads() -> None:
    server = CONFIG["server"]
    assert server["address"] in LOOPBACK
    assert server["maxUploadSize"] <= 1024
    assert server.get("enableXsrfProtection", True)
    assert server.get("enableCORS", True)
    assert not server.get("enableStaticServing", False)
    assert CONFIG["browser"]["gatherUsageStats"] is False
    assert CONFIG["client"]["showErrorDetails"] == "none"


def test_no_more_files_than_one_data_set_has() -> None:
    one = ("a.npz", npz(logits=Z, labels=Y))
    many = uploads.UploadedFiles(whole=(one,) * (uploads.MAX_FILES + 1), ids=("many",))
    read = loading.read(many, {})
    assert read.data is None
    assert f"more than {uploads.MAX_FILES}" in str(read.error)


@pytest.mark.counts("access: places that lead out of the server's folder")
@pytest.mark.parametrize(
    "place",
    ["../secret.npz", "in/../../secret.npz", "/etc/passwd", "in/link.npz", "linked/secret.npz", "in//../../secret.npz",
     "./../secret.npz", "in/./../../secret.npz", "..", "in/%2e%2e/secret.npz", "file:///etc/passwd", "~root/x.npz",
     "in/..\\..\\secret.npz", "\\\\?\\C:\\x", "in/loop/a.npz", "in/loop", "fifo.npz", "x" * 5000, "\ud800.npz",
     "in/a.npz/", "in/a.npz/.", "in/A\u0300.npz"],
)  # fmt: skip
def test_no_path_leaves_the_servers_folder(place: str, tmp_path: Path) -> None:
    """Only plain files below it, without a link on the way; no listing shows anything else."""
    folder = tmp_path / "open"
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "a.npz").write_bytes(b"x")
    (tmp_path / "secret.npz").write_bytes(b"secret")
    (folder / "in" / "link.npz").symlink_to(tmp_path / "secret.npz")
    (folder / "in" / "loop").symlink_to(folder / "in")
    (folder / "linked").symlink_to(tmp_path)
    os.mkfifo(folder / "fifo.npz")
    assert uploads.server_files(folder) == ["in/a.npz"]
    said = ""
    try:
        handed = uploads.from_server(folder, [place])
    except sc.LogitFileError as refusal:
        said = str(refusal)
    if said:
        assert said.isprintable()
        assert str(tmp_path) not in said
    else:
        assert place.startswith("in/a.npz/")  # another spelling of the file itself
        assert handed.whole == (folder / "in" / "a.npz",)


def test_pages_write_no_html() -> None:
    """`unsafe_allow_html` is nowhere, and `st.html` is given constants only: no user text can reach either."""
    for path in PAGE_FILES:
        tree = ast.parse(path.read_text())
        constants = {
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            allowed = [word for word in node.keywords if word.arg == "unsafe_allow_html"]
            assert not allowed, f"{path.name}:{node.lineno}"
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("html", "iframe", "declare_component", "write_stream"):
                (given,) = node.args
                fixed = isinstance(given, ast.Constant) or (isinstance(given, ast.Name) and given.id in constants)
                assert fixed, f"{path.name}:{node.lineno} gives {name} what is not a constant"


@pytest.mark.counts("access: hostile names on pages and in figures")
@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_markdown_shows_names_unchanged(name: str) -> None:
    """Every mark of Markdown, HTML and formulas is escaped, and the text is on one line."""
    shown = plain_text(name)
    assert "\n" not in shown
    for mark in "<>[]`*_$\\":
        for found in re.finditer(re.escape(mark), shown):
            before = shown[: found.start()]
            escaped = (len(before) - len(before.rstrip("\\"))) % 2 == 1
            assert escaped or mark == "\\", (name, shown)


@pytest.mark.counts("access: hostile names on pages and in figures")
@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_figures_show_names_unchanged(name: str) -> None:
    """Plotly reads tags, entities, `%{...}` and `$...$`: none of them may come from a name."""
    shown = plain(name)
    assert "<" not in shown
    assert "%{" not in shown
    assert "$" not in shown
    assert html.unescape(shown).startswith(" ".join(name.split())[:20])


def shifted(groups: tuple[str, ...]) -> Shift:
    shift = Shift(**vars(SeedTable.empty("method", "target", ("vanilla", "ts"), groups, 1, ("ece",))))
    shift.metrics["ece"][:, :, 0] = 0.1
    return shift


def strings(node: Any) -> list[str]:
    if isinstance(node, dict):
        return [text for item in node.values() for text in strings(item)]
    if isinstance(node, list):
        return [text for item in node for text in strings(item)]
    return [node] if isinstance(node, str) else []


@pytest.mark.parametrize("draw", [reduction_dots, shift_heatmap])
def test_group_names_in_figures_and_their_tables(draw: Any) -> None:
    names = tuple(name for name in HOSTILE_NAMES if name.strip() and name.isprintable())
    chart = draw(shifted(names), "ece")
    for text in strings(json.loads(chart.figure.to_json())):
        assert not RAW_TAG.search(text), text
        assert "javascript:" not in text or "&lt;a" in text or "](javascript" in text
    cells = [cell for row in csv.reader(io.StringIO(chart.table.to_csv(index=False))) for cell in row]
    assert [cell for cell in cells if cell.startswith(("=", "+", "-", "@")) and not _number(cell)] == []
    assert any(cell == "'=1+1" for cell in cells)


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_csv_files_hold_no_formulas() -> None:
    frame = pd.DataFrame({"group": ["=1+1", "+x", "-y", "@z", "fine", "-3", None], "=name": range(7), "x": [-1.5] * 7})
    safe = without_formulas(frame)
    assert safe["group"].tolist()[:6] == ["'=1+1", "'+x", "'-y", "'@z", "fine", "-3"]
    assert list(safe.columns) == ["group", "'=name", "x"]
    np.testing.assert_array_equal(safe["x"], frame["x"])
    assert list(frame.columns)[1] == "=name"  # the caller's own is left as it is
    assert b"\n=" not in downloads.csv_bytes(frame)
    plain_frame = pd.DataFrame({"a": ["b"], "c": [1]})
    pd.testing.assert_frame_equal(without_formulas(plain_frame), plain_frame)


def test_the_command_line_prints_no_control_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = np.array(["\x1b[31mred", "b\x07", "c\r", SCRIPT])
    content = npz(logits=Z, labels=Y, class_names=names, **{"key\x1b[2J\n": Z})
    for file, expected in (("ok\x1b[31m\n.npz", 0), ("bad\x1b]0;x\x07.npz", 2)):
        path = tmp_path / file
        path.write_bytes(content if expected == 0 else content[:100])
        assert main(["inspect", str(path)]) == expected
        printed = capsys.readouterr()
        for line in (printed.out + printed.err).split("\n"):
            assert line.isprintable(), line
        assert len(printed.err.splitlines()) == (expected == 2)
    assert main(["inspect", str(tmp_path / "missing\x1b[31m\n.npz")]) == 2
    assert capsys.readouterr().err.rstrip("\n").isprintable()


HOSTILE = [SCRIPT, "[x](javascript:alert(1))", "![x](http://127.0.0.1/x)", "$\\href{javascript:x}{y}$", ":red[x]"]


@pytest.fixture
def hostile_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    from streamlit.runtime.pages_manager import PagesManager

    init = PagesManager.__init__

    def with_menu(self: PagesManager, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        PagesManager.uses_pages_directory = False

    monkeypatch.setattr(PagesManager, "__init__", with_menu)
    with np.load(ROOT / "sample_logits" / "digits.npz") as bundle:
        rows = len(bundle["test_labels"])
    names = np.array([f"{HOSTILE[k % len(HOSTILE)]} {k}" for k in range(10)])
    groups = np.array([HOSTILE[k % len(HOSTILE)] for k in range(rows)])
    return load_own_file(open_page("diagnose"), tmp_path, class_names=names, test_group=groups)


@pytest.mark.counts("access: hostile names on pages and in figures")
@pytest.mark.parametrize("page", ["diagnose", "shift", "margin_groups", "start"])
def test_pages_render_names_as_text(hostile_app: AppTest, page: str) -> None:
    """In every Markdown element the hostile names and the title stand escaped, or not at all."""
    app = hostile_app.switch_page(f"pages/{page}.py").run()
    assert not app.exception
    elements = [
        *app.markdown,
        *app.caption,
        *app.title,
        *app.header,
        *app.subheader,
        *app.warning,
        *app.info,
        *app.error,
    ]
    assert elements
    for element in elements:
        assert not getattr(element, "allow_html", False) or "<style>" in element.value
        for name in [*HOSTILE, "mine_<b>*"]:
            assert name not in element.value, element.value


def test_a_report_of_hostile_names_runs_nothing() -> None:
    report = pytest.importorskip("smart_core.report")
    groups = np.array([SCRIPT, "b"])[Y[:30] % 2]
    data = sc.load(
        npz(val_logits=Z[:30], val_labels=Y[:30], test_logits=Z[30:], test_labels=Y[30:], test_group=groups,
            class_names=np.array([SCRIPT, "</script><img src=x onerror=alert(1)>", "c", "d"])),
        name=f"{SCRIPT}.npz",
    )  # fmt: skip
    page = report.report(data, methods="vanilla,ts", seeds=1)
    text = page if isinstance(page, str) else str(page)
    assert "alert(1)" in text
    assert SCRIPT not in text
    assert "<img src=x" not in text
