"""A dashboard server of its own, a real browser, and what the browser complained of."""

from __future__ import annotations

import atexit
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, WebSocket, expect, sync_playwright
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from tests.browser.chromium import ADVICE, executable
from tests.conftest import ROOT

PATIENCE = 60_000
"""Milliseconds to wait for a page on a busy machine."""

expect.set_options(timeout=PATIENCE)

TOO_BUSY = "the machine was too busy: the work ended before the browser could look at it"
"""Why a test of what is seen during a job is skipped where the job has ended before."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test in a browser waits for minutes where a busy machine needs them; each wait has a limit of its own."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.timeout(900))


def looks(pages: Iterable[str], *, also_wide: bool = True) -> list[Any]:
    """Each page wide and light, and narrow and dark; in turn one of the two is left to `make soak`, or every wide one
    where other tests look at it."""
    cases = []
    for number, page in enumerate(pages):
        for other, (width, dark) in enumerate(((1280, False), (400, True))):
            now = (number + other) % 2 == 0 and (also_wide or width == 400)
            marks = () if now else pytest.mark.long
            cases.append(pytest.param(page, width, dark, marks=marks, id=f"{page}-{width}"))
    return cases


AT_REST = """() => {
    const app = document.querySelector('[data-testid="stApp"]');
    const rest = app && app.dataset.testConnectionState === 'CONNECTED' && app.dataset.testScriptState === 'notRunning'
        && [...document.querySelectorAll('[data-testid="stPlotlyChart"]')].every(
            one => one.querySelector('.main-svg') && one.querySelectorAll('.js-plotly-plot').length === 1);
    if (!rest) { window.atRestSince = undefined; return false; }
    window.atRestSince ??= performance.now();
    return performance.now() - window.atRestSince > 250;
}"""
"""Between two runs of a script the browser calls it idle for a moment; a click made then is lost with the second."""


@dataclass
class Visit:
    """One open page and what went wrong on it."""

    page: Page
    problems: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    waiting: bool = False
    """Whether the browser has asked for a run of the script that the server has not finished yet."""

    def watch(self, socket: WebSocket) -> None:
        """Follow Streamlit's own messages: a slow server starts the run that a click asks for well after the click."""

        def sent(payload: bytes | str) -> None:
            message = BackMsg.FromString(payload) if isinstance(payload, bytes) else BackMsg()
            if message.HasField("rerun_script") and not message.rerun_script.is_auto_rerun:
                self.waiting = True

        def received(payload: bytes | str) -> None:
            message = ForwardMsg.FromString(payload) if isinstance(payload, bytes) else ForwardMsg()
            if message.HasField("script_finished") and message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                self.waiting = False

        socket.on("framesent", sent)
        socket.on("framereceived", received)
        socket.on("close", lambda _: setattr(self, "waiting", False))

    def idle(self) -> None:
        """Wait until the script has run, stays at rest and every chart is drawn; an error box ends the test at once."""
        deadline = time.monotonic() + PATIENCE / 1000
        self.page.wait_for_timeout(20)  # lets the messages of the last click arrive
        while self.waiting and time.monotonic() < deadline:
            self.page.wait_for_timeout(20)
        self.page.wait_for_function(AT_REST)
        self.page.wait_for_load_state("networkidle")
        broken = self.page.get_by_test_id("stException")
        if broken.count():
            pytest.fail(broken.first.inner_text())

    def open_box(self, title: str) -> None:
        """Open the first expander of this title and wait until it lies still: a click on what moves goes astray."""
        box = self.page.get_by_test_id("stExpander").filter(has_text=title).first
        box.get_by_text(title).first.click()
        self.page.wait_for_function(
            """box => {
                const height = box.getBoundingClientRect().height;
                if (box.lastHeight !== height) { box.lastHeight = height; box.since = performance.now(); }
                return performance.now() - box.since > 400;
            }""",
            arg=box.element_handle(),
        )

    def point(self, plot: Locator, x: float, y: float) -> tuple[float, float]:
        """Where in the window a place of a chart lies, given in the units of its axes."""
        plot.scroll_into_view_if_needed()
        left, top = plot.evaluate(
            """(plot, [x, y]) => {
                const { xaxis, yaxis } = plot._fullLayout, box = plot.getBoundingClientRect();
                return [box.left + xaxis._offset + xaxis.d2p(x), box.top + yaxis._offset + yaxis.d2p(y)];
            }""",
            [x, y],
        )
        return left, top

    def clean(self) -> None:
        """Nothing on the console, no request to another host."""
        assert self.problems == []
        assert self.outside == []

    def picture(self, name: str) -> Path:
        """The whole page as artifacts/<name>.png; the window grows, because the page scrolls inside it."""
        target = ROOT / "artifacts" / f"{name}.png"
        height = self.page.get_by_test_id("stMain").evaluate("main => main.scrollHeight")
        width = self.page.viewport_size["width"] if self.page.viewport_size else 1280
        self.page.set_viewport_size({"width": width, "height": height})
        self.idle()
        target.parent.mkdir(exist_ok=True)
        self.page.screenshot(path=target, full_page=True)
        return target


