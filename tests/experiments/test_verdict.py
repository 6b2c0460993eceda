"""The verdict on a comparison, from constructed rows."""

from __future__ import annotations

import pytest

from smart_core.evaluation import HEADLINE
from smart_core.experiments import Comparison, MethodResult
from smart_core.experiments.verdict import repair_verdict

SIZES = {"vanilla": (0, True), "ts": (1, True), "ets": (3, True), "smart": (49, True), "vector": (20, False)}


class Data:
    """As many test samples as the sentence about vanilla counts."""

    test = range(100)


def said(best: str, *tied: str) -> str:
    """The verdict where these are tied with the best, and every other one is worse."""
    rows = {
        id: MethodResult(id, True, None, *size, 0.1, {name: [0.01 if id == best else 0.02] for name in HEADLINE})
        for id, size in SIZES.items()
    }
    standing = {id: id in (best, *tied) for id in rows}
    return repair_verdict(Comparison(Data(), rows, {}, "ece", standing, best))  # type: ignore[arg-type]


def test_the_simplest_of_the_tied_is_named() -> None:
    words = said("smart", "ets", "ts")
    assert "TS and ETS cannot be distinguished from it. The simplest of these that keeps" in words
    assert "keeps every prediction: TS (1 parameter). The uncalibrated model has" in words
    assert "The simplest of these that keeps every prediction: ETS (3 parameters)." in said("smart", "ets", "vector")


def test_a_method_that_changes_predictions_is_not_called_simplest() -> None:
    assert "The simplest of these that keeps every prediction: SMART (49 parameters)." in said("vector", "smart")
    assert "The simplest" not in said("smart", "vector")


@pytest.mark.parametrize(("best", "tied"), [("ts", ("smart",)), ("smart", ()), ("vanilla", ("ts", "smart"))])
def test_the_simplest_is_not_named_if_it_is_the_best(best: str, tied: tuple[str, ...]) -> None:
    assert "The simplest" not in said(best, *tied)


def test_the_uncalibrated_model_counts_where_it_is_tied() -> None:
    words = said("smart", "ts", "vanilla")
    assert "The simplest of all that keeps every prediction: Vanilla (0 parameters)." in words
    assert "too few to call the repair real" in words
