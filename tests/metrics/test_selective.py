"""Risk-coverage: ties are averaged over every order they could come in."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings

from smart_core.metrics.selective import aurc, e_aurc, risk_coverage
from tests.metrics.samples import Pair, small_sets


def area_in_order(errors: list[float]) -> float:
    return sum(sum(errors[: k + 1]) / (k + 1) for k in range(len(errors))) / len(errors)


@settings(max_examples=40)
@given(small_sets(largest=6))
def test_area_is_the_mean_over_all_orders_of_ties(pair: Pair) -> None:
    p, a = pair
    areas = [
        area_in_order([1.0 - a[i] for i in order])
        for order in permutations(range(p.size))
        if all(p[i] >= p[j] for i, j in pairwise(order))
    ]
    assert aurc(p, a) == pytest.approx(float(np.mean(areas)), abs=1e-12)


def test_curve_of_distinct_confidences() -> None:
    coverage, risk = risk_coverage([0.9, 0.2, 0.6, 0.4], [1, 0, 0, 1])
    np.testing.assert_allclose(coverage, [0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(risk, [0, 1 / 2, 1 / 3, 1 / 2])


def test_perfect_ranking_has_no_excess_and_the_worst_has_the_most() -> None:
    correct = np.array([1, 1, 1, 0, 0])
    rising = np.array([0.9, 0.8, 0.7, 0.2, 0.1])
    assert e_aurc(rising, correct) == pytest.approx(0.0, abs=1e-15)
    # errors first: risks 1, 1, 2/3, 1/2, 2/5; errors last: 0, 0, 0, 1/4, 2/5
    assert e_aurc(rising[::-1], correct) == pytest.approx((1 + 1 + 2 / 3 + 1 / 2 - 1 / 4) / 5)
