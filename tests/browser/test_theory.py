"""The theory page in a real browser: each view wide and narrow, the search, a run that is cancelled."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
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


@pytest.mark.parametrize(("view", "width", "dark"), looks(VIEWS, also_wide=False))
def test_looks(server: str, visit: Open, view: str, width: int, dark: bool) -> None:
    seen = visit(address(server, view), width=width, dark=dark)
    page = seen.page
    expect(page.get_by_role("tab", name=view)).to_have_attribute("aria-selected", "true")
    if view == "Playground":
        page.locator(".st-key-run-playground button").click()
        expect(page.locator(".st-key-true-error .js-plotly-plot").first).to_be_visible(timeout=LONG)
        expect(page.locator(".st-key-job-0-cancel")).to_have_count(0, timeout=LONG)
        expect(page.get_by_role("heading", name=re.compile("closest to the truth"))).to_be_visible()
        expect(page.locator(".st-key-recovery .js-plotly-plot").first).to_be_visible()
    else:
        for chart in VIEWS[view]:
            expect(page.locator(f".st-key-{chart} .js-plotly-plot").first).to_be_visible()
    seen.idle()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.get_by_test_id("stMain").evaluate("main => main.scrollWidth <= main.clientWidth")
    seen.picture(f"theory-{view.split()[0].lower()}-{width}-{'dark' if dark else 'light'}")
    seen.clean()


def test_tabs_change_the_view_and_the_url(server: str, visit: Open) -> None:
    seen = visit(f"{server}/theory?data=digits")
    page = seen.page
    for view, charts in VIEWS.items():
        page.get_by_role("tab", name=view).click()
        for chart in charts:
            expect(page.locator(f".st-key-{chart} .js-plotly-plot").first).to_be_visible()
        seen.idle()
    page.wait_for_url(re.compile("view=Playground"))
    seen.clean()


def test_a_box_across_the_chart_chooses_the_slice(server: str, visit: Open) -> None:
    seen = visit(address(server, "NLL against calibration"))
    page = seen.page
    plot = page.locator(".st-key-slice .js-plotly-plot")
    for low, high in ((2.0, 5.0), (1.0, 3.0)):
        (left, top), (right, bottom) = seen.point(plot, low, 0.0), seen.point(plot, high, 0.0)
        page.mouse.move(left, top - 10)
        page.mouse.down()
        page.mouse.move((left + right) / 2, top)
        page.mouse.move(right, bottom + 10, steps=4)
        page.mouse.up()
        expect(page.get_by_role("heading", name=near(low, high))).to_be_visible()
        seen.idle()
    # the slider still has the last word
    page.get_by_role("slider", name="Margin slice").last.press("End")
    expect(page.get_by_role("heading", name=near(1.0, 3.0))).to_have_count(0)
    seen.picture("theory-boxed")
    seen.clean()


def near(low: float, high: float) -> re.Pattern[str]:
    """The headline of a slice whose ends a box of whole pixels has met within a tenth."""
    ends = [f"(?:{end - 0.1:.1f}|{end:.1f})\\d" for end in (low, high)]
    return re.compile(f"Sharpening margins {ends[0]} to {ends[1]}")


def test_the_camera_saves_svg_and_png_and_the_numbers_as_csv_and_json(server: str, visit: Open, tmp_path: Path) -> None:
    seen = visit(address(server, "Margin bounds"))
    page = seen.page
    chart = page.locator(".st-key-feasible .js-plotly-plot")

    def kept(click: Callable[[], None]) -> bytes:
        with page.expect_download() as waiting:
            click()
        target = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(target)
        assert target.stem == "feasible"
        return target.read_bytes()

    def photographed() -> bytes:
        chart.hover()
        return kept(lambda: chart.locator("[data-title^='Download plot']").click())

    assert photographed().startswith(b"<svg")
    seen.open_box("The numbers of this chart")
    files = {}
    for form in ("csv", "json"):
        button = page.locator(f".st-key-feasible-table-{form} button")
        files[form] = kept(button.click)
    rows = list(csv.DictReader(files["csv"].decode().splitlines()))
    assert len(rows) == len(json.loads(files["json"])) == 11
    page.locator(".st-key-feasible-picture").get_by_text("PNG", exact=True).click()
    seen.idle()
    assert photographed().startswith(b"\x89PNG\r\n\x1a\n")
    seen.clean()


def test_a_search_moves_the_slice(server: str, visit: Open) -> None:
    seen = visit(address(server, "NLL against calibration", "data=fashion_ls_0_05"))
    page = seen.page
    page.get_by_role("button", name="Search for a slice").click()
    expect(page.get_by_text("Test confirms it")).to_be_visible()
    expect(page.get_by_role("heading", name=re.compile("lowers the NLL but raises the witness"))).to_be_visible()
    seen.picture("theory-conflict")
    seen.clean()


@pytest.mark.long
def test_a_cancelled_run_keeps_its_results(server: str, visit: Open) -> None:
    seen = visit(address(server, "Playground", "data=digits&theory-n=16000&theory-k=100&theory-seeds=5"))
    page = seen.page
    page.locator(".st-key-run-playground button").click()
    expect(page.locator(".st-key-recovery .js-plotly-plot").first).to_be_visible(timeout=LONG)
    page.get_by_test_id("stSidebar").get_by_role("button", name="Cancel").first.click()
    expect(page.get_by_text("cancelled: Playground")).to_be_visible(timeout=LONG)
    seen.idle()
    expect(page.locator(".st-key-recovery .js-plotly-plot").first).to_be_visible()
    seen.clean()
