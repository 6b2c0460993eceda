"""Workspaces in a real browser: reload, a second window, a server that is killed during a fit, and the token."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import expect

import smart_core as sc
from smart_core.export.workspaces import Store
from tests.browser.conftest import PATIENCE, Visit, _wait_until_up
from tests.conftest import ROOT
from tests.robustness.sessions_server import free_port

TOKEN = "a-token-of-a-test-server"


@dataclass
class Server:
    address: str
    process: subprocess.Popen[str]
    log: Path

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(timeout=20)


@contextmanager
def dashboard(folder: Path, *options: str, port: int | None = None, cwd: Path = ROOT) -> Iterator[Server]:
    """`smart dashboard` with its workspaces in a folder."""
    port = port or free_port()
    command = [sys.executable, "-m", "smart_core", "dashboard", "--no-browser", f"--port={port}"]
    log = folder.with_name(f"{folder.name}.log")
    with log.open("a") as output:
        process = subprocess.Popen(
            [*command, f"--workspace-dir={folder}", *options],
            cwd=cwd,
            stdout=output,
            stderr=output,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        )
    server = Server(f"http://127.0.0.1:{port}", process, log)
    try:
        _wait_until_up(server.address, process)
        yield server
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(timeout=20)


@pytest.fixture
def own_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.npz"
    data = sc.simulate_set(600, 500, classes=4, seed=5)
    np.savez(path, **dict(data.arrays()))
    return path


def id_of(seen: Visit) -> str:
    (id,) = parse_qs(urlsplit(seen.page.url).query)["workspace"]
    return id


def upload(seen: Visit, path: Path) -> None:
    seen.page.locator(".st-key-start-files input[type=file]").set_input_files(path)
    expect(seen.page.get_by_test_id("stSidebar").get_by_text("tested on 500")).to_be_visible()
    seen.idle()


def fit_on_compare(seen: Visit, address: str) -> None:
    seen.page.goto(f"{address}/compare?workspace={id_of(seen)}&seeds=1")
    expect(seen.page.get_by_role("heading", name="Compare", level=1)).to_be_visible()
    seen.idle()


def test_reload_second_window_and_a_killed_server(visit: Callable[..., Visit], tmp_path: Path, own_file: Path) -> None:
    folder, port = tmp_path / "workspaces", free_port()
    with dashboard(folder, port=port) as server:
        first = visit(f"{server.address}/start")
        upload(first, own_file)
        id = id_of(first)
        # reload: the data set is there and selected, without a click
        first.page.reload()
        expect(first.page.get_by_test_id("stSidebar").get_by_text("tested on 500")).to_be_visible()
        first.idle()
        assert id_of(first) == id
        # the link of the workspace alone, in another browser: the same data set
        fit_on_compare(first, server.address)
        second = visit(f"{server.address}/compare?workspace={id}&seeds=1")
        expect(second.page.get_by_test_id("stSidebar").get_by_text("tested on 500")).to_be_visible()
        # the second window sees the job that the first starts, and its results
        first.page.locator(".st-key-fit-recommended button, .st-key-fit-all button").first.click()
        expect(second.page.locator(".st-key-jobs").get_by_text("Fit ").first).to_be_visible()
        store = Store(folder)
        for _ in range(PATIENCE // 50):
            if len(store.keys(id, "row")) >= 2:
                break
            first.page.wait_for_timeout(50)
        server.kill()
        rows = store.keys(id, "row")
        assert len(rows) >= 2
        store.close()
        assert id not in server.log.read_text()
        first.problems.clear()
        second.problems.clear()
    with dashboard(folder, port=port) as server:
        again = visit(f"{server.address}/compare?workspace={id}&seeds=1")
        expect(again.page.get_by_test_id("stSidebar").get_by_text("tested on 500")).to_be_visible()
        store = Store(folder)
        assert store.keys(id, "row")[: len(rows)] == rows
        if store.keys(id, "job"):  # unless the job ended between the last row and the kill
            note = again.page.locator(".st-key-interrupted-0")
            expect(note).to_contain_text("was interrupted when the server stopped")
            again.picture("workspace-interrupted")
            note.get_by_role("button", name="Resume").click()
            expect(again.page.locator(".st-key-jobs").get_by_text("Fit ").first).to_be_visible()
            expect(again.page.locator(".st-key-jobs").get_by_text("✓ Fit ").first).to_be_visible(timeout=4 * PATIENCE)
            assert len(store.keys(id, "row")) > len(rows)
            assert store.keys(id, "job") == []
        again.clean()
        assert id not in server.log.read_text()


def test_the_token_lets_a_browser_in_and_leaves_the_url(visit: Callable[..., Visit], tmp_path: Path) -> None:
    with dashboard(tmp_path / "workspaces", f"--token={TOKEN}") as server:
        assert f"{server.address}/?token={TOKEN}" in server.log.read_text()
        seen = visit(f"{server.address}/guide?token={TOKEN}&bins=20")
        expect(seen.page.get_by_role("heading", name="Guide", level=1)).to_be_visible()
        assert TOKEN not in seen.page.url
        assert "bins=20" in seen.page.url
        seen.clean()
        stranger = seen.page.context.browser.new_context().new_page()  # type: ignore[union-attr]
        stranger.goto(f"{server.address}/guide")
        expect(stranger.get_by_text("Enter the access token.")).to_be_visible()
        stranger.get_by_label("Token").fill("wrong")
        stranger.get_by_role("button", name="Sign in").click()
        expect(stranger.get_by_text("Wrong token.")).to_be_visible()
        stranger.get_by_label("Token").fill(TOKEN)
        stranger.get_by_role("button", name="Sign in").click()
        expect(stranger.get_by_role("heading", name="Guide", level=1)).to_be_visible(timeout=PATIENCE)
        stranger.context.close()
        with urllib.request.urlopen(f"{server.address}/_stcore/health") as answer:
            assert answer.headers["Referrer-Policy"] == "no-referrer"
