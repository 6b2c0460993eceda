"""A table of confidences without logits in a real browser: upload, verdict, fit, slice by a column, download."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
from playwright.sync_api import expect

import smart_core as sc
from tests.browser.conftest import Visit
from tests.browser.test_export import download
from tests.browser.test_first_visit import FITS

Open = Callable[..., Visit]


def table() -> bytes:
    rng = np.random.default_rng(3)
    confidence = np.round(rng.beta(5, 2, 3000), 3)
    site = np.where(rng.random(3000) < 0.3, "north", "south")
    right = rng.random(3000) < confidence ** np.where(site == "north", 3.0, 1.2)
    true = rng.integers(0, 9, 3000)
    predicted = np.where(right, true, (true + 1) % 9)
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow(["true_label", "pred_label", "confidence", "site"])
    writer.writerows(zip(true, predicted, confidence, site, strict=True))
    return stream.getvalue().encode()


def test_from_the_upload_to_the_download(server: str, visit: Open, tmp_path: Path) -> None:
    seen = visit(f"{server}/start")
    page = seen.page
    file = {"name": "judge.csv", "mimeType": "text/csv", "buffer": table()}
    page.locator(".st-key-start-files input[type=file]").set_input_files([file])
    expect(page.get_by_role("heading", level=4).first).to_contain_text("judge. Overconfident")
    expect(page.get_by_test_id("stSidebar").get_by_text("confidences without logits")).to_be_attached()
    # the page runs again when its own fit ends, which would close a list of options
    expect(page.get_by_test_id("stSidebar").get_by_text("✓ First fit")).to_be_attached(timeout=FITS)
    seen.idle()
    seen.picture("confidences-start")

    page.get_by_role("link", name="Diagnose", exact=True).first.click()
    expect(page.get_by_role("heading", name="By column")).to_be_visible()
    seen.idle()
    page.locator(".st-key-slice-column input").click()
    page.get_by_role("option", name="site").click()
    # once below the heading, once more as the description of the chart, in its closed box
    expect(page.get_by_text("By site, worst is north").first).to_be_visible()
    seen.idle()
    expect(page.locator(".st-key-slices .ytick text")).to_have_count(2)
    seen.picture("confidences-diagnose")

    page.get_by_role("link", name="Compare", exact=True).first.click()
    recommended = page.get_by_role("button", name="Fit the recommended set")
    expect(recommended).to_be_enabled()
    seen.idle()
    recommended.click()
    expect(page.get_by_role("heading", name=re.compile("Recommended: "))).to_be_visible(timeout=FITS)
    seen.idle()
    seen.picture("confidences-compare")

    page.get_by_test_id("stHeader").get_by_text("Analysis").click()
    page.get_by_role("menuitem", name="Margin groups", exact=True).click()
    expect(page.get_by_text("Margin groups needs logits; judge holds confidences alone.")).to_be_visible()
    seen.idle()

    page.get_by_test_id("stHeader").get_by_text("Export and help").click()
    page.get_by_role("menuitem", name="Export", exact=True).click()
    expect(page.get_by_role("button", name="Download calibrator", exact=True)).to_be_visible()
    seen.idle()
    calibrator = sc.load_calibrator(download(seen, "Download calibrator", tmp_path))
    rows = list(csv.DictReader(download(seen, "Download csv", tmp_path).read_text().splitlines()))
    assert len(rows) == 1500
    assert set(rows[0]) == {"confidence", "correct", "true_label", "predicted_label", "site"}
    after = np.array([float(row["confidence"]) for row in rows])
    assert calibrator.predict_confidence(np.array([0.9])).shape == (1,)
    right = np.array([row["correct"] == "True" for row in rows])
    assert abs(after.mean() - right.mean()) < 0.05
    seen.picture("confidences-export")
    seen.clean()
