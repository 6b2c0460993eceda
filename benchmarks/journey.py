"""From a file to a calibrator in a real browser: the first verdict, the recommended set, the downloaded calibrator.

`benchmarks/dashboard.py` runs it on three sets and writes the table.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser

import sample_logits
from smart_core.data.simulate import simulate_set

PATIENCE = 180_000
"""Milliseconds to wait for a step."""
IDLE = '[data-test-connection-state="CONNECTED"][data-test-script-state="notRunning"]'
HEADS = ("set", "upload to verdict, s", "to the recommendation, s", "to the calibrator, s", "load before")
VERDICT = re.compile(r"\. (Overconfident|Underconfident|No miscalibration|No evidence)")


def journey(browser: Browser, address: str, file: Path) -> tuple[float, float, float]:
    """Return the seconds from the upload to the verdict, then to the recommendation, then to the calibrator."""
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(f"{address}/start?data=digits")
    page.get_by_role("heading", name=VERDICT).first.wait_for()
    page.locator(IDLE).wait_for()
    start = time.perf_counter()
    page.locator(".st-key-start-files input[type=file]").set_input_files(file)
    page.get_by_role("heading", name=re.compile(re.escape(file.stem) + VERDICT.pattern)).wait_for()
    verdict = time.perf_counter()
    page.get_by_role("link", name="Compare", exact=True).first.click()
    page.get_by_role("button", name="Fit the recommended set").click()
    page.get_by_role("button", name="Export it").wait_for()
    recommended = time.perf_counter()
    page.get_by_role("button", name="Export it").click()
    with page.expect_download():
        page.get_by_role("button", name="Download calibrator", exact=True).click()
    end = time.perf_counter()
    page.close()
    return verdict - start, recommended - verdict, end - recommended


def write_sets(folder: Path) -> list[Path]:
    """Write two samples without their extra arrays, and a simulated set with many classes."""
    files = []
    for name in ("fashion", "cifar10"):
        with np.load(sample_logits.path(name)) as bundle:
            arrays = {each: bundle[each] for each in bundle.files if each.endswith(("_logits", "_labels"))}
        files.append(folder / f"my {name}.npz")
        np.savez(files[-1], **arrays)
    files.append(folder / "my 2500 x 1000.npz")
    np.savez(files[-1], **dict(simulate_set(2500, 2500, 1000, seed=0).arrays()))
    return files


def journeys(browser: Browser, address: str, folder: Path) -> list[tuple[str, ...]]:
    """Return a row of the table for each of three sets."""
    rows = []
    for file in write_sets(folder):
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
        times = journey(browser, address, file)
        rows.append((file.stem.removeprefix("my "), *(f"{each:.1f}" for each in times), f"{load:.1f}"))
        print(rows[-1], flush=True)
    return rows
