"""A file in which every name is an attack, on every page in a browser: nothing runs and nothing is fetched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

import sample_logits
from pages.shared.navigation import ORDER
from tests.browser.conftest import PATIENCE, Visit
from tests.robustness.names import HOSTILE_NAMES

ATTACKS = (
    "<script>window.stolen = 1</script>",
    "<img src=x onerror='window.stolen = 2'>",
    "![x](http://127.0.0.1:9/stolen.png)",
    "[click](javascript:window.stolen=3)",
    "<svg onload='window.stolen = 4'>",
    "<iframe src='javascript:parent.stolen=5'>",
    ":material/home: $\\href{javascript:stolen}{x}$",
    "%{customdata} <a href='javascript:window.stolen=6'>x</a>",
)
FOUND = """() => [...document.querySelectorAll('img, a, iframe, script, image')].map(
    one => one.getAttribute('src') || one.getAttribute('href') || one.getAttribute('xlink:href') || '').filter(
    place => /stolen|^javascript:|^x$/.test(place))"""


@pytest.mark.long
@pytest.mark.counts("access: hostile files taken through every page in a browser")
def test_no_page_interprets_a_name_as_markup(visit: Callable[..., Visit], server: str, tmp_path: Path) -> None:
    with np.load(sample_logits.path("digits")) as bundle:
        arrays = dict(bundle)
    names = [*ATTACKS, *(name for name in HOSTILE_NAMES if name.strip() and "\ud800" not in name)]
    rows = len(arrays["test_labels"])
    path = tmp_path / "<img src=x onerror='window.stolen=7'>.npz"
    np.savez(
        path,
        **{
            **arrays,
            "class_names": np.array(names[:10]),
            "test_group": np.array([names[row % 12] for row in range(rows)]),
        },
    )
    seen = visit(f"{server}/start?data=digits")
    seen.page.locator(".st-key-start-files input[type=file]").set_input_files(path)
    expect(seen.page.get_by_role("heading", level=4).first.get_by_text("onerror")).to_be_visible(timeout=PATIENCE)
    seen.idle()
    for _ in range(len(ORDER)):
        seen.page.get_by_role("button", name="Next: ").click()
        seen.idle()
        assert seen.page.evaluate("window.stolen") is None
        assert seen.page.evaluate(FOUND) == []
        assert seen.page.get_by_text("Unexpected error").count() == 0
    seen.clean()
