"""The sensitivity page without a browser."""

from __future__ import annotations

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import sample_logits
import smart_core as sc
from pages.shared import studies
from pages.shared.chosen_on_test import CELL
from pages.shared.session import LeaderboardRow, row_key
from tests.app.driver import charts, click, open_page, plain_ece, run_code, session_of, settle, text_of
from tests.tolerance import assert_within, binned_bound


def small(app: AppTest, sigmas: str = "0.05, 0.5", seeds: int = 1) -> AppTest:
    """A grid of few fits."""
    app.text_input(key="sigmas").set_value(sigmas)
    app.text_input(key="deltas").set_value("0.001")
    app.number_input(key="sensitivity-seeds").set_value(seeds).run()
    return app


def test_the_cost_is_shown_before_the_grid_is_run() -> None:
    app = open_page("sensitivity")
    assert "100 fits, about" in text_of(app)
    assert "Not run yet." in text_of(app)


def test_the_paper_is_shown_beside_it() -> None:
    app = open_page("sensitivity")
    (paper,) = charts(app)
    cells = np.asarray(paper["data"][0]["z"], dtype=float)
    # printed in the paper: 0.61% at sigma 0.05 (second row) and delta 0.001 (first column)
    assert cells.shape == (5, 4)
    assert cells[1, 0] == pytest.approx(0.0061)
    assert "0.61% (ResNet-50)" in text_of(app)


def test_a_grid_contains_every_metric() -> None:
    app = click(small(settle(open_page("sensitivity"))), "run-sensitivity")
    data = sc.load(sample_logits.path("digits"))
    expected = []
    for sigma in (0.05, 0.5):
        smart = sc.SMART(sigma=sigma, delta=0.001, seed=0).fit(data.validation.logits, data.validation.labels)
        probability = smart.predict_proba(data.test.logits)
        expected.append(probability)
    correct = data.test.logits.argmax(axis=1) == data.test.labels
    ece = [plain_ece(each.max(axis=1), correct) for each in expected]
    drawn = np.asarray(charts(app)[0]["data"][0]["z"], dtype=float)
    assert drawn.shape == (2, 1)
    off = [binned_bound(each.max(axis=1), correct, 15) for each in expected]
    assert_within(drawn[:, 0], ece, off)
    assert f"the paper's settings give {100 * drawn[0, 0]:.2f}%" in text_of(app)
    assert "over 2 cells" in text_of(app)
    assert "selection on test" in text_of(app)

    app.selectbox(key="metric").set_value("nll").run()
    nll = [-np.log(each[np.arange(len(each)), data.test.labels].astype(float)).mean() for each in expected]
    np.testing.assert_allclose(np.asarray(charts(app)[0]["data"][0]["z"], dtype=float)[:, 0], nll, rtol=1e-4)
    assert "Settings changed" not in text_of(app)

    app.slider(key="bins").set_value(10).run()
    assert "Settings changed: run again. These results were computed with bins = 15." in text_of(app)
    app.slider(key="bins").set_value(15).run()
    assert "Settings changed" not in text_of(app)

    names, printed = run_code(app)
    assert_within(names["result"].mean("ece")[:, 0], ece, off)
    assert "nll_std" in printed


def test_studies_with_other_settings_are_kept() -> None:
    app = click(small(settle(open_page("sensitivity")), "0.05"), "run-sensitivity")
    click(small(app, "0.5"), "run-sensitivity")
    assert len(session_of(app).studies) == 2
    small(app, "0.05")
    assert "Settings changed" not in text_of(app)
    assert np.asarray(charts(app)[0]["data"][0]["z"]).shape == (1, 1)
    small(app, "0.05, 0.5")
    # neither fits: the newest is shown, and said to be another
    assert "Settings changed: run again. These results were computed with sigma = 0.5." in text_of(app)


@pytest.mark.parametrize("text", ["many", "-1", "0.1, nan", "1e9", ","])
def test_invalid_numbers_are_reported(text: str) -> None:
    app = open_page("sensitivity")
    app.text_input(key="sigmas").set_value(text).run()
    assert "Sigma: enter 1 to 20 positive numbers below 100" in text_of(app)
    assert not app.exception


def test_a_tuple_and_a_list_are_the_same_setting() -> None:
    # a workspace gives back lists
    assert studies._json({"sigma": (0.1, 0.2)}) == studies._json({"sigma": [0.1, 0.2]})
    assert studies._json({"sigma": (0.1,)}) != studies._json({"sigma": (0.2,)})


def test_settings_chosen_on_test_are_named_on_every_page_and_undone_at_once(
    fitted_rows: dict[str, LeaderboardRow], digits: sc.LogitSet
) -> None:
    app = open_page("compare")
    here, key = session_of(app), row_key(digits, "smart")
    chosen = LeaderboardRow(fitted_rows["smart"].result, {"sigma": 0.5}, 1, 15)
    here.rows.update({row_key(digits, id): each for id, each in fitted_rows.items()})
    here.rows[key], here.settings["smart"] = chosen, {"sigma": 0.5}
    here.choices[CELL] = (0.5, sc.SMART().delta)
    here.before_cell[digits.content_hash] = fitted_rows["smart"]
    app.number_input(key="seeds").set_value(1).run()
    for page in ("compare", "margin_groups", "temperature", "export", "sensitivity"):
        app.switch_page(f"pages/{page}.py").run()
        assert not app.exception
        assert "SMART's settings were chosen on test data" in text_of(app), page
    app.button(key="back-to-defaults").click().run()
    assert here.rows[key] is fitted_rows["smart"]
    assert not here.settings["smart"]
    assert "chosen on test data" not in text_of(app)
