"""Two sessions at once: one fits every method, the other is not affected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

from smart_core.data.simulate import simulate
from tests.browser.conftest import TOO_BUSY, Visit

Open = Callable[..., Visit]

MARKER = "zanzibar"
"""The name of the first session's file, and of a class in it."""


def marked_bundle(path: Path) -> Path:
    drawn = simulate(10_000, 10, seed=5)  # enough to fit to outlast the other session
    np.savez(
        path,
        val_logits=drawn.logits[2000:],
        val_labels=drawn.labels[2000:],
        test_logits=drawn.logits[:2000],
        test_labels=drawn.labels[:2000],
        class_names=np.array([MARKER, *"bcdefghij"]),
    )
    return path


def test_a_busy_session_does_not_affect_another(server: str, visit: Open, tmp_path: Path) -> None:
    busy = visit(f"{server}/start?data=digits")
    busy.page.locator(".st-key-start-files input[type=file]").set_input_files(marked_bundle(tmp_path / f"{MARKER}.npz"))
    expect(busy.page.get_by_test_id("stSidebar").get_by_text("tested on 2,000")).to_be_visible()
    busy.idle()
    assert MARKER in busy.page.content()
    calm = visit(f"{server}/diagnose?data=digits")
    busy.page.get_by_role("link", name="Compare", exact=True).first.click()
    # many seeds: the fits must outlast the other session's walk
    seeds = busy.page.locator(".st-key-seeds input")
    seeds.fill("20")
    seeds.press("Enter")
    busy.idle()
    busy.open_box("Choose methods")
    busy.page.locator(".st-key-fit-all button").first.click()
    cancel = busy.page.locator(".st-key-job-0-cancel")
    expect(cancel).to_be_visible()

    for name in ("Start", "Diagnose", "Compare", "Diagnose", "Start"):
        calm.page.get_by_role("link", name=name, exact=True).first.click()
        expect(calm.page.get_by_role("heading", name=name, exact=True, level=1)).to_be_visible()
        calm.idle()
        assert MARKER not in calm.page.content()
    if not cancel.count():
        pytest.skip(TOO_BUSY)

    busy.page.get_by_role("button", name="Cancel").first.click()
    expect(busy.page.get_by_text("✕ cancelled:").first).to_be_visible()
    busy.clean()
    calm.clean()
