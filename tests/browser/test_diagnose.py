"""Diagnose in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visit, serve

Open = Callable[..., Visit]


@pytest.mark.parametrize(
    ("width", "dark"),
    [
        (1280, False),
        (400, True),
        pytest.param(1280, True, marks=pytest.mark.long),
        pytest.param(400, False, marks=pytest.mark.long),
    ],
)
def test_first_open(server: str, visit: Open, width: int, dark: bool) -> None:
    seen = visit(f"{server}/diagnose?data=digits", width=width, dark=dark)
    expect(seen.page.get_by_role("heading", name="Diagnose")).to_be_visible()
    expect(seen.page.get_by_role("heading", name="Overconfident")).to_be_visible()
    chart = seen.page.locator(".st-key-reliability .js-plotly-plot")
    expect(chart.locator(".scatterlayer .trace").first).to_be_visible()
    expect(seen.page.get_by_text("tested on 720").first).to_be_attached()
    background = "rgb(15, 19, 26)" if dark else "rgb(255, 255, 255)"
    expect(chart.locator(".main-svg").first).to_have_css("background-color", background)
    # nothing sticks out to the side
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    seen.picture(f"diagnose-{width}-{'dark' if dark else 'light'}")
    seen.clean()


@pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.long), 400])
def test_charts_are_redrawn_when_the_theme_changes(server: str, visit: Open, width: int) -> None:
    seen = visit(f"{server}/diagnose?data=digits", width=width)
    drawing = seen.page.locator(".st-key-reliability .js-plotly-plot .main-svg").first
    expect(drawing).to_have_css("background-color", "rgb(255, 255, 255)")
    seen.page.emulate_media(color_scheme="dark")
    expect(drawing).to_have_css("background-color", "rgb(15, 19, 26)")
    seen.page.get_by_test_id("stMainMenu").get_by_role("button").click()
    seen.page.locator("button, [role=menuitemradio], [role=radio], label").filter(has_text="Light").first.click()
    expect(drawing).to_have_css("background-color", "rgb(255, 255, 255)")
    seen.idle()
    seen.clean()


@pytest.mark.long
@pytest.mark.parametrize("path", ["/diagnose?data=digits", "/diagnose?data=digits&bins=10"])
def test_deep_link_is_the_first_request_to_a_fresh_server(visit: Open, path: str) -> None:
    with serve() as address:
        seen = visit(address + path)
        expect(seen.page.get_by_role("heading", name="Diagnose")).to_be_visible()
        # only dashboard.py draws the sidebar's split
        expect(seen.page.get_by_test_id("stSidebar").get_by_text("tested on 720")).to_be_attached()
        expect(seen.page.get_by_text(f"ECE, measured, {10 if 'bins' in path else 15} bins")).to_be_visible()
        seen.clean()


def test_the_redirect_keeps_the_query(server: str, visit: Open) -> None:
    seen = visit(server + "/?data=digits&bins=20")
    expect(seen.page.get_by_role("heading", name="Start", exact=True)).to_be_visible()
    expect(seen.page.get_by_test_id("stSidebar").get_by_text("tested on 720")).to_be_attached()
    expect(seen.page.locator(".st-key-bins").get_by_role("slider")).to_have_value("20")
    opened = urlsplit(seen.page.url)
    assert opened.path == "/start"
    view = parse_qs(opened.query)
    view.pop("workspace")
    assert view == {"data": ["digits"], "bins": ["20"]}
    seen.clean()


def test_bins_are_kept_in_the_url(server: str, visit: Open) -> None:
    seen = visit(f"{server}/diagnose?data=digits")
    handle = seen.page.locator(".st-key-bins").get_by_role("slider")
    handle.focus()
    handle.press("ArrowLeft")
    expect(seen.page.get_by_text("ECE, measured, 14 bins")).to_be_visible()
    seen.page.wait_for_url("**bins=14*")
    again = visit(seen.page.url)
    expect(again.page.get_by_text("ECE, measured, 14 bins")).to_be_visible()
    again.clean()
