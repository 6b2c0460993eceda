"""What the tests of pages share: open a page, wait for its jobs, read its text, charts and code."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.runtime.pages_manager import PagesManager
from streamlit.testing.v1 import AppTest

import sample_logits
import smart_core as sc
from pages.shared.session import NEXT_DATASET, LeaderboardRow, LoadedDataset, Session, row_key
from tests.conftest import ROOT


@contextlib.contextmanager
def menu_is_known() -> Iterator[None]:
    """AppTest forgets at every run that dashboard.py draws the menu, and not the folder `pages`.

    Then a page's file runs first and reruns through dashboard.py (`navigation.enter`), and a click is lost. On a server
    this can happen only at the first request, before anything was clicked; the browser tests cover it.
    """
    init = PagesManager.__init__

    def with_menu(self: PagesManager, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        PagesManager.uses_pages_directory = False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PagesManager, "__init__", with_menu)
        yield


def open_page(name: str, data: str = "digits", **query: str) -> AppTest:
    """Open `pages/<name>.py` in a new session, with a bundled sample selected."""
    app = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=120)
    for parameter, value in {"data": data, **query}.items():
        app.query_params[parameter] = value
    app.switch_page(f"pages/{name}.py").run()
    assert not app.exception
    return app


def session_of(app: AppTest) -> Session:
    session: Session = app.session_state["session"]
    return session


def add_rows(app: AppTest, data: sc.LogitSet, rows: dict[str, LeaderboardRow]) -> AppTest:
    """Give the session rows that were fitted before, and rerun the page."""
    session_of(app).rows.update({row_key(data, id): row for id, row in rows.items()})
    app.run()
    assert not app.exception
    return app


def wait(app: AppTest, seconds: float = 240) -> AppTest:
    """Wait for every job of the session, then rerun the page as the sidebar would."""
    deadline = time.monotonic() + seconds
    while session_of(app).jobs.active() is not None:
        assert time.monotonic() < deadline, "a job did not end in time"
        time.sleep(0.02)
    app.run()
    assert not app.exception
    return app


def settle(app: AppTest) -> AppTest:
    """Wait for every job, none of which may fail."""
    wait(app)
    assert [job.error for job in session_of(app).jobs if job.state == "failed"] == []
    return app


def click(app: AppTest, key: str) -> AppTest:
    """Click a button and wait for the jobs that it starts."""
    app.button(key=key).click().run()
    return settle(app)


def text_of(app: AppTest) -> str:
    """Return all text of the page."""
    kinds = (app.markdown, app.caption, app.warning, app.info, app.error)
    return "\n".join(unlinked(element.value) for kind in kinds for element in kind)


def unlinked(text: str) -> str:
    """Return a text without its links to the glossary."""
    return re.sub(r"\[([^\]]*)\]\(guide\?[^)]*\)", r"\1", text)


def buttons(app: AppTest) -> set[str]:
    """Return the keys of the page's own buttons, without those of the line above every page."""
    return {button.key for button in app.main.button} - {"open-file", "undo"}


def charts(app: AppTest) -> list[dict[str, Any]]:
    """Return the figures of the page with their arrays decoded."""
    return [_decoded(json.loads(chart.proto.spec)) for chart in app.get("plotly_chart")]


def _decoded(node: Any) -> Any:
    if isinstance(node, dict) and "bdata" in node:
        array = np.frombuffer(base64.b64decode(node["bdata"]), dtype=node["dtype"])
        return array.reshape([int(side) for side in str(node["shape"]).split(",")]) if "shape" in node else array
    if isinstance(node, dict):
        return {key: _decoded(value) for key, value in node.items()}
    return [_decoded(value) for value in node] if isinstance(node, list) else node


def plain_ece(confidence: Any, correct: Any, bins: int = 15) -> float:
    """Compute the ECE by its definition: bins of equal width, closed on the right."""
    confidence, correct = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    place = np.ceil(confidence * bins).astype(int)
    return sum(abs((confidence - correct)[place == b].sum()) for b in range(bins + 1)) / len(confidence)


def ece_of(probabilities: np.ndarray, labels: np.ndarray, bins: int = 15) -> float:
    """Compute the ECE of the predicted classes."""
    return plain_ece(probabilities.max(axis=1), probabilities.argmax(axis=1) == labels, bins)


def load_own_file(app: AppTest, folder: Path, **arrays: Any) -> AppTest:
    """Load and select a file with only the logits and labels of digits, and `arrays`."""
    with np.load(sample_logits.path("digits")) as bundle:
        bare = {name: bundle[name] for name in ("val_logits", "val_labels", "test_logits", "test_labels")}
    path = folder / "mine.npz"
    np.savez(path, **bare, **arrays)
    session_of(app).datasets["mine"] = LoadedDataset(sc.load(path), "mine_<b>*", {"whole": [str(path)]})
    app.session_state[NEXT_DATASET] = "mine"
    app.run()
    assert not app.exception
    return app


def open_file(page: str, path: Path) -> AppTest:
    """Open a page with a file of the user's own selected."""
    app = open_page(page)
    session_of(app).datasets[path.stem] = LoadedDataset(sc.load(path), path.stem, {"whole": [str(path)]})
    app.session_state[NEXT_DATASET] = path.stem
    app.run()
    assert not app.exception
    return app


def run_code(app: AppTest, replace: dict[str, str] | None = None) -> tuple[dict[str, Any], str]:
    """Execute the page's Python; return its variables and its output. `replace` makes it cheaper."""
    (code,) = [block.value for block in app.code if block.value.startswith("import smart_core as sc\n\ndata")]
    for old, new in (replace or {}).items():
        assert old in code
        code = code.replace(old, new)
    names: dict[str, Any] = {}
    printed = io.StringIO()
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(printed):
        exec(code, names)
    return names, printed.getvalue()
