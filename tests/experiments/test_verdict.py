"""The verdict on a comparison, from constructed rows."""

from __future__ import annotations

import pytest

import smart_core as sc
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


def test_the_tied_are_named() -> None:
    words = said("smart", "ets", "ts")
    assert "TS and ETS cannot be distinguished from it. The uncalibrated model has 2.00%: the repair is real." in words


@pytest.mark.parametrize(("best", "tied"), [("ts", ("smart",)), ("smart", ("ts",)), ("vector", ("smart",))])
def test_the_method_to_deploy_is_left_to_the_recommendation(best: str, tied: tuple[str, ...]) -> None:
    """Two rules that name a method would contradict each other."""
    assert "simplest" not in said(best, *tied)


def test_the_uncalibrated_model_counts_where_it_is_tied() -> None:
    assert "the difference is not significant on" in said("smart", "ts", "vanilla")


def test_a_lowest_error_at_the_cost_of_a_proper_score_is_marked() -> None:
    """On this sample the histogram has the lowest ECE, and an NLL far above the model's."""
    ranked = sc.compare(sc.load("sample:digits"), "vanilla,ts,histogram", seeds=1)
    assert ranked.best == "histogram"
    assert "Histogram has the lowest ECE" in repair_verdict(ranked)
    assert "but worse NLL than the model" in repair_verdict(ranked)