@contextmanager
def serve(app: str | Path = "dashboard_server.py") -> Iterator[str]:
    """A fresh server of an app on a free port; yields its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "streamlit", "run", str(app)]
    options = [f"--server.port={port}", "--server.headless=true", "--server.fileWatcherType=none"]
    server = subprocess.Popen(
        [*command, *options], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        _wait_until_up(address, server)
        yield address
    finally:
        server.terminate()
        server.wait(timeout=20)


def _wait_until_up(address: str, server: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if server.poll() is not None:
            pytest.fail(f"the dashboard did not start: {server.stderr.read() if server.stderr else ''}")
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    pytest.fail("the dashboard did not answer within a minute")


@cache
def _launched(path: str) -> Browser:
    """One browser per process: Playwright can be started only once in it, and other folders have this fixture too."""
    playwright = sync_playwright().start()
    atexit.register(playwright.stop)
    return playwright.chromium.launch(
        executable_path=path, headless=True, args=["--no-sandbox", "--disable-dev-shm-usage"]
    )


@pytest.fixture(scope="session")
def chromium() -> Browser:
    path = executable()
    if path is None:
        pytest.fail(ADVICE)
    return _launched(path)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    with serve() as address:
        yield address


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Callable[..., Visit]]:
    """Open an address in a window of its own: `visit(url, width=1280, dark=False)`; the script `before` runs first."""
    contexts = []

    def open_page(url: str, *, width: int = 1280, height: int = 900, dark: bool = False, before: str = "") -> Visit:
        context = chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        seen = Visit(context.new_page())
        host = urlsplit(url).netloc
        seen.page.on("websocket", seen.watch)
        seen.page.on("console", lambda message: _note_console(seen, message))
        seen.page.on("pageerror", lambda error: seen.problems.append(str(error)))
        seen.page.on("request", lambda request: _note_request(seen, host, request.url))
        if before:
            seen.page.add_init_script(before)
        seen.page.goto(url, timeout=PATIENCE)
        # every page has a title; until it stands, nothing may have run
        expect(seen.page.locator("h1").first).to_be_visible()
        seen.idle()
        return seen

    yield open_page
    for context in contexts:
        context.close()


def _note_console(seen: Visit, message: ConsoleMessage) -> None:
    # under a page's address Streamlit looks for its own endpoints there first, then at the root
    looking = "404" in message.text and "/_stcore/" in message.location["url"]
    if message.type == "error" and not looking:
        seen.problems.append(message.text)


def _note_request(seen: Visit, host: str, url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme in {"http", "https", "ws", "wss"} and parts.netloc != host:
        seen.outside.append(url)
