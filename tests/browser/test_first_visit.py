"""A first visit in a real browser: a verdict, a comparison and a downloaded calibrator."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import expect

import smart_core as sc
from tests.browser.conftest import Visit, serve
from tests.conftest import ROOT

Open = Callable[..., Visit]

FITS = 240_000
"""Milliseconds to wait for fits on a busy machine."""


def test_from_the_first_page_to_a_calibrator(visit: Open, tmp_path: Path) -> None:
    with serve() as address:
        begin = time.monotonic()
        seen = visit(address, height=800)
        page = seen.page
        number = 0

        def picture() -> None:
            nonlocal number
            number += 1
            page.mouse.move(0, 0)  # no tooltip
            page.screenshot(path=ROOT / "artifacts" / f"first-time-{number}.png")

        (ROOT / "artifacts").mkdir(exist_ok=True)
        expect(page.get_by_role("heading", level=4).first).to_have_text(
            re.compile("^Fashion-MNIST, smoothed labels. Underconfident: the mean confidence is ")
        )
        expect(page.get_by_text("After temperature scaling (one temperature for all samples), margins")).to_be_visible()
        to_verdict = time.monotonic() - begin
        for side in ("vanilla", "smart"):  # before and after, without a click
            expect(page.locator(f".st-key-start-{side} .main-svg").first).to_be_visible()
        seen.idle()
        picture()

        page.get_by_role("link", name="Compare", exact=True).first.click()
        recommended = page.get_by_role("button", name="Fit the recommended set")
        expect(recommended).to_be_enabled()
        seen.idle()
        picture()
        recommended.click()
        expect(page.locator(".st-key-leaderboard")).to_be_visible(timeout=FITS)
        picture()
        expect(page.get_by_role("heading", name=re.compile("Recommended: "))).to_be_visible(timeout=FITS)
        seen.idle()
        expect(page.locator(".st-key-leaderboard-plot .ytick text")).to_have_count(11)
        picture()

        page.get_by_test_id("stHeader").get_by_text("Export and help").click()
        page.get_by_role("menuitem", name="Export", exact=True).click()
        button = page.get_by_role("button", name="Download calibrator", exact=True)
        expect(button).to_be_visible()
        seen.idle()
        with page.expect_download() as waiting:
            button.click()
        calibrator = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(calibrator)
        whole = time.monotonic() - begin
        picture()
        print(f"seconds to the verdict {to_verdict:.1f}, to the downloaded calibrator {whole:.1f}")
        assert sc.load_calibrator(calibrator).predict_proba([[2.0, 1.0] + [0.0] * 8]).shape == (1, 10)
        assert number == 5
        seen.clean()
