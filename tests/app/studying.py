"""What the tests of the study pages share: opening a page, waiting for its jobs, reading its charts and its code."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from streamlit.testing.v1 import AppTest

import sample_logits
import smart_core as sc
from pages.shared import library
from pages.shared.desk import Desk, Held
from tests.conftest import ROOT


def open_page(name: str, data: str = "digits") -> AppTest:
    """The page `pages/<name>.py` on a bundled sample."""
    app = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=120)
    app.query_params["data"] = data
    app.switch_page(f"pages/{name}.py").run()
    assert not app.exception
    return app


def desk(app: AppTest) -> Desk:
    found: Desk = app.session_state["desk"]
    return found


def settle(app: AppTest, seconds: float = 240) -> AppTest:
    """Wait for every job of the session, then run the page as the tray would."""
    deadline = time.monotonic() + seconds
    while desk(app).tray.active() is not None:
        assert time.monotonic() < deadline, "a job did not end in time"
        time.sleep(0.02)
    app.run()
    assert not app.exception
    failed = [job.reason for job in desk(app).tray.jobs if job.state == "failed"]
    assert not failed
    return app


def click(app: AppTest, key: str) -> AppTest:
    """Press a button and wait for the jobs that it starts."""
    app.button(key=key).click().run()
    return settle(app)


def words(app: AppTest) -> str:
    """All the text of the page."""
    kinds = (app.markdown, app.caption, app.warning, app.info, app.error)
    return "\n".join(element.value for kind in kinds for element in kind)


def buttons(app: AppTest) -> set[str]:
    return {button.key for button in app.main.button}


def charts(app: AppTest) -> list[dict[str, Any]]:
    """The figures of the page, arrays unpacked."""
    return [_unpacked(json.loads(chart.proto.spec)) for chart in app.get("plotly_chart")]


def _unpacked(node: Any) -> Any:
    if isinstance(node, dict) and "bdata" in node:
        array = np.frombuffer(base64.b64decode(node["bdata"]), dtype=node["dtype"])
        return array.reshape([int(side) for side in str(node["shape"]).split(",")]) if "shape" in node else array
    if isinstance(node, dict):
        return {key: _unpacked(value) for key, value in node.items()}
    return [_unpacked(value) for value in node] if isinstance(node, list) else node


def binned_error(confidence: Any, correct: Any, bins: int = 15) -> float:
    """ECE by its definition: |sum of (confidence - correct)| over bins of equal width, closed on the right."""
    confidence, correct = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    place = np.ceil(confidence * bins).astype(int)
    return sum(abs((confidence - correct)[place == b].sum()) for b in range(bins + 1)) / len(confidence)


def bring(app: AppTest, folder: Path, **arrays: Any) -> AppTest:
    """Put the digits' logits and labels, and nothing else but `arrays`, on the desk as a file of the session's own."""
    with np.load(sample_logits.path("digits")) as bundle:
        bare = {name: bundle[name] for name in ("val_logits", "val_labels", "test_logits", "test_labels")}
    path = folder / "mine.npz"
    np.savez(path, **bare, **arrays)
    desk(app).sets["mine"] = Held(sc.load(path), "mine_<b>*", f"sc.load({str(path)!r})")
    app.session_state[library.NEXT] = "mine"
    app.run()
    assert not app.exception
    return app


def run_snippet(app: AppTest, replace: dict[str, str] | None = None) -> tuple[dict[str, Any], str]:
    """Execute the page's Python; gives its names and what it printed. `replace` makes it cheaper."""
    (code,) = [block.value for block in app.code if block.value.startswith("import smart_core as sc")]
    for old, new in (replace or {}).items():
        assert old in code
        code = code.replace(old, new)
    names: dict[str, Any] = {}
    printed = io.StringIO()
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(printed):
        exec(code, names)
    return names, printed.getvalue()
