"""A reduced set of many rows in the browser: seconds to its verdict, and from the move of a slider to its chart.

Run with `python -m benchmarks.reduced [--rows 10000000] [--classes 100] [--folder PLACE]`. The set is made first: a few
blocks of rows are drawn and reduced, and written again and again. Then `smart dashboard` serves its folder, and
Chromium opens it by its path on Start. Beside each wait stand the processor's seconds of the server, which depend less
on what else runs.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import torch
from playwright.sync_api import Page, sync_playwright
from pyarrow.parquet import ParquetWriter

from benchmarks.measure import machine
from smart_core.cli.terminal import table
from smart_core.experiments.reduce import GROUP_ROWS, reduced_rows, table_of
from tests.browser.chromium import executable

PATIENCE = 300_000
IDLE = '[data-test-connection-state="CONNECTED"][data-test-script-state="notRunning"]'
MOVES = 6
BLOCKS = 4
"""Blocks of rows that are drawn."""


def make(path: Path, rows: int, classes: int) -> None:
    """Gaussian logits with one class raised, labels from their softmax at temperature 1.5, reduced."""
    rng, tables = np.random.default_rng(0), []
    for _ in range(BLOCKS):
        z = rng.standard_normal((GROUP_ROWS, classes), dtype=np.float32)
        z[np.arange(GROUP_ROWS), rng.integers(0, classes, GROUP_ROWS)] += 2.0 + 8.0 * rng.random(GROUP_ROWS)
        gumbel = -np.log(-np.log(np.clip(rng.random(z.shape, dtype=np.float32), 1e-12, 1 - 1e-7)))
        columns = reduced_rows(torch.from_numpy(z), torch.from_numpy((z / 1.5 + gumbel).argmax(axis=1)))
        tables.append(table_of({**columns, "domain": rng.choice(["news", "code", "web"], GROUP_ROWS)}))
    with ParquetWriter(path, tables[0].schema, compression="zstd") as writer:
        for number, start in enumerate(range(0, rows, GROUP_ROWS)):
            writer.write_table(tables[number % BLOCKS].slice(0, min(GROUP_ROWS, rows - start)), GROUP_ROWS)


@contextmanager
def dashboard(folder: Path) -> Iterator[tuple[str, int]]:
    """The address and the process of `smart dashboard` over a folder."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "smart_core", "dashboard", "--no-browser", "--ephemeral", "--port", str(port)]
    environment = {**os.environ, "SMART_DATA_FOLDER": str(folder)}
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            with suppress(OSError), urllib.request.urlopen(f"{address}/_stcore/health", timeout=2):
                break
            time.sleep(0.2)
        yield address, server.pid
    finally:
        server.terminate()
        server.wait(timeout=30)


def processor_seconds(process: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_megabytes(process: int) -> float:
    """The most memory that a process has held."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def timed(process: int, action: Callable[[], object]) -> tuple[float, float]:
    """Seconds of a step, and of the server's processor meanwhile."""
    start, used = time.perf_counter(), processor_seconds(process)
    action()
    return time.perf_counter() - start, processor_seconds(process) - used


def opening(page: Page, name: str) -> None:
    """From the click on Load until the verdict stands."""
    page.locator(".st-key-start-load button").click()
    page.get_by_role("heading", name=name, level=4).wait_for(timeout=PATIENCE)


def go_to(page: Page, title: str) -> None:
    """Open a page of the menu and wait until it is drawn."""
    address, _, query = page.url.partition("?")
    page.goto(f"{address.rpartition('/')[0]}/{title}?{query}", timeout=PATIENCE)
    page.locator(".js-plotly-plot").first.wait_for(timeout=PATIENCE)
    page.locator(IDLE).wait_for(timeout=PATIENCE)


def move(page: Page, key: str, done: str) -> None:
    """One step of a slider, until the page shows what belongs to its new value."""
    thumb = page.locator(f".st-key-{key}").get_by_role("slider")
    value = int(thumb.input_value())
    thumb.press("ArrowRight")
    page.wait_for_function(done, arg=value + 1, timeout=PATIENCE)


BINS_SHOWN = "value => document.body.innerText.includes(`ECE, measured, ${value} bins`)"
GROUPS_SHOWN = "value => document.querySelectorAll('.st-key-margin-groups .annotation').length === value"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--folder", type=Path, default=None, help="where tokens.parquet is, or is to be made")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        folder = options.folder or Path(place)
        path = folder / "tokens.parquet"
        if not path.exists():
            make(path, options.rows, options.classes)
        browser = playwright.chromium.launch(
            executable_path=executable(), headless=True, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        with dashboard(folder) as (address, server):
            page.goto(f"{address}/start?data=digits", timeout=PATIENCE)
            page.locator(".js-plotly-plot").first.wait_for(timeout=PATIENCE)
            page.locator(IDLE).wait_for(timeout=PATIENCE)
            page.get_by_text("Files on the server").click()
            page.locator(".st-key-start-pattern input").fill(path.name)
            page.locator(".st-key-start-pattern input").press("Enter")
            page.locator(".st-key-start-load button:enabled").wait_for(timeout=PATIENCE)
            page.locator(IDLE).wait_for(timeout=PATIENCE)
            rows = [("from Load to the verdict", *timed(server, lambda: opening(page, path.stem)))]
            page.get_by_text("After SMART, fitted").wait_for(timeout=PATIENCE)  # the first fit is in the background
            for title, key, done in (("diagnose", "bins", BINS_SHOWN), ("margin_groups", "groups", GROUPS_SHOWN)):
                go_to(page, title)
                moves = [timed(server, lambda key=key, done=done: move(page, key, done)) for _ in range(MOVES)]
                wait, used = (statistics.median(column) for column in zip(*moves, strict=True))
                rows.append((f"slider {key} on {title}, median of {MOVES}", wait, used))

            megabytes = peak_megabytes(server)
        browser.close()
    print(f"{options.rows:,} reduced rows of {options.classes:,} classes; {machine()}")
    print(
        table(
            ["step", "seconds", "processor of the server"],
            [[step, f"{wait:.2f}", f"{used:.2f}"] for step, wait, used in rows],
        )
    )
    print(f"peak memory of the server {megabytes:,.0f} MB")


if __name__ == "__main__":
    main()
