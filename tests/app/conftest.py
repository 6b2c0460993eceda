"""AppTest as on a server whose menu has been drawn before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import sample_logits
import smart_core as sc
from pages.shared import quick_fit
from pages.shared.session import LeaderboardRow
from smart_core.experiments import MethodResult
from tests.app import driver


@pytest.fixture(autouse=True, scope="package")
def menu_is_known() -> Iterator[None]:
    with driver.menu_is_known():
        yield


@pytest.fixture(autouse=True, scope="package")
def samples_are_fitted() -> Iterator[None]:
    """A page waits for the fit of a sample: nothing draws a page of AppTest again when the fit is there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quick_fit, "PATIENCE", 120.0)
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
