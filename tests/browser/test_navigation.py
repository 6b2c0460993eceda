"""Menu and sidebar in a real browser: deep links, both themes, narrow and wide, the keyboard, an empty console."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import expect

import sample_logits
from pages.shared.navigation import PAGES
from tests.browser.conftest import Visit, looks, serve
from tests.conftest import long_but

Open = Callable[..., Visit]

TITLES = {file.removeprefix("pages/").removesuffix(".py"): title for s in PAGES.values() for file, title in s.items()}

STRAY_MENU = """
window.strayMenu = false;
new MutationObserver(() => {
    if (document.querySelector('[data-testid="stSidebarNav"]')) window.strayMenu = true;
}).observe(document, { childList: true, subtree: true });
"""


@pytest.fixture(scope="module")
def judged_on() -> str:
    with np.load(sample_logits.path("digits")) as bundle:
        return f"tested on {len(bundle['test_labels']):,}"


@pytest.mark.parametrize("path", long_but("theory")(TITLES))
def test_any_page_is_the_first_request_to_a_fresh_server(visit: Open, judged_on: str, path: str) -> None:
    with serve() as address:
        seen = visit(f"{address}/{path}?data=digits&bins=20", before=STRAY_MENU)
        expect(seen.page.get_by_role("heading", name=TITLES[path], exact=True, level=1)).to_be_visible()
        sidebar = seen.page.get_by_test_id("stSidebar")
        expect(sidebar.get_by_text(judged_on)).to_be_attached()
        expect(sidebar.locator(".st-key-bins").get_by_text("20", exact=True)).to_be_attached()
        # Streamlit's own menu of file names never showed
        assert seen.page.evaluate("window.strayMenu") is False
        seen.clean()


@pytest.mark.parametrize(("path", "width", "dark"), looks(["start", "guide"]))
def test_narrow_and_wide_light_and_dark(
    server: str, visit: Open, judged_on: str, path: str, width: int, dark: bool
) -> None:
    seen = visit(f"{server}/{path}?data=digits", width=width, dark=dark)
    expect(seen.page.get_by_role("heading", name=TITLES[path], exact=True, level=1)).to_be_visible()
    # the split is on the screen at all times, also where the sidebar folds away
    expect(seen.page.get_by_text(judged_on).locator("visible=true").first).to_be_visible()
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    assert seen.page.get_by_test_id("stMain").evaluate("main => main.scrollWidth <= main.clientWidth")
    # a formula that does not fit is cut off
    ends = seen.page.locator(".katex-display .katex-html .base").evaluate_all(
        "all => all.map(each => each.getBoundingClientRect().right)"
    )
    assert max(ends, default=0) <= width
    background = "rgb(15, 19, 26)" if dark else "rgb(255, 255, 255)"
    expect(seen.page.get_by_test_id("stApp")).to_have_css("background-color", background)
    seen.picture(f"{path}-{width}-{'dark' if dark else 'light'}")
    seen.clean()


def test_the_sidebar_on_a_narrow_screen(server: str, visit: Open, judged_on: str) -> None:
    seen = visit(f"{server}/guide?data=digits", width=400)
    seen.page.get_by_test_id("stExpandSidebarButton").click()
    sidebar = seen.page.get_by_test_id("stSidebar")
    for label in ("Data set", "Primary metric", "Bins", "Copy link"):
        expect(sidebar.get_by_text(label, exact=True).first).to_be_visible()
    expect(sidebar.get_by_text(judged_on)).to_be_visible()
    assert sidebar.evaluate("bar => bar.getBoundingClientRect().right") <= 400
    seen.clean()


def test_the_view_is_kept_when_the_page_changes(server: str, visit: Open) -> None:
    seen = visit(f"{server}/export?data=digits_corrupted&bins=12&metric=nll")
    expect(seen.page.locator(".st-key-next-page button")).to_be_visible()
    seen.page.keyboard.press("Alt+ArrowRight")
    expect(seen.page.get_by_role("heading", name="Guide", exact=True)).to_be_visible()
    seen.idle()
    seen.page.get_by_role("link", name="Start", exact=True).click()
    expect(seen.page.get_by_role("heading", name="Start", exact=True)).to_be_visible()
    seen.idle()
    sidebar = seen.page.get_by_test_id("stSidebar")
    expect(sidebar.locator(".st-key-data input")).to_have_value("Digits, corrupted")
    expect(sidebar.locator(".st-key-metric input")).to_have_value("NLL")
    # the address is written name by name, and the browser tells of it later than of what it draws
    wanted = ["bins=12", "data=digits_corrupted", "metric=nll", "workspace"]
    seen.page.wait_for_url(
        lambda url: sorted(re.sub("(workspace)=.*", r"\1", part) for part in url.partition("?")[2].split("&")) == wanted
    )
    seen.clean()


def test_a_control_moved_quickly_is_not_reset_by_the_url(server: str, visit: Open) -> None:
    seen = visit(f"{server}/diagnose?data=digits&bins=12")
    handle = seen.page.locator(".st-key-bins").get_by_role("slider")
    handle.focus()
    # the browser sends its address with each move, also while the last change of it is still under way
    for _ in range(8):
        handle.press("ArrowRight")
        seen.page.wait_for_timeout(260)
    expect(seen.page.get_by_text("ECE, measured, 20 bins")).to_be_visible()
    seen.page.wait_for_url("**bins=20*")
    seen.clean()
