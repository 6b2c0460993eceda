"""The theory page in a real browser: each view wide and narrow, the search, a run that is cancelled."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visit, looks

Open = Callable[..., Visit]

LONG = 240_000

VIEWS = {
    "Margin bounds": ["feasible", "target-margin", "target-max-logit", "target-normalised-max-logit"],
    "smCE certificate": ["certificate"],
    "NLL against calibration": ["slice", "path"],
    "Playground": ["law"],
}
"""Tab -> the charts that are there at once."""


def address(server: str, view: str, more: str = "data=digits") -> str:
    return f"{server}/theory?{more}&view={quote(view)}"


@pytest.mark.parametrize(("view", "width", "dark"), looks(VIEWS))
def test_looks(server: str, visit: Open, view: str, width: int, dark: bool) -> None:
    seen = visit(address(server, view), width=width, dark=dark)
    page = seen.page
    expect(page.get_by_role("tab", name=view)).to_have_attribute("aria-selected", "true")
    if view == "Playground":
        page.get_by_role("button", name="Run", exact=True).click()
        expect(page.locator(".st-key-true-error .js-plotly-plot")).to_be_visible(timeout=LONG)
        expect(page.locator(".st-key-job-0-cancel")).to_have_count(0, timeout=LONG)
        expect(page.get_by_role("heading", name=re.compile("nearest to the truth"))).to_be_visible()
        expect(page.locator(".st-key-recovery .js-plotly-plot")).to_be_visible()
    else:
        for chart in VIEWS[view]:
            expect(page.locator(f".st-key-{chart} .js-plotly-plot")).to_be_visible()
    seen.idle()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.get_by_test_id("stMain").evaluate("main => main.scrollWidth <= main.clientWidth")
    seen.picture(f"theory-{view.split()[0].lower()}-{width}-{'dark' if dark else 'light'}")
    seen.clean()


def test_tabs_change_the_view_and_the_address(server: str, visit: Open) -> None:
    seen = visit(f"{server}/theory?data=digits")
    page = seen.page
    for view, charts in VIEWS.items():
        page.get_by_role("tab", name=view).click()
        for chart in charts:
            expect(page.locator(f".st-key-{chart} .js-plotly-plot")).to_be_visible()
        seen.idle()
    page.wait_for_url(re.compile("view=Playground"))
    seen.clean()


def test_a_search_moves_the_slice_and_says_what_test_says(server: str, visit: Open) -> None:
    seen = visit(address(server, "NLL against calibration", "data=fashion_ls_0_05"))
    page = seen.page
    page.get_by_role("button", name="Search a slice").click()
    expect(page.get_by_text("On test it holds")).to_be_visible()
    expect(page.get_by_role("heading", name=re.compile("lowers the NLL yet raises the witness"))).to_be_visible()
    seen.picture("theory-conflict")
    seen.clean()


def test_a_run_is_cancelled_and_keeps_what_is_there(server: str, visit: Open) -> None:
    seen = visit(address(server, "Playground", "data=digits&theory-n=16000&theory-k=100&theory-seeds=5"))
    page = seen.page
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".st-key-recovery .js-plotly-plot")).to_be_visible(timeout=LONG)
    page.get_by_test_id("stSidebar").get_by_role("button", name="Cancel").first.click()
    expect(page.get_by_text("cancelled: Playground")).to_be_visible(timeout=LONG)
    seen.idle()
    expect(page.locator(".st-key-recovery .js-plotly-plot")).to_be_visible()
    seen.clean()
