"""The margin bounds against brute force over rows and against a root finder of the softmax itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import softmax

from smart_core.errors import CalibrationError
from smart_core.theory.margin_bounds import (
    HALF_LINE,
    IMPOSSIBLE,
    INTERVAL,
    TIES_ONLY,
    bound_slopes,
    case_of,
    random_study,
    target_study,
    target_temperature,
    temperature_bounds,
)


def top(row: np.ndarray, t: float) -> float:
    return float(softmax(row / t).max())


def root(row: np.ndarray, target: float) -> float:
    """T by bisection of log T on the softmax."""
    return math.exp(brentq(lambda log_t: top(row, math.exp(log_t)) - target, -14, 14, xtol=1e-13))


@pytest.mark.parametrize("target", [0.3, 0.5, 0.50001, 0.8, 0.999999])
@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_solved_temperature_is_the_root_of_the_softmax(target: float, scale: float) -> None:
    z = np.random.default_rng(3).normal(scale=scale, size=(40, 6))
    found = target_temperature(z, target)
    np.testing.assert_allclose(found, [root(row, target) for row in z], rtol=1e-8)
    np.testing.assert_allclose([top(row, t) for row, t in zip(z, found, strict=True)], target, rtol=1e-10)


def test_rows_that_never_reach_the_target_have_no_temperature() -> None:
    tied = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [2.0, 1.0, 0.0]])
    assert np.isnan(target_temperature(tied, 0.6)).tolist() == [True, True, False]
    # two tied logits reach anything between 1/3 and 1/2
    at = target_temperature(tied, 0.4)
    assert top(tied[0], at[0]) == pytest.approx(0.4)
    assert np.isnan(at[1])
    assert np.isnan(target_temperature(tied, 0.2)).all()


@settings(max_examples=150)
@given(
    st.integers(2, 9),
    st.floats(1e-3, 20.0),
    st.floats(0.02, 0.995),
    st.lists(st.floats(0.0, 30.0), min_size=8, max_size=8),
)
def test_every_row_of_a_margin_lies_within_the_bounds(
    classes: int, margin: float, target: float, more: list[float]
) -> None:
    row = np.array([0.0, -margin, *(-margin - d for d in more[: classes - 2])])
    found = temperature_bounds(margin, target, classes)
    t = float(target_temperature(row[None], target)[0])
    if case_of(target, classes) in (IMPOSSIBLE, TIES_ONLY):
        assert np.isnan(t)
        assert np.isnan(found.lower[0])
        assert np.isnan(found.upper[0])
    else:
        assert found.lower[0] * (1 - 1e-9) <= t <= found.upper[0] * (1 + 1e-9)


@pytest.mark.parametrize(("target", "classes"), [(0.8, 10), (0.3, 10), (0.5, 10), (0.9, 3)])
def test_both_ends_are_reached(target: float, classes: int) -> None:
    """The lower end by equal rivals, the upper by rivals that are all but one out of reach; so neither can be
    tightened."""
    margin, far = 2.0, 1e6
    found = temperature_bounds(margin, target, classes)
    equal = np.array([0.0] + [-margin] * (classes - 1))
    assert root(equal, target) == pytest.approx(found.lower[0], rel=1e-9)
    if case_of(target, classes) == INTERVAL:
        lone = np.array([0.0, -margin] + [-far] * (classes - 2))
        assert root(lone, target) == pytest.approx(found.upper[0], rel=1e-9)
    else:
        # above any T that one may name lies a row's own
        assert found.upper[0] == np.inf
        others = classes - 2
        for t in (10.0, 1000.0):
            left = (1 / target - 1 - math.exp(-margin / t)) / others
            assert 0 < left <= math.exp(-margin / t)
            row = np.array([0.0, -margin] + [t * math.log(left)] * others)
            assert top(row, t) == pytest.approx(target, rel=1e-9)


@pytest.mark.parametrize("target", [0.51, 0.8, 0.99])
def test_two_classes_decide_the_temperature(target: float) -> None:
    found = temperature_bounds([0.5, 3.0], target, 2)
    np.testing.assert_array_equal(found.lower, found.upper)
    np.testing.assert_allclose(found.lower, [root(np.array([m, 0.0]), target) for m in (0.5, 3.0)], rtol=1e-9)


def test_cases() -> None:
    assert [case_of(p, 10) for p in (0.8, 0.5, 0.2, 0.1, 0.05)] == [
        INTERVAL,
        HALF_LINE,
        HALF_LINE,
        TIES_ONLY,
        IMPOSSIBLE,
    ]
    assert case_of(1 / 3, 3) == TIES_ONLY
    assert case_of(0.5, 2) == TIES_ONLY
    ties = temperature_bounds([0.0, 1.0], 0.1, 10)
    assert (ties.lower[0], ties.upper[0]) == (0.0, np.inf)
    assert np.isnan(ties.lower[1])
    assert np.isnan(temperature_bounds([0.0], 0.8, 10).lower[0])
    for bad in (0.0, 1.0, -1.0):
        with pytest.raises(CalibrationError, match="between 0 and 1"):
            case_of(bad, 10)
    with pytest.raises(CalibrationError, match="never negative"):
        temperature_bounds([-1.0], 0.8, 10)


def test_a_margin_of_zero_is_necessary_for_1_over_k_but_not_sufficient() -> None:
    """The third case says that some row with m = 0 reaches the target, not that every row does."""
    assert top(np.zeros(3), 1.0) == pytest.approx(1 / 3)
    assert min(top(np.array([1.0, 1.0, 0.0]), t) for t in np.geomspace(0.01, 100, 50)) > 1 / 3


def test_the_width_grows_with_the_margin_and_the_ratio_of_the_ends_stays() -> None:
    found = temperature_bounds(np.linspace(0.5, 10, 20), 0.8, 10)
    assert (np.diff(found.width) > 0).all()
    ratio = found.upper / found.lower
    np.testing.assert_allclose(ratio, math.log(0.25 / 9) / math.log(0.25), rtol=1e-12)
    low, high = bound_slopes(0.8, 10)
    assert high / low == pytest.approx(ratio[0])


def test_the_papers_numerical_study() -> None:
    study = random_study()
    assert (study.temperature.size, study.classes, study.target) == (1000, 10, 0.8)
    assert study.outside() == 0
    assert study.spread("margin") < 2 < study.spread("normalised max logit") < study.spread("max logit")
    z = np.random.default_rng(0).normal(scale=3.0, size=(1000, 10))
    ordered = np.sort(z, axis=1)
    np.testing.assert_allclose(study.indicators["margin"], ordered[:, -1] - ordered[:, -2])
    np.testing.assert_allclose(study.indicators["max logit"], ordered[:, -1])


def test_a_row_outside_the_bounds_would_be_counted() -> None:
    study = random_study(rows=20)
    study.temperature[3] *= 10
    assert study.outside() == 1


def test_rows_without_a_temperature_are_left_out_and_counted() -> None:
    z = np.vstack([np.zeros((2, 4)), np.random.default_rng(0).normal(size=(5, 4))])
    study = target_study(z, 0.8)
    assert study.unsolved == 2
    assert len(study.temperature) == len(study.indicators["margin"]) == 5
