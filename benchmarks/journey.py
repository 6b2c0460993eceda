"""From a file to a calibrator in a real browser: the first verdict, the recommended set, the downloaded calibrator.

Run with `python -m benchmarks.journey`; it takes some minutes and writes its section of benchmarks/DASHBOARD.md.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, sync_playwright

import sample_logits
from benchmarks.dashboard import IDLE, PATIENCE, REPORT, SECTION, processor
from smart_core.cli.terminal import table
from smart_core.data.simulate import simulate_set
from tests.browser.chromium import executable
from tests.browser.conftest import serve

VERDICT = re.compile(r"\. (Too confident|Not confident enough|No miscalibration|No evidence)")


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


def main() -> None:
    """Measure three sets, print the table and write it."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright, serve() as address:
        files = []
        for name in ("fashion", "cifar10"):
            with np.load(sample_logits.path(name)) as bundle:
                arrays = {each: bundle[each] for each in bundle.files if each.endswith(("_logits", "_labels"))}
            files.append(Path(folder) / f"my {name}.npz")
            np.savez(files[-1], **arrays)
        files.append(Path(folder) / "my 2500 x 1000.npz")
        np.savez(files[-1], **dict(simulate_set(2500, 2500, 1000, seed=0).arrays()))
        browser = playwright.chromium.launch(
            executable_path=executable(), headless=True, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        rows = []
        for file in files:
            load = os.getloadavg()[0]
            times = journey(browser, address, file)
            rows.append((file.stem.removeprefix("my "), *(f"{each:.1f}" for each in times), f"{load:.1f}"))
            print(rows[-1], flush=True)
        browser.close()
    heads = ("set", "upload to verdict", "to the recommendation", "to the calibrator", "load before")
    print(table(heads, rows))
    listed = "\n".join(f"| {' | '.join(line)} |" for line in [heads, ("---",) * len(heads), *rows])
    before = REPORT.read_text().partition(SECTION)[0].rstrip()
    REPORT.write_text(
        f"{before}\n\n{SECTION}\n\n`python -m benchmarks.journey`: seconds of each step, with 5 seeds, and the number "
        f"of processes that waited for a core. {processor()}.\n\n{listed}\n"
    )


if __name__ == "__main__":
    main()
