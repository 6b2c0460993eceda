"""The five study pages in a real browser: running, filling, cancelling, clicking a cell."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import Visit

pytestmark = pytest.mark.xdist_group("browser")

Open = Callable[..., Visit]

LONG = 240_000
"""Milliseconds for fits and attacks on a busy machine."""

PAGES = {
    "temperature": "Temperature curve",
    "hardness": "Hardness",
    "sensitivity": "Sensitivity",
    "ablation": "Ablation",
    "shift": "Shift",
}


def cells(chart: Locator) -> list[str]:
    """What is written in the cells of a heatmap."""
    found: list[str] = chart.evaluate("plot => plot.layout.annotations.map(each => each.text)")
    return found


@pytest.mark.parametrize("page", PAGES)
def test_looks(server: str, visit: Open, page: str) -> None:
    data = "digits_corrupted" if page == "shift" else "digits"
    for width, dark in ((1280, False), (400, True)):
        seen = visit(f"{server}/{page}?data={data}", width=width, dark=dark)
        expect(seen.page.get_by_role("heading", name=PAGES[page], exact=True)).to_be_visible()
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        seen.picture(f"{page}-{width}-{'dark' if dark else 'light'}")
        seen.clean()


def test_a_grid_fills_is_cancelled_and_keeps_its_cells(server: str, visit: Open) -> None:
    seen = visit(f"{server}/sensitivity?data=digits&sigmas=0.05,0.1,0.5&deltas=0.001,0.01,0.1,1&sensitivity-seeds=2")
    seen.page.locator(".st-key-run-sensitivity button").click()
    chart = seen.page.locator(".st-key-sensitivity .js-plotly-plot")
    expect(chart).to_be_visible(timeout=LONG)
    expect(seen.page.get_by_text("of 12 cells").first).to_be_visible()
    assert any("not yet" in text for text in cells(chart))
    seen.page.get_by_test_id("stSidebar").get_by_role("button", name="Cancel").first.click()
    expect(seen.page.get_by_text("cancelled: Sensitivity")).to_be_visible(timeout=LONG)
    seen.idle()
    kept = cells(chart)
    assert len(kept) == 12
    assert any("not yet" not in text for text in kept)
    # a cell that is finished, clicked: its settings are offered, taken, and said
    box = chart.locator(".nsewdrag").first
    area = box.bounding_box()
    assert area is not None
    box.click(position={"x": area["width"] / 8, "y": area["height"] / 2})  # the second sigma and the first delta
    load = seen.page.locator(".st-key-load-cell button")
    expect(load).to_have_text("Fit SMART with sigma 0.1 and delta 0.001")
    load.click()
    expect(seen.page.get_by_text("with sigma 0.1 and delta 0.001 on every page")).to_be_visible()
    # another page and back: nothing is lost
    seen.page.get_by_text("Next: Ablation").click()
    expect(seen.page.get_by_role("heading", name="Ablation")).to_be_visible()
    seen.page.go_back()
    expect(seen.page.get_by_role("heading", name="Sensitivity", exact=True)).to_be_visible()
    expect(chart).to_be_visible()
    assert cells(chart) == kept
    seen.clean()


def test_digits_are_attacked_while_one_watches(server: str, visit: Open) -> None:
    seen = visit(f"{server}/hardness?data=digits")
    slider = seen.page.locator(".st-key-attack-count").get_by_role("slider")
    slider.focus()
    slider.press("Home")
    seen.idle()
    seen.page.locator(".st-key-run-attack button").click()
    expect(seen.page.get_by_text("40 images attacked here, 0 without success.")).to_be_visible(timeout=LONG)
    seen.idle()
    drawn = seen.page.locator(".st-key-hardness .js-plotly-plot").evaluate(
        "plot => plot.data.filter(trace => trace.customdata).reduce((sum, trace) => sum + trace.x.length, 0)"
    )
    assert drawn == 40
    seen.picture("hardness-attacked")
    seen.clean()
