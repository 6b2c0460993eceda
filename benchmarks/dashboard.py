"""The dashboard's waits in a real browser, each beside what Streamlit itself takes for the same step, and the way from
a file to a downloaded calibrator.

Run with `python -m benchmarks.dashboard [SAMPLES] [CLASSES]`; it takes less than five minutes and prints PASS or FAIL.
By default the logits are 50,000 x 1000 in float32, 200 MB, and then the tables are also written to
benchmarks/DASHBOARD.md. Both servers run side by side and steps alternate, so that the ratios depend little on the
machine's load.
"""

from __future__ import annotations

import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, Playwright, sync_playwright

from benchmarks.journey import HEADS, IDLE, PATIENCE, journeys
from benchmarks.measure import machine
from smart_core.analysis.margin_groups import margin_edges
from smart_core.cli.terminal import table
from smart_core.data.simulate import simulate
from smart_core.evaluation import Evaluation, evaluate
from smart_core.figures import margin_group_grid
from tests.browser.chromium import executable
from tests.browser.conftest import serve

SAMPLES, CLASSES = 50_000, 1000
UPLOADS, CHANGES = 3, 8
"""How often each step is taken; medians are shown."""

REPORT = Path(__file__).with_name("DASHBOARD.md")
VERDICT = re.compile(r"bundle\. (Overconfident|Underconfident|No )")
"""How the verdict on the uploaded file begins."""

Pair = tuple[float, float]
"""Seconds on the bare page, and here."""

BARE = """
import streamlit as st

def first():
    st.title("First")
    taken = st.file_uploader("file", key="bare")
    if taken is not None:
        st.write(f"{taken.size} bytes")

def second():
    st.title("Second")

st.navigation([st.Page(first, title="First", default=True), st.Page(second, title="Second")], position="top").run()
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


def upload(page: Page, address: str, key: str, bundle: Path, words: str | re.Pattern[str]) -> float:
    """From handing the file over, in a session of its own, until the words stand on the page."""
    page.goto(address, timeout=PATIENCE)
    place = page.locator(f".st-key-{key} input[type=file]")
    place.wait_for(state="attached", timeout=PATIENCE)
    page.locator(IDLE).wait_for(timeout=PATIENCE)

    def hand_over() -> None:
        place.set_input_files(bundle)
        page.get_by_text(words).first.wait_for(timeout=PATIENCE)

    return seconds(hand_over)


def page_change(page: Page, title: str) -> float:
    """From the click in the menu until the other page's title stands."""

    def change() -> None:
        page.get_by_role("link", name=title, exact=True).first.click()
        page.get_by_role("heading", name=title, exact=True).wait_for(timeout=PATIENCE)
        page.locator(IDLE).wait_for(timeout=PATIENCE)

    return seconds(change)


def margin_slider(samples: int, classes: int) -> float:
    """The engine's part of a move of the margin-group slider: new edges, new groups, new figure.

    The processor's time is counted: it depends less on how busy the machine is.
    """
    from smart_core import Vanilla
    from smart_core.data.logitset import Part

    drawn = simulate(samples, classes, seed=1)
    model = Vanilla().fit(drawn.logits[:2], drawn.labels[:2])
    judged: Evaluation = evaluate(model, Part(drawn.logits, drawn.labels), classwise=False)

    def move(groups: int) -> float:
        start = time.process_time()
        margin_group_grid(judged, judged, margin_edges(judged.margin, groups))
        return time.process_time() - start

    move(4)  # the first figure of a process also loads plotly's parts
    return statistics.median(move(groups) for groups in (5, 6, 7, 12))


