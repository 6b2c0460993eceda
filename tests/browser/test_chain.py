"""A chain in a real browser: chosen, fitted, compared, exported, and its files read again."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path

import numpy as np
from playwright.sync_api import expect

import sample_logits
import smart_core as sc
from tests.browser.conftest import Visit
from tests.browser.test_compare import FITS, methods_drawn
from tests.browser.test_export import download, plug_in_ece

Open = Callable[..., Visit]

LABEL = "SVS then SMART"


def test_svs_then_smart_is_fitted_compared_exported_and_read_again(server: str, visit: Open, tmp_path: Path) -> None:
    seen = visit(f"{server}/compare?data=digits&seeds=1")
    page = seen.page
    seen.open_box("Choose methods")
    for key, label in (("chain-first", "SVS"), ("chain-second", "SMART")):
        expect(page.locator(f".st-key-{key} input")).to_have_value(label)
    page.locator(".st-key-fit-chain button").first.click()
    expect(page.locator(".st-key-leaderboard")).to_be_visible(timeout=FITS)
    seen.idle()
    assert methods_drawn(page) == [LABEL]
    seen.picture("compare-chain-1280-light")

    page.get_by_test_id("stHeader").get_by_text("Export and help").click()
    page.get_by_role("menuitem", name="Export", exact=True).click()
    headline = page.get_by_role("heading", name=f"{LABEL} has an ECE of")
    expect(headline).to_be_visible(timeout=FITS)
    seen.idle()
    words = headline.inner_text()
    (shown, _) = (float(number) for number in re.findall(r"([\d.]+)%", words))
    with np.load(sample_logits.path("digits")) as bundle:
        logits, labels = bundle["test_logits"], bundle["test_labels"]
    loaded = sc.load_calibrator(download(seen, "Download calibrator", tmp_path))
    assert (loaded.id, loaded.label) == ("svs+smart", LABEL)
    rows = loaded.predict_proba(logits)
    assert f"{100 * plug_in_ece(rows, labels):.2f}" == f"{shown:.2f}"
    by_numpy = runpy.run_path(str(download(seen, "Download NumPy file", tmp_path)))["predict_proba"](logits)
    np.testing.assert_allclose(by_numpy, rows, atol=1e-6)
    workspace = download(seen, "Download workspace", tmp_path)
    seen.clean()

    fresh = visit(f"{server}/export")  # a session and a workspace of its own
    fresh.page.locator(".st-key-export-restore input[type=file]").set_input_files(workspace)
    expect(fresh.page.get_by_role("heading", name=f"{LABEL} has an ECE of")).to_have_text(words)
    fresh.clean()
