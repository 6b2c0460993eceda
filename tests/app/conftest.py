"""AppTest as on a server whose menu has been drawn before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from streamlit.runtime.pages_manager import PagesManager

import sample_logits
import smart_core as sc
from pages.shared.session import LeaderboardRow
from smart_core.experiments import MethodResult


@pytest.fixture(autouse=True, scope="package")
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


@pytest.fixture(scope="package")
def digits() -> sc.LogitSet:
    return sc.load(sample_logits.path("digits"))


@pytest.fixture(scope="package")
def fitted_rows(digits: sc.LogitSet) -> dict[str, LeaderboardRow]:
    """Vanilla, TS and SMART on digits as leaderboard rows, fitted once for all tests."""
    rows: dict[str, LeaderboardRow] = {}

    def store(result: MethodResult) -> None:
        rows[result.id] = LeaderboardRow(result, {}, 1, 15)

    sc.compare(digits, ("vanilla", "ts", "smart"), 1, on_result=store)
    return rows
