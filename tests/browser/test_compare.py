"""Compare in a real browser: fit, watch, cancel, leave and come back."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from smart_core.calibrators import methods
from tests.browser.conftest import Visit

Open = Callable[..., Visit]

FITS = 240_000
"""Milliseconds to wait for fits on a busy machine."""


def methods_drawn(page: Page) -> list[str]:
    """The rows of the leaderboard's figure."""
    rows = page.locator(".st-key-leaderboard-plot .ytick text")
    expect(rows.first).to_be_visible()
    return rows.all_text_contents()


def test_fits_are_watched_cancelled_and_kept_on_another_page(server: str, visit: Open) -> None:
    seen = visit(f"{server}/compare?data=cifar10&seeds=20")
    page = seen.page
    expect(page.locator(".st-key-fit-recommended button").first).to_be_enabled()
    seen.idle()
    # all of them on the largest sample, twenty seeds each: minutes of work, to be cancelled by the slowest browser
    seen.open_box("Choose methods")
    page.locator(".st-key-fit-all button").first.click()
    # rows appear while the others are still being fitted
    expect(page.locator(".st-key-leaderboard")).to_be_visible(timeout=FITS)
    some = re.compile(rf"^([2-9]|1\d) of {len(methods())} methods fitted")
    expect(page.get_by_text(some)).to_be_visible(timeout=FITS)
    page.locator(".st-key-job-0-cancel button").first.click()
    expect(page.get_by_text("Cancelled. Finished rows are kept")).to_be_visible(timeout=FITS)
    seen.idle()
    verdict = page.get_by_role("heading", name=re.compile("Recommended: "))
    words, rows = verdict.inner_text(), methods_drawn(page)
    assert 2 <= len(rows) < len(methods())
    page.get_by_role("link", name="Diagnose").first.click()
    expect(page.get_by_role("heading", name="Diagnose")).to_be_visible()
    seen.idle()
    page.get_by_role("link", name="Compare").first.click()
    expect(verdict).to_have_text(words)
    seen.idle()
    assert methods_drawn(page) == rows
    expect(page.locator(".st-key-seeds input")).to_have_value("20")
    seen.picture("compare-1280-light")
    seen.clean()


def test_narrow_and_dark(server: str, visit: Open) -> None:
    seen = visit(f"{server}/compare?data=digits&seeds=1", width=400, dark=True)
    seen.open_box("Choose methods")
    for id in ("cts", "spline", "smart"):
        seen.page.locator(f".st-key-compare-{id} label").first.click()
    seen.idle()
    seen.page.locator(".st-key-fit-selected button").first.click()
    expect(seen.page.get_by_role("heading", name=re.compile("Recommended: "))).to_be_visible(timeout=FITS)
    seen.idle()
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 400
    seen.picture("compare-400-dark")
    seen.clean()
