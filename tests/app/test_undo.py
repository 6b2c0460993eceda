"""Undo without a browser: what a refit, another way to read a file, or a full session replaced comes back."""

from __future__ import annotations

from pathlib import Path

import smart_core as sc
from pages.shared.session import LeaderboardRow, row_key
from smart_core.experiments.method_result import MethodResult
from tests.app.driver import add_rows, click, load_own_file, open_page, session_of


def test_a_refit_is_undone() -> None:
    app = open_page("compare")
    data = sc.load("sample:digits")
    before = LeaderboardRow(MethodResult("ts", available=False, reason="placeholder"), {}, 1, 15)
    add_rows(app, data, {"ts": before})
    rows, key = session_of(app).rows, row_key(data, "ts")
    for box in app.main.checkbox:
        if str(box.key).startswith("compare-") and not box.disabled:
            box.set_value(box.key == "compare-ts")
    assert not [button for button in app.button if button.key == "undo"]  # nothing was replaced
    click(app, "fit-selected")
    first = rows[key]
    assert first.result.available
    app.slider(key="bins").set_value(20).run()
    click(app, "refit")
    assert rows[key].bins == 20
    app.button(key="undo").click().run()
    assert rows[key] is first
    assert not [button for button in app.button if button.key == "undo"]


def test_a_data_set_is_renamed(tmp_path: Path) -> None:
    app = load_own_file(open_page("guide"), tmp_path)
    field = next(box for box in app.text_input if box.label == "Name of the data set")
    field.set_value("  My model ").run()
    assert session_of(app).datasets["mine"].title == "My model"
    assert "My model" in app.selectbox(key="data").options
    assert not [badge for badge in app.markdown if badge.value.endswith("badge[sample]")]
