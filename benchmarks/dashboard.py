"""The dashboard's waits in a real browser, each beside what Streamlit itself takes for the same step.

Run with `python -m benchmarks.dashboard [SAMPLES] [CLASSES]`; by default 50,000 x 1000 logits in float32, 200 MB.
Both servers run side by side and steps alternate, so that the ratios depend little on the machine's load.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, sync_playwright

from smart_core.console import table
from smart_core.data.simulate import simulate
from smart_core.evaluation import Evaluation, evaluate
from smart_core.figures import margin_group_grid
from smart_core.margin_groups import margin_edges
from tests.browser.chromium import executable
from tests.browser.conftest import serve

SAMPLES, CLASSES = 50_000, 1000
PATIENCE = 180_000

BARE = """
import streamlit as st

def first():
    st.title("First")
    taken = st.file_uploader("file", key="bare")
    if taken is not None:
        st.write(f"{taken.size} bytes")

def second():
    st.title("Second")

st.navigation([st.Page(first, default=True), st.Page(second)]).run()
"""


def write_bundle(path: Path, samples: int, classes: int) -> None:
    """Simulated logits as an uncompressed bundle, half validation, half test."""
    drawn = simulate(samples, classes, seed=0)
    half = samples // 2
    arrays = {"val_logits": drawn.logits[:half], "val_labels": drawn.labels[:half]}
    arrays |= {"test_logits": drawn.logits[half:], "test_labels": drawn.labels[half:]}
    np.savez(path, **arrays)


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def upload(page: Page, address: str, key: str, bundle: Path, words: str) -> float:
    """From handing the file over until the words stand on the page."""
    page.goto(address, timeout=PATIENCE)
    place = page.locator(f".st-key-{key} input[type=file]")
    place.wait_for(state="attached", timeout=PATIENCE)

    def hand_over() -> None:
        place.set_input_files(bundle)
        page.get_by_text(words).first.wait_for(timeout=PATIENCE)

    return seconds(hand_over)


def page_change(page: Page, link: str, heading: str) -> float:
    """From the click in the menu until the other page's title stands."""

    def change() -> None:
        page.get_by_role("link", name=link, exact=True).first.click()
        page.get_by_role("heading", name=heading, exact=True).wait_for(timeout=PATIENCE)
        page.locator('[data-test-script-state="notRunning"]').wait_for(timeout=PATIENCE)

    return seconds(change)


def margin_slider(samples: int, classes: int) -> float:
    """The engine's part of a move of the margin-group slider: new edges, new groups, new figure."""
    from smart_core import Vanilla
    from smart_core.data.logitset import Part

    drawn = simulate(samples, classes, seed=1)
    model = Vanilla().fit(drawn.logits[:2], drawn.labels[:2])
    judged: Evaluation = evaluate(model, Part(drawn.logits, drawn.labels))

    def move(groups: int) -> None:
        margin_group_grid(judged, judged, margin_edges(judged.margin, groups))

    return min(seconds(partial(move, groups)) for groups in (5, 6, 7))


def main(samples: int = SAMPLES, classes: int = CLASSES) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        bundle, bare_app = Path(folder) / "bundle.npz", Path(folder) / "bare.py"
        write_bundle(bundle, samples, classes)
        bare_app.write_text(BARE)
        megabytes = bundle.stat().st_size / 1e6
        browser = playwright.chromium.launch(
            executable_path=executable(), headless=True, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        with serve() as ours, serve(bare_app) as bare:
            there, here = browser.new_page(), browser.new_page()
            for warm, address in ((there, bare), (here, f"{ours}/start?data=digits")):
                warm.goto(address, timeout=PATIENCE)
                warm.locator('[data-test-script-state="notRunning"]').wait_for(timeout=PATIENCE)
            bare_upload = upload(there, bare, "bare", bundle, "bytes")
            to_verdict = upload(here, f"{ours}/start?data=digits", "start-files", bundle, "bundle")
            here.get_by_role("link", name="Diagnose", exact=True).first.click()
            here.get_by_role("heading", name="Diagnose", exact=True).wait_for(timeout=PATIENCE)
            changes = [
                (page_change(there, "second", "Second"), page_change(here, "Compare", "Compare"))
                if number % 2 == 0
                else (page_change(there, "first", "First"), page_change(here, "Diagnose", "Diagnose"))
                for number in range(6)
            ]
        browser.close()
    empty, change = (statistics.median(column) for column in zip(*changes, strict=True))
    rows = [
        (
            "upload to verdict",
            f"{to_verdict:.1f}",
            f"bare upload {bare_upload:.1f}",
            f"{to_verdict / bare_upload:.1f} x",
        ),
        ("page change", f"{change:.2f}", f"empty page {empty:.2f}", f"{change - empty:+.2f} s"),
        ("margin-group slider, engine", f"{margin_slider(samples // 2, classes):.2f}", "", ""),
    ]
    print(f"{samples:,} x {classes:,} logits, {megabytes:.0f} MB, seconds")
    print(table(("step", "here", "beside it", "ratio or difference"), rows))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:3]))
