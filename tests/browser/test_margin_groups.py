"""Margin groups in a real browser: fit two methods, click a cell, see its samples."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visit

pytestmark = pytest.mark.xdist_group("browser")

Open = Callable[..., Visit]

FITS = 240_000
"""Milliseconds to wait for fits on a busy machine."""


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)], ids=["wide-light", "narrow-dark"])
def test_fit_two_and_click_a_cell(server: str, visit: Open, width: int, dark: bool) -> None:
    seen = visit(f"{server}/margin_groups?data=digits&groups=4", width=width, dark=dark)
    page = seen.page
    page.locator(".st-key-fit-two button").first.click()
    expect(page.get_by_role("heading", name=re.compile("^SMART"))).to_be_visible(timeout=FITS)
    expect(page.get_by_text("Fitting: finished methods")).to_have_count(0, timeout=FITS)
    seen.idle()
    expect(page.locator(".st-key-after")).to_contain_text("SMART")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # the bin of the highest confidences in the group of the widest margins holds most of its samples
    point = page.locator(".st-key-gap .scatterlayer .trace .points path").last
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    found = page.get_by_role("heading", name=re.compile(r"^Margin .* confidence .*: \d+$"))
    expect(found).to_be_visible()
    assert 1 <= int(found.inner_text().split()[-1]) <= 180  # a quarter of 720
    expect(page.locator(".st-key-samples")).to_be_visible()
    seen.picture(f"margin-groups-{width}-{'dark' if dark else 'light'}")
    seen.clean()
