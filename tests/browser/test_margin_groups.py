"""Margin groups in a real browser: fit two methods, see before and after, click a cell, see its samples."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import expect

import sample_logits
from tests.browser.conftest import Visit

Open = Callable[..., Visit]

FITS = 240_000
"""Milliseconds to wait for fits on a busy machine."""

GROUPS = 4


def widest_margins() -> int:
    """Samples of the digits' test part in the last of the groups of equal size."""
    with np.load(sample_logits.path("digits")) as bundle:
        return len(bundle["test_labels"]) // GROUPS


@pytest.mark.parametrize(
    ("width", "dark"),
    [(1280, False), pytest.param(400, True, marks=pytest.mark.long)],
    ids=["wide-light", "narrow-dark"],
)
def test_fit_two_and_click_a_cell(server: str, visit: Open, width: int, dark: bool) -> None:
    seen = visit(f"{server}/margin_groups?data=digits&groups={GROUPS}", width=width, dark=dark)
    page = seen.page
    page.get_by_role("button", name="Fit TS and SMART").click()
    expect(page.get_by_role("heading", name=re.compile("^SMART"))).to_be_visible(timeout=FITS)
    expect(page.get_by_text("Fitting. Finished methods")).to_have_count(0, timeout=FITS)
    seen.idle()
    expect(page.locator(".st-key-before input")).to_have_value("Vanilla")
    expect(page.locator(".st-key-after input")).to_have_value("SMART")

    # one panel a group, each with a line before and a line after
    grid = page.locator(".st-key-margin-groups .js-plotly-plot")
    expect(grid.locator(".annotation").filter(has_text="margin")).to_have_count(GROUPS)
    lines = grid.evaluate("plot => plot.data.filter(each => each.mode === 'lines+markers').map(each => each.name)")
    assert sorted(lines) == ["SMART"] * GROUPS + ["Vanilla"] * GROUPS
    assert page.evaluate("document.documentElement.scrollWidth") <= width

    # the bin of the highest confidences in the group of the widest margins
    gap = page.locator(".st-key-gap .js-plotly-plot")
    x, y, count = gap.evaluate(
        "plot => { const cells = plot._fullData.at(-1); "
        "return [cells.x.at(-1), cells.y.at(-1), Array.from(cells.customdata).at(-1)[2]]; }"
    )
    page.mouse.click(*seen.point(gap, x, y))
    below = page.locator(".st-key-gap")
    found = below.get_by_text(re.compile(r"^Margin .* confidence .*: \d+ samples?$"))
    expect(found).to_be_visible()
    samples = int(found.inner_text().split()[-2])
    assert samples == count
    assert 1 <= samples <= widest_margins()
    table = below.get_by_test_id("stDataFrame").locator("visible=true").first
    table.scroll_into_view_if_needed()
    # a row a sample, and the heading
    expect(table.locator("[role=grid]")).to_have_attribute("aria-rowcount", str(samples + 1))
    seen.picture(f"margin-groups-{width}-{'dark' if dark else 'light'}")
    seen.clean()
