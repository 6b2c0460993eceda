"""The connection is lost or the server is killed: the session is kept or restored, and a message is shown."""

from __future__ import annotations

import io
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from smart_core.export.workspace import load_workspace
from tests.browser.chromium import ADVICE, executable
from tests.robustness.sessions_client import Lost, Visitor
from tests.robustness.sessions_files import marked, word
from tests.robustness.sessions_server import free_port, running

PATIENCE = 90_000
"""Milliseconds to wait for the browser on a busy machine."""


def with_fit(visitor: Visitor, folder: Path, number: int, *, epochs: int = 20) -> None:
    """A file of the visitor's own, and TS and SMART started on it; the visitor stays on Compare."""
    visitor.open("start", "data=digits")
    visitor.upload("start-files", marked(folder, number, 0))
    visitor.open("compare")
    ticks = {key: key in ("compare-ts", "compare-smart") for key in visitor.widgets if key.startswith("compare-")}
    visitor.touch({"seeds": 1, "set-smart-epochs": epochs, **ticks})
    visitor.touch({"fit-selected": True})


@pytest.mark.counts("faults: lines cut during a fit")
def test_a_lost_connection_resumes_with_the_whole_session(tmp_path: Path) -> None:
    """The connection is lost during a fit: the fit continues, and the same session keeps its file and its rows."""
    with running(tmp_path / "server.log") as server:
        visitor = Visitor(server.address)
        with_fit(visitor, tmp_path, 7)
        before = visitor.session
        visitor.cut()
        with pytest.raises(Lost):
            visitor.open("compare")
        visitor.dial_again()
        visitor.open("compare")
        assert visitor.session == before
        visitor.settle()
        assert word(7).encode() in visitor.latest
        assert b"2 methods" in visitor.latest
        assert visitor.problems == []
        other = Visitor(server.address)
        other.open("compare", "data=digits")
        assert other.session != before
        assert other.markers == set()
        other.leave()
        visitor.leave()


def in_a_thread_of_its_own(work: Callable[[], None]) -> None:
    """Playwright allows one instance per thread, and the other browser tests use this thread's."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


def idle(page: Page) -> None:
    app = page.get_by_test_id("stApp")
    expect(app).to_have_attribute("data-test-connection-state", "CONNECTED", timeout=PATIENCE)
    expect(app).to_have_attribute("data-test-script-state", "notRunning", timeout=PATIENCE)


@pytest.mark.long
@pytest.mark.counts("faults: servers killed during a fit")
def test_a_server_killed_during_a_fit_is_reported_and_a_workspace_restores_everything(tmp_path: Path) -> None:
    path = executable()
    assert path is not None, ADVICE
    in_a_thread_of_its_own(lambda: _killed_and_back(path, tmp_path))


def _killed_and_back(chromium: str, folder: Path) -> None:
    port, log = free_port(), folder / "server.log"
    saved = folder / "saved.zip"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, headless=True, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        with running(log, port=port) as server:
            page.goto(f"{server.address}/start?data=digits")
            page.locator(".st-key-start-files input[type=file]").set_input_files(marked(folder, 8, 0))
            expect(page.get_by_test_id("stSidebar").get_by_text("tested on 600")).to_be_visible(timeout=PATIENCE)
            idle(page)
            page.get_by_test_id("stHeader").get_by_text("Export and help").click()
            page.get_by_role("menuitem", name="Export", exact=True).click()
            expect(page.get_by_role("heading", name="Export", level=1)).to_be_visible(timeout=PATIENCE)
            with page.expect_download() as download:
                page.get_by_role("button", name="Download workspace").click()
            download.value.save_as(saved)
            idle(page)
            page.get_by_role("button", name="Fit SMART").click()
            expect(page.locator(".st-key-jobs").get_by_text("Fit SMART").first).to_be_visible(timeout=PATIENCE)
            server.kill()
            # Streamlit's own words: a dialog, or a line where the page's state is shown
            expect(page.get_by_text("Connection error").or_(page.get_by_text("Connecting")).first).to_be_visible(
                timeout=PATIENCE
            )
        assert zipfile.ZipFile(io.BytesIO(saved.read_bytes())).testzip() is None
        assert [data.class_names[0] for data in load_workspace(saved).sets if data.class_names] == [word(8)]
        with running(log, port=port) as server:
            # the window finds the new server by itself; its session is gone, and the way back is said
            idle(page)
            page.goto(f"{server.address}/start")
            page.locator(".st-key-start-restore input[type=file]").set_input_files(saved)
            expect(page.get_by_test_id("stSidebar").get_by_text("tested on 600")).to_be_visible(timeout=PATIENCE)
            idle(page)
            assert word(8) in page.content()
        browser.close()
