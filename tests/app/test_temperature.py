"""The temperature page without a browser."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

import smart_core as sc
from pages.shared.session import LeaderboardRow
from tests.app.driver import (
    add_rows,
    buttons,
    charts,
    click,
    load_own_file,
    open_page,
    run_code,
    session_of,
    text_of,
)


def test_without_fits_the_page_offers_one() -> None:
    app = open_page("temperature")
    assert "SMART on the margin is not fitted yet on Digits." in text_of(app)
    assert app.button(key="fit-curve").label == "Fit TS and SMART"
    assert buttons(app) == {"fit-curve", "next-page"}
    assert charts(app) == []


def test_the_curve_is_that_of_the_fits(digits: sc.LogitSet) -> None:
    app, data = click(open_page("temperature"), "fit-curve"), digits
    top = np.sort(data.test.logits.astype(np.float64), axis=1)
    margin = top[:, -1] - top[:, -2]
    top = np.sort(data.validation.logits.astype(np.float64), axis=1)
    val_margin = top[:, -1] - top[:, -2]
    names, _ = run_code(app)  # which fits SMART for five seeds
    assert names["curve"].r == np.mean(names["curve"].pearson)
    r = [np.corrcoef(margin, each.temperatures(data.test.logits))[0, 1] for each in names["smart"]]
    assert [each.settings_dict() for each in names["smart"]] == [sc.SMART(seed=k).settings_dict() for k in range(5)]
    shown = re.search(r"temperature is (\S+) \((\S+) to (\S+) over 5 seeds\)", text_of(app))
    assert shown is not None
    assert [float(number.replace("−", "-")) for number in shown.groups()] == pytest.approx(
        [np.mean(r), min(r), max(r)], abs=0.0051
    )

    def nll(t: float) -> float:
        scaled = log_softmax(data.validation.logits.astype(np.float64) / t, axis=1)
        return float(-scaled[np.arange(len(scaled)), data.validation.labels].mean())

    best = minimize_scalar(nll, bounds=(0.1, 10), method="bounded").x
    divisor = re.search(r"temperature scaling uses ([\d.]+) for every sample", text_of(app))
    assert divisor is not None
    assert float(divisor[1]) == pytest.approx(best, abs=0.0051)
    assert "r = 0.94" in text_of(app)
    # the caption explains each shade that the legend names
    legend = {trace.get("name") for trace in charts(app)[0]["data"]}
    assert {"no validation sample", "outer 1% of validation"} <= legend
    assert "outside the validation range, where the map extrapolates. Light shading: below the 1st" in text_of(app)
    beyond = int(((margin < val_margin.min()) | (margin > val_margin.max())).sum())
    assert f"Digits: {beyond} test sample{' lies' if beyond == 1 else 's lie'} outside" in text_of(app)

    # another indicator is a fit of its own and leaves the leaderboard's SMART alone
    before = dict(session_of(app).rows)
    app.selectbox(key="indicator").set_value("entropy").run()
    assert app.button(key="fit-curve").label == "Fit SMART on the entropy"
    click(app, "fit-curve")
    assert "between entropy and temperature" in text_of(app)
    assert dict(session_of(app).rows) == before
    app.selectbox(key="indicator").set_value("margin").run()
    assert "between margin and temperature" in text_of(app)

    # SMART's settings changed on Compare: said, and the fit on the margin is still to be had
    session_of(app).settings["smart"] = {"sigma": 0.1}
    app.run()
    assert "SMART's settings changed after this fit." in text_of(app)
    assert "refit-curve" in buttons(app)


def test_a_file_with_logits_only(tmp_path: Path, fitted_rows: dict[str, LeaderboardRow]) -> None:
    app = load_own_file(open_page("temperature"), tmp_path)
    # Markdown in a name is escaped
    assert "not fitted yet on mine\\_\\<b\\>\\*" in text_of(app)
    add_rows(app, session_of(app).datasets["mine"].data, fitted_rows)
    assert next(trace["name"] for trace in charts(app)[0]["data"] if "r = " in trace.get("name", "")).startswith(
        "SMART, r = "
    )
