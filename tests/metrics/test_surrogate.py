"""The paper's surrogates by other routes: loops over samples, adaptive quadrature, and the inequalities it
proves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from smart_core.metrics.smooth_calibration import smce
from smart_core.metrics.surrogate import (
    b_lambda,
    b_lambda_bound,
    charbonnier_soft_ece,
    eps_agg,
    h_continuous,
)
from tests.metrics.samples import Pair, forecasts, small_sets

SIGMAS = [0.01, 0.05, 0.2, 1.0]


def soft_table(p: np.ndarray, a: np.ndarray, sigma: float, bins: int) -> list[tuple[float, float, float, list[float]]]:
    """(mass, mean confidence, mean accuracy, weights) of every soft bin, sample by sample, from the
    definition.
    """
    centres = [(b + 0.5) / bins for b in range(bins)]
    rows = []
    for value in p:
        scores = [-((value - c) ** 2) / (2 * sigma**2) for c in centres]
        row = [math.exp(s - max(scores)) for s in scores]
        rows.append([w / sum(row) for w in row])
    table = []
    for b in range(bins):
        w = [row[b] for row in rows]
        mass = sum(w)
        if mass > 0:
            mean_p = sum(wi * pi for wi, pi in zip(w, p, strict=True)) / mass
            mean_a = sum(wi * ai for wi, ai in zip(w, a, strict=True)) / mass
            table.append((mass, mean_p, mean_a, w))
    return table


@pytest.mark.parametrize("bins", [1, 4, 15])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_bin_mean_objectives_equal_their_definition(sigma: float, bins: int) -> None:
    p, a = forecasts(60, seed=1, shift=-0.1)
    table, delta = soft_table(p, a, sigma, bins), 0.01
    soft = sum(mass / p.size * abs(conf - acc) for mass, conf, acc, _ in table)
    smooth = sum(mass / p.size * (math.sqrt((conf - acc) ** 2 + delta**2) - delta) for mass, conf, acc, _ in table)
    mismatch = sum(
        sum(wi * abs((ai - pi) - (acc - conf)) for wi, pi, ai in zip(w, p, a, strict=True)) / p.size
        for _, conf, acc, w in table
    )
    assert charbonnier_soft_ece(p, a, sigma, 0.0, bins) == pytest.approx(soft, abs=1e-12)
    assert charbonnier_soft_ece(p, a, sigma, delta, bins) == pytest.approx(smooth, abs=1e-12)
    assert eps_agg(p, a, sigma, bins) == pytest.approx(mismatch, abs=1e-12)


def test_charbonnier_rises_to_soft_ece_as_delta_vanishes() -> None:
    p, a = forecasts(500, seed=2)
    values = [charbonnier_soft_ece(p, a, delta=delta) for delta in (1e-1, 1e-2, 1e-3, 0.0)]
    assert values == sorted(values)


def kernel_mean(cost: Callable[[float], float], p: float, sigma: float) -> float:
    """Mean of cost(u) over u in [0, 1] under the normalised Gaussian kernel at p, by adaptive quadrature."""
    breaks = {min(max(p + k * sigma, 0.0), 1.0) for k in range(-8, 9)} | {0.0, 0.002, 0.998, 1.0}

    def kernel(u: float) -> float:
        return math.exp(-((p - u) ** 2) / (2 * sigma**2))

    def integral(f: Callable[[float], float]) -> float:
        return sum(quad(f, low, high)[0] for low, high in pairwise(sorted(breaks)))

    return integral(lambda u: cost(u) * kernel(u)) / integral(kernel)


@pytest.mark.parametrize("hit", [0, 1])
@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.1])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_continuous_objective_agrees_with_adaptive_quadrature(sigma: float, delta: float, hit: int) -> None:
    p = [0.0, 0.03, 0.5, 0.97, 1.0]
    expected = [kernel_mean(lambda u: math.hypot(hit - u, delta), value, sigma) for value in p]
    assert h_continuous(p, [hit] * 5, sigma, delta) == pytest.approx(np.mean(expected), abs=1e-7)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_kernel_bias_is_the_largest_mean_distance(sigma: float) -> None:
    def mean_distance(p: float) -> float:
        return kernel_mean(lambda u: abs(p - u), p, sigma)

    largest = max(mean_distance(p) for p in np.linspace(0, 1, 41))
    assert b_lambda(sigma) == pytest.approx(largest, abs=1e-8)
    assert b_lambda(sigma) <= b_lambda_bound(sigma)


def test_closed_bound_has_the_papers_values() -> None:
    assert b_lambda_bound(0.05) <= 1.339 / math.sqrt(200) + 1e-4
    assert b_lambda_bound(0.05) == pytest.approx(2 / (math.sqrt(math.pi) * math.sqrt(200)), rel=1e-9)
    assert b_lambda_bound(10.0) == 1.0


@settings(max_examples=60)
@given(small_sets(), st.sampled_from([0.02, 0.05, 0.2, 0.7]), st.sampled_from([0.0, 1e-3, 0.1]))
def test_the_papers_bounds_hold(pair: Pair, sigma: float, delta: float) -> None:
    p, a = pair
    objective, bias = h_continuous(p, a, sigma, delta), b_lambda(sigma)
    bin_mean = charbonnier_soft_ece(p, a, sigma, delta) + delta  # without the constant shift
    assert smce(p, a) <= objective + 2 * bias + 1e-9
    assert objective <= bin_mean + eps_agg(p, a, sigma) + bias + 1e-9
