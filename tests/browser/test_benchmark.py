"""The Benchmark page in a browser, from the files to the table in a paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, expect

import smart_core as sc
from tests.browser.conftest import PATIENCE, Visit
from tests.browser.test_workspaces import id_of

MATRIX = ".st-key-benchmark-matrix .js-plotly-plot"
CELLS = f"() => document.querySelector('{MATRIX}')?._fullData[1].customdata ?? []"
FITTED = f"{CELLS[:6]}({CELLS[6:]}).filter(words => !words.includes('not fitted yet')).length"


def fitted(page: Page) -> int:
    """Cells of the matrix that have a value."""
    count: int = page.evaluate(FITTED)
    return count


def upload(seen: Visit, path: Path) -> None:
    """Give Start a file, and wait until its data set is selected."""
    seen.page.locator(".st-key-start-files input[type=file]").set_input_files(path)
    expect(seen.page.get_by_test_id("stMain").get_by_text(path.stem, exact=True).first).to_be_visible()
    seen.idle()


def go(seen: Visit, address: str, page: str) -> None:
    seen.page.goto(f"{address}/{page}?workspace={id_of(seen)}&benchmark-seeds=20")
    expect(seen.page.get_by_role("heading", name=page.capitalize(), level=1)).to_be_visible()
    seen.idle()


def test_from_files_to_the_table_in_a_paper(server: str, visit: Callable[..., Visit], tmp_path: Path) -> None:
    files = []
    for number, law in enumerate(("constant", "u_shaped", "linear", "resnet")):
        files.append(tmp_path / f"{law}.npz")
        np.savez(files[-1], **dict(sc.simulate_set(5000, 500, classes=4, law=law, seed=number).arrays()))
    seen = visit(f"{server}/start")
    page = seen.page
    for file in files[:3]:
        upload(seen, file)
        go(seen, server, "start")
    go(seen, server, "benchmark")  # it proposes the latest three
    page.get_by_role("button", name="Run the benchmark").click()
    page.wait_for_function(f"{FITTED} > 0", timeout=PATIENCE)
    page.locator(".st-key-job-0-cancel button").first.click()
    expect(page.get_by_text("✕ cancelled: Benchmark").first).to_be_visible()
    seen.idle()
    kept = fitted(page)
    assert 0 < kept < 21, "seven methods on three files, SMART with twenty seeds"

    go(seen, server, "start")
    upload(seen, files[3])
    go(seen, server, "benchmark")
    assert fitted(page) == kept
    chosen = page.locator(".st-key-benchmark-sets input")
    chosen.click()
    chosen.type("constant")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    seeds = page.locator(".st-key-benchmark-seeds input")
    seeds.fill("1")
    seeds.press("Enter")
    seen.idle()
    page.get_by_role("button", name="Run the benchmark").click()
    expect(page.get_by_text("✓ Benchmark: 7 methods on 4 data sets").first).to_be_visible()
    seen.idle()
    assert fitted(page) == 28
    expect(page.get_by_text("4 data sets: too few for a claim over data sets")).to_be_visible()

    page.locator(".st-key-benchmark-order").get_by_role("combobox").click()
    page.get_by_role("option", name="ECE of SMART").click()
    seen.idle()
    rows, best = page.evaluate(
        f"() => {{ const plot = document.querySelector('{MATRIX}');"
        "return [plot._fullLayout.yaxis.ticktext, plot._fullData[0].z.map(row => Math.min(...row))]; }"
    )
    values = [page.evaluate(CELLS)[7 * row + 6] for row in range(4)]
    assert sorted(rows) == ["constant", "linear", "resnet", "u_shaped"]
    assert best == [0, 0, 0, 0]
    assert values == sorted(values, key=lambda words: float(words.split("ECE ")[1].split("%")[0]))

    with page.expect_download() as download:
        page.locator(".st-key-benchmark-latex button").click()
    table = download.value.path().read_text()
    assert table.count(r"\mathbf") == 4
    page.mouse.click(*seen.point(page.locator(MATRIX).first, 6, 2))
    page.get_by_role("button", name=f"Open {rows[2]} on Compare").click()
    expect(page.get_by_role("heading", name="Compare", level=1)).to_be_visible()
    seen.idle()
    expect(page.get_by_test_id("stMain").get_by_text(rows[2], exact=True).first).to_be_visible()
    seen.clean()
