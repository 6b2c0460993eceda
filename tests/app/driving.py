"""Pages driven without a browser."""

from __future__ import annotations

import time

import numpy as np
from streamlit.testing.v1 import AppTest

from tests.conftest import ROOT


def open_page(page: str, data: str = "digits") -> AppTest:
    """A page of a fresh session, with a sample in view."""
    app = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=120)
    app.query_params["data"] = data
    return app.switch_page(f"pages/{page}.py").run()


def wait(app: AppTest) -> AppTest:
    """Until every job has ended; then the page as it is with what they found."""
    deadline = time.monotonic() + 240
    while app.session_state["desk"].tray.active() is not None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    app.run()
    assert not app.exception
    return app


def plug_in_ece(confidence: np.ndarray, hit: np.ndarray, bins: int = 15) -> float:
    """Summed over bins (l, u], one by one."""
    error = 0.0
    for number in range(bins):
        inside = (confidence > number / bins) & (confidence <= (number + 1) / bins)
        error += abs(float(confidence[inside].sum()) - float(hit[inside].sum()))
    return error / len(hit)
