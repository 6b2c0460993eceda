"""Every page in both themes against axe-core, and the way from a file to a calibrator without a mouse."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import FileChooser, expect

import sample_logits
import smart_core as sc
from tests.browser.conftest import Visit
from tests.browser.test_navigation import TITLES
from tests.conftest import long_but

Open = Callable[..., Visit]

FITS = 240_000
"""Milliseconds to wait for fits on a busy machine."""

BAD = ("serious", "critical")
FIND = "axe.run(document, { resultTypes: ['violations'] })"
CASES = [f"{path} {theme}" for path in TITLES for theme in ("light", "dark")]
QUICK = ("start light", "start dark", "compare light", "theory dark", "guide light")

CHART_WITHOUT_TEXT = """() => [...document.querySelectorAll('.stPlotlyChart')]
    .filter(chart => (chart.getAttribute('aria-label') ?? '').length < 30).length"""


def findings(seen: Visit) -> list[str]:
    """Return the serious findings of axe-core on the page."""
    seen.page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found = seen.page.evaluate(FIND)["violations"]
    return [
        f"{rule['id']}: {node['html'][:120]} ({node['failureSummary'][:200]})"
        for rule in found
        for node in rule["nodes"]
        if rule["impact"] in BAD
    ]


@pytest.mark.parametrize("case", long_but(*QUICK)(CASES))
def test_a_page_has_no_serious_finding(server: str, visit: Open, case: str) -> None:
    path, theme = case.split()
    seen = visit(f"{server}/{path}?data=digits", dark=theme == "dark")
    assert findings(seen) == []
    assert seen.page.evaluate(CHART_WITHOUT_TEXT) == 0
    seen.clean()


def tab_to(seen: Visit, selector: str, limit: int = 120) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(limit):
        if seen.page.evaluate("selector => document.activeElement?.matches(selector)", selector):
            return
        seen.page.keyboard.press("Tab")
    pytest.fail(f"the keyboard does not reach {selector}")


def test_from_a_file_to_a_calibrator_without_a_mouse(server: str, visit: Open, tmp_path: Path) -> None:
    with np.load(sample_logits.path("digits")) as bundle:
        arrays = {name: bundle[name][:300] for name in ("val_logits", "val_labels", "test_logits", "test_labels")}
    np.savez(tmp_path / "mine.npz", **arrays)
    seen = visit(f"{server}/start?data=digits")
    press = seen.page.keyboard.press
    asked: list[FileChooser] = []
    # before it is needed: Chromium takes a moment to pass its file dialogs on
    seen.page.on("filechooser", lambda chooser: asked.append(chooser))
    tab_to(seen, ".st-key-open-file button")
    press("Enter")
    seen.idle()  # the button reruns the page, long before a user has chosen a file
    (chooser,) = asked
    chooser.set_files(tmp_path / "mine.npz")
    expect(seen.page.get_by_role("heading", level=4).first).to_contain_text("mine. ")
    seen.idle()

    tab_to(seen, "a[href$='/compare'], a[href*='/compare?']")
    press("Enter")
    expect(seen.page.get_by_role("heading", name="Compare", exact=True)).to_be_visible()
    seen.idle()
    press("Control+Enter")
    expect(seen.page.get_by_role("button", name="Export it")).to_be_visible(timeout=FITS)
    seen.idle()
    tab_to(seen, ".st-key-recommendation-export button")
    press("Enter")
    expect(seen.page.get_by_role("heading", name="Export", exact=True)).to_be_visible()
    seen.idle()
    tab_to(seen, ".st-key-export-calibrator button")
    with seen.page.expect_download() as waiting:
        press("Enter")
    waiting.value.save_as(tmp_path / "calibrator.safetensors")
    assert sc.load_calibrator(tmp_path / "calibrator.safetensors").classes_ == 10
    seen.clean()
