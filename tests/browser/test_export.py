"""Export in a real browser: a calibrator that reproduces the screen, and a session restored on a fresh server."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import numpy as np
from playwright.sync_api import expect

import sample_logits
import smart_core as sc
from tests.browser import conftest
from tests.browser.conftest import Visit, serve
from tests.export.fits import probabilities_off
from tests.tolerance import assert_within

Open = Callable[..., Visit]


RERUN_AND_CLICK = """async ([toggle, button, wait]) => {
    document.querySelector(`.st-key-${toggle} input`).click();
    await new Promise(done => setTimeout(done, wait));
    document.querySelector(`.st-key-${button} button`).click();
}"""


def download(seen: Visit, label: str, folder: Path) -> Path:
    with seen.page.expect_download() as waiting:
        seen.page.get_by_role("button", name=label, exact=True).click()
    target = folder / waiting.value.suggested_filename
    waiting.value.save_as(target)
    return target


def plug_in_ece(probabilities: np.ndarray, labels: np.ndarray, bins: int = 15) -> float:
    confidence, hit = probabilities.max(axis=1).astype(np.float64), probabilities.argmax(axis=1) == labels
    place = np.clip(np.ceil(confidence * bins).astype(int), 1, bins)
    return sum(abs((confidence - hit)[place == b].sum()) for b in range(1, bins + 1)) / len(hit)


def test_downloads_and_a_restored_workspace(server: str, visit: Open, tmp_path: Path) -> None:
    seen = visit(f"{server}/export?data=digits")
    seen.page.get_by_role("button", name="Fit SMART").click()
    headline = seen.page.get_by_role("heading", name="SMART has an ECE of")
    expect(headline).to_be_visible(timeout=3 * conftest.PATIENCE)
    seen.idle()
    words = headline.inner_text()
    (shown, _) = (float(number) for number in re.findall(r"([\d.]+)%", words))
    with np.load(sample_logits.path("digits")) as bundle:
        logits, labels = bundle["test_logits"], bundle["test_labels"]

    calibrator = download(seen, "Download calibrator", tmp_path)
    assert calibrator.name == "digits-smart.safetensors"
    loaded = sc.load_calibrator(calibrator)
    probabilities = loaded.predict_proba(logits)
    assert f"{100 * plug_in_ece(probabilities, labels):.2f}" == f"{shown:.2f}"

    # at the moment of a click the page begins to run again, or is in the middle of it
    for wait in (0, 20, 300):
        with seen.page.expect_download() as waiting:
            seen.page.evaluate(RERUN_AND_CLICK, ["export-full", "export-calibrator", wait])
        assert Path(waiting.value.path()).read_bytes() == calibrator.read_bytes()
    seen.page.locator(".st-key-export-full label").click()  # on again
    seen.idle()

    source = download(seen, "Download NumPy file", tmp_path)
    by_numpy = runpy.run_path(str(source))["predict_proba"](logits)
    assert_within(by_numpy, probabilities, probabilities_off(loaded, logits))

    with np.load(download(seen, "Download npz", tmp_path)) as file:
        np.testing.assert_array_equal(file["probs"], probabilities)
    seen.picture("export-1280-light")
    workspace = download(seen, "Download workspace", tmp_path)
    seen.page.get_by_role("button", name="Prepare all figures").click()
    # the archive that was prepared is still there after a rerun
    frame = seen.page.frame_locator("iframe")
    expect(frame.get_by_role("link", name="Download all figures")).to_be_visible()
    seen.page.locator(".st-key-export-full label").click()
    expect(seen.page.locator(".st-key-export-full input")).not_to_be_checked()
    seen.page.wait_for_function(conftest.AT_REST)
    with seen.page.expect_download() as waiting:
        frame.get_by_role("link", name="Download all figures").click()
    assert waiting.value.suggested_filename == "digits-figures.zip"
    with ZipFile(waiting.value.path()) as archive:
        assert {"leaderboard-ece.svg", "reliability.png", "margin-groups.csv"} <= set(archive.namelist())
        assert archive.testzip() is None
    seen.clean()

    with serve() as address:
        fresh = visit(f"{address}/export", width=400, dark=True)
        fresh.page.locator(".st-key-export-restore input[type=file]").set_input_files(workspace)
        expect(fresh.page.get_by_role("heading", name="SMART has an ECE of")).to_have_text(words)
        fresh.idle()
        assert fresh.page.evaluate("document.documentElement.scrollWidth") <= 400
        fresh.picture("export-400-dark")
        fresh.clean()
