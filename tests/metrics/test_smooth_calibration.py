"""Exact smCE: HiGHS solves the same linear programme."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import diags, vstack

from smart_core.metrics.smooth_calibration import smce, smce_batch, smce_from_residuals
from tests.metrics.samples import Pair, forecasts, small_sets

HIGHS = 1e-7
"""How far HiGHS lets a constraint be off, and so its optimum where the masses sum to 1."""


def chain_programme(points: NDArray[np.float64], mass: NDArray[np.float64]) -> float:
    """max mass . phi subject to |phi| <= 1 and |phi_j+1 - phi_j| <= the gap; `points` rise, equal ones
    allowed.
    """
    n = points.size
    step = diags([-np.ones(n - 1), np.ones(n - 1)], [0, 1], shape=(n - 1, n))
    gaps = np.diff(points)
    limits = {"A_ub": vstack([step, -step]).tocsr(), "b_ub": np.concatenate([gaps, gaps])} if n > 1 else {}
    return -float(linprog(-mass, bounds=(-1, 1), method="highs", **limits).fun)


def programme_of_samples(p: NDArray[np.float64], a: NDArray[np.bool_]) -> float:
    order = np.argsort(p)
    return chain_programme(p[order], (a - p)[order] / p.size)


@settings(max_examples=80)
@given(small_sets())
def test_agrees_with_highs_on_small_sets(pair: Pair) -> None:
    assert smce(*pair) == pytest.approx(programme_of_samples(*pair), abs=HIGHS)


@pytest.mark.parametrize("shift", [0.0, 0.05, -0.05, -0.4])
def test_agrees_with_highs_on_a_thousand_samples(shift: float) -> None:
    p, a = forecasts(1000, seed=7, shift=shift)
    assert smce(p, a) == pytest.approx(programme_of_samples(p, a), abs=HIGHS)


@pytest.mark.parametrize("seed", range(30))
def test_any_residual_mass_agrees_with_highs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    points = np.sort(rng.uniform(size=n)) if seed % 2 else np.linspace(0, 1, n)
    mass = rng.normal(size=n) * rng.choice([1e-6, 0.1, 1.0], size=n) / n + rng.choice([-1, 0, 1]) * 0.1 / n
    expected = chain_programme(points, mass)
    assert smce_from_residuals(points, mass) == pytest.approx(expected, abs=HIGHS)
    np.testing.assert_allclose(
        smce_batch(points, np.stack([mass, -2 * mass])), [expected, 2 * expected], atol=2 * HIGHS
    )


def test_residuals_without_a_net_sum_cost_their_transport() -> None:
    # mass 1/2 moved over 0.3: only the slope of phi counts
    assert smce_from_residuals(np.array([0.2, 0.5]), np.array([0.5, -0.5])) == pytest.approx(0.15)
    assert smce_from_residuals(np.array([0.2, 0.5]), np.array([-0.5, 0.5])) == pytest.approx(0.15)


def test_one_confidence_everywhere() -> None:
    assert smce([0.8] * 1000, [1] * 700 + [0] * 300) == pytest.approx(0.1, abs=1e-12)


def test_both_signs_are_covered() -> None:
    assert smce([0.3] * 10, [1] * 10) == pytest.approx(0.7)
    assert smce([0.3] * 10, [0] * 10) == pytest.approx(0.3)


@given(small_sets())
def test_lies_between_the_net_and_the_total_residual(pair: Pair) -> None:
    p, a = pair
    total = sum(abs(float((a - p)[p == value].sum())) for value in np.unique(p)) / p.size
    assert abs(float(np.mean(a - p))) - 1e-12 <= smce(p, a) <= total + 1e-12


def alternating(n: int) -> Pair:
    """Tiny residuals, then large ones of alternating sign: quadratic for simpler slope-trick solvers."""
    tiny = np.sort(np.random.default_rng(0).uniform(0, 1e-5, n // 2))
    hits = np.concatenate([np.zeros(n // 2, dtype=bool), np.arange(n // 2) % 2 == 0])
    return np.concatenate([tiny, np.linspace(0.4, 0.6, n // 2)]), hits


@pytest.mark.parametrize("sample", [forecasts, alternating])
def test_ten_times_the_samples_take_far_less_than_a_hundred_times_as_long(sample: Callable[[int], Pair]) -> None:
    seconds = []
    for n in (5_000, 50_000):
        p, a = sample(n)
        smce(p, a)  # compiled and warm
        start = time.process_time()
        smce(p, a)
        seconds.append(time.process_time() - start)
    assert seconds[1] < 40 * seconds[0]


def test_torch_and_numpy_agree() -> None:
    p, a = forecasts(200)
    assert smce(torch.from_numpy(p), torch.from_numpy(a)) == smce(p.tolist(), a)