def waits(playwright: Playwright, folder: Path, bundle: Path) -> tuple[list[Pair], list[Pair], list[tuple[str, ...]]]:
    """Uploads and page changes, each pair first on the bare page and then here, and the journeys of three sets."""
    bare_app = folder / "bare.py"
    bare_app.write_text(BARE)
    browser = playwright.chromium.launch(
        executable_path=executable(), headless=True, args=["--no-sandbox", "--disable-dev-shm-usage"]
    )
    with serve() as ours, serve(bare_app) as bare:
        there, here, start = browser.new_page(), browser.new_page(), f"{ours}/start?data=digits"
        for page, address in ((there, bare), (here, start)):  # what a server does once
            page.goto(address, timeout=PATIENCE)
            page.get_by_role("heading", level=1).wait_for(timeout=PATIENCE)
            page.locator(IDLE).wait_for(timeout=PATIENCE)
        uploads = [
            (upload(there, bare, "bare", bundle, "bytes"), upload(here, start, "start-files", bundle, VERDICT))
            for _ in range(UPLOADS)
        ]
        here.locator(IDLE).wait_for(timeout=PATIENCE)
        ways = [("Second", "Diagnose"), ("First", "Compare")]
        changes = [
            (page_change(there, bare_title), page_change(here, title))
            for bare_title, title in (ways[number % 2] for number in range(CHANGES + 2))
        ]
        here.close()
        found = journeys(browser, ours, folder)
    browser.close()
    return uploads, changes[2:], found  # each page is judged and drawn for the first time before


@dataclass(frozen=True)
class Step:
    """A step's median, what it is held against, and the bound that it is to keep."""

    name: str
    here: float
    beside: str
    held: float
    unit: str
    bound: float

    @property
    def row(self) -> tuple[str, ...]:
        sign = "+" if self.beside.startswith("empty") else ""
        held, bound = f"{sign}{self.held:.2f} {self.unit}", f"{sign}{self.bound:g} {self.unit}"
        return self.name, f"{self.here:.2f}", self.beside, held, bound


def steps(uploads: list[Pair], changes: list[Pair], slider: float) -> list[Step]:
    """Return the measured steps."""
    bare_upload, to_verdict = (statistics.median(column) for column in zip(*uploads, strict=True))
    empty, change = (statistics.median(column) for column in zip(*changes, strict=True))
    return [
        Step("upload to verdict", to_verdict, f"bare upload {bare_upload:.1f}", to_verdict / bare_upload, "x", 3.0),
        Step("page change", change, f"empty page {empty:.2f}", change - empty, "s", 0.7),
        Step("margin-group slider, engine, processor", slider, "", slider, "s", 0.5),
    ]


def listed(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [heads, ("---",) * len(heads), *rows])


def main(samples: int = SAMPLES, classes: int = CLASSES) -> None:
    """Print the tables; at full size also write them beside this file."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        bundle = Path(folder) / "bundle.npz"
        write_bundle(bundle, samples, classes)
        megabytes = bundle.stat().st_size / 1e6
        uploads, changes, found = waits(playwright, Path(folder), bundle)
    measured = steps(uploads, changes, margin_slider(samples, classes))
    rows = [step.row for step in measured]
    size = f"{samples:,} x {classes:,} logits, {megabytes:.0f} MB, seconds"
    heads = ("step", "here", "beside it", "ratio or difference", "bound")
    print(size, table(heads, rows), table(HEADS, found), f"{time.perf_counter() - begin:.0f} s in all", sep="\n")
    print("PASS" if all(step.held <= step.bound for step in measured) else "FAIL")
    if (samples, classes) == (SAMPLES, CLASSES):
        REPORT.write_text(
            f"# The dashboard's waits\n\n`python -m benchmarks.dashboard`: {size}, medians of {UPLOADS} uploads and "
            f"{CHANGES} page changes, {machine()}.\n\n{listed(heads, rows)}\n\n## From a file to a calibrator\n\n"
            "Seconds from the upload to the verdict, from there to the recommendation of the recommended set with 5 "
            "seeds, and from there to the downloaded calibrator; and how many processes ran or waited for a core.\n\n"
            f"{listed(HEADS, found)}\n"
        )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:3]))
