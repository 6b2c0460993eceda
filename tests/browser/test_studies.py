"""The study pages in a real browser: wide and narrow, running, cancelled, and a clicked cell."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import TOO_BUSY, Visit, looks

Open = Callable[..., Visit]

LONG = 240_000
"""Milliseconds for fits and attacks on a busy machine."""

TWO_METHODS = "shift-methods=TS&shift-methods=SMART"

STUDIES = {
    "temperature": ("data=digits", "Temperature curve", "Fit TS and SMART", "temperature"),
    "hardness": ("data=digits", "Hardness", None, "hardness"),
    "sensitivity": ("data=digits&sigmas=0.05,0.1&deltas=0.001,0.1&sensitivity-seeds=1", "Sensitivity", None, None),
    "ablation": ("data=digits&ablation-seeds=1&part=Indicators", "Ablation", "Compare indicators", "indicators"),
    "shift": (f"data=digits_corrupted&shift-seeds=1&{TWO_METHODS}", "Shift", "Evaluate under shift", "shift-heatmap"),
}
"""Page -> its query, its title, the button that starts its study, and the chart of the study."""

NOT_YET = "not yet"
"""Text of an empty cell."""

SIGMAS, DELTAS = "0.1,0.2,0.3,0.4,0.5,1", "0.001,0.002,0.005,0.01,0.02,0.05,0.1,0.2,0.5,1"
"""Sixty cells, which take long enough to be cancelled halfway."""


def cells(chart: Locator) -> list[str]:
    """What is written in the cells of a heatmap, once it is drawn: while it fills it is replaced again and again."""
    for _ in range(600):
        found: list[str] = chart.evaluate("plot => (plot.layout?.annotations ?? []).map(each => each.text)")
        if found:
            return found
        chart.page.wait_for_timeout(100)
    pytest.fail("the heatmap was not drawn within a minute")


@pytest.mark.parametrize(("path", "width", "dark"), looks(STUDIES))
def test_looks(server: str, visit: Open, path: str, width: int, dark: bool) -> None:
    query, title, button, chart = STUDIES[path]
    seen = visit(f"{server}/{path}?{query}", width=width, dark=dark)
    page = seen.page
    expect(page.get_by_role("heading", name=title, exact=True, level=1)).to_be_visible()
    if button is not None:
        page.get_by_role("button", name=button).click()
    if chart is not None:
        expect(page.locator(f".st-key-{chart} .js-plotly-plot").first).to_be_visible(timeout=LONG)
        expect(page.get_by_role("heading", level=5).first).to_be_visible(timeout=LONG)
    # what was begun is finished, so that the picture is of the whole
    expect(page.locator(".st-key-job-0-cancel")).to_have_count(0, timeout=LONG)
    seen.idle()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.get_by_test_id("stMain").evaluate("main => main.scrollWidth <= main.clientWidth")
    seen.picture(f"{path}-{width}-{'dark' if dark else 'light'}")
    seen.clean()


def test_a_grid_fills_is_cancelled_and_keeps_its_cells(server: str, visit: Open) -> None:
    seen = visit(f"{server}/sensitivity?data=cifar10&sigmas={SIGMAS}&deltas={DELTAS}&sensitivity-seeds=20")
    page = seen.page
    page.get_by_role("button", name="Run the grid").click()
    chart = page.locator(".st-key-sensitivity .js-plotly-plot")
    # cells are filled from the first row on: the first one is there while others are still to come
    expect(page.get_by_role("heading", name=re.compile(r"over [1-9]\d? of 60 cells"))).to_be_visible(timeout=LONG)
    cancel = page.get_by_test_id("stSidebar").get_by_role("button", name="Cancel").first
    if not any(NOT_YET in text for text in cells(chart)) or not cancel.count():
        pytest.skip(TOO_BUSY)
    cancel.click()
    expect(page.get_by_text("cancelled: Sensitivity")).to_be_visible(timeout=LONG)
    seen.idle()
    kept = cells(chart)
    done = [text for text in kept if NOT_YET not in text]
    assert len(kept) == 60
    assert 1 <= len(done) < 60
    expect(page.get_by_role("heading", name=f"over {len(done)} of 60 cells")).to_be_visible()
    seen.picture("sensitivity-cancelled")

    # a finished cell, clicked: its settings are offered, taken, and said
    page.mouse.click(*seen.point(chart, 0, 0))
    load = page.locator(".st-key-load-cell button")
    expect(load).to_have_text("Fit SMART with sigma 0.1 and delta 0.001")
    load.click()
    expect(page.get_by_text("sigma 0.1 and delta 0.001 come from the Sensitivity page")).to_be_visible(timeout=LONG)
    seen.idle()

    # another page and back: nothing is lost
    page.get_by_role("button", name="Next: Ablation").click()
    expect(page.get_by_role("heading", name="Ablation", exact=True, level=1)).to_be_visible()
    seen.idle()
    page.get_by_test_id("stHeader").get_by_text("Studies").click()
    page.get_by_role("menuitem", name="Sensitivity", exact=True).click()
    expect(page.get_by_role("heading", name="Sensitivity", exact=True, level=1)).to_be_visible()
    expect(chart).to_be_visible()
    seen.idle()
    assert cells(chart) == kept
    expect(page.locator(".st-key-sigmas input")).to_have_value(SIGMAS)
    expect(page.locator(".st-key-sensitivity-seeds input")).to_have_value("20")
    expect(page.get_by_text("Settings changed")).to_have_count(0)
    expect(page.get_by_text("sigma 0.1 and delta 0.001 come from the Sensitivity page")).to_be_visible()
    seen.clean()


@pytest.mark.long
def test_digits_are_attacked(server: str, visit: Open) -> None:
    seen = visit(f"{server}/hardness?data=digits")
    page = seen.page
    slider = page.locator(".st-key-attack-count").get_by_role("slider")
    slider.focus()
    slider.press("Home")
    expect(page.locator(".st-key-attack-count").get_by_test_id("stSliderThumbValue")).to_have_text("40")
    seen.idle()
    page.get_by_role("button", name="Attack now").click()
    expect(page.get_by_text("40 images attacked here, 0 without success.")).to_be_visible(timeout=LONG)
    seen.idle()
    drawn = page.locator(".st-key-hardness .js-plotly-plot").evaluate(
        """plot => plot.calcdata
            .filter(each => each[0].trace.mode === 'markers' && each[0].trace.customdata)
            .reduce((sum, each) => sum + each.length, 0)"""
    )
    assert drawn == 40
    seen.picture("hardness-attacked")
    seen.clean()


def test_a_link_opens_the_same_part_and_the_keyboard_runs_it(server: str, visit: Open) -> None:
    seen = visit(f"{server}/ablation?data=cifar10&part=Training")
    page = seen.page
    expect(page.get_by_role("tab", name="Training")).to_have_attribute("aria-selected", "true")
    expect(page.locator(".st-key-run-traces button").get_by_text("Ctrl")).to_be_visible()
    seen.idle()
    page.keyboard.press("Control+Enter")
    # of the four parts it is the open one that runs
    expect(page.locator(".st-key-jobs").get_by_text("Record training")).to_be_visible(timeout=LONG)
    expect(page.locator(".st-key-run-objectives button")).to_be_enabled()
    page.keyboard.press("Escape")
    expect(page.get_by_text("cancelled: Record training")).to_be_visible(timeout=LONG)
    page.get_by_role("tab", name="Indicators").click()
    page.wait_for_url("**part=Indicators*")
    seen.clean()


@pytest.mark.parametrize("door", ["shift", ""])
def test_a_multiselect_is_kept_in_the_link(server: str, visit: Open, door: str) -> None:
    seen = visit(f"{server}/{door}?data=digits_corrupted&{TWO_METHODS}")
    seen.page.get_by_test_id("stSidebar").get_by_role("button", name="Copy link").click()
    expect(seen.page.get_by_test_id("stPopoverBody").get_by_text(TWO_METHODS)).to_be_visible()
    if door:
        chosen = seen.page.locator(".st-key-shift-methods")
        for name in ("TS", "SMART"):
            expect(chosen.get_by_text(name, exact=True)).to_be_visible()
        expect(chosen.get_by_text("PTS", exact=True)).to_have_count(0)
    seen.clean()
