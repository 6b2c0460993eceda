"""SmoothECE against direct quadrature over all images of the kernel, closed forms, and relplot away from 0
and 1.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import relplot
import torch
from hypothesis import given, settings
from numpy.typing import NDArray
from scipy.integrate import trapezoid

from smart_core.metrics.smooth_ece import _integral_of_absolute, _spectrum, smece, smooth_reliability
from tests.metrics.samples import Pair, forecasts, small_sets

Vector = NDArray[np.float64]


def reflected_sum(t: Vector, p: Vector, mass: Vector, sigma: float) -> Vector:
    """sum_i mass_i K_sigma(t, p_i), image by image."""
    images = range(-int(6 * sigma) - 2, int(6 * sigma) + 3)
    centres = np.concatenate([side * p + 2 * k for k in images for side in (1, -1)])
    weights = np.tile(mass, centres.size // p.size)
    near = (centres > -9 * sigma) & (centres < 1 + 9 * sigma)
    total = np.zeros_like(t)
    for centre, weight in zip(centres[near], weights[near], strict=True):
        total += weight * np.exp(-0.5 * ((t - centre) / sigma) ** 2)
    return total / (sigma * np.sqrt(2 * np.pi))


def by_quadrature(p: Vector, a: NDArray[np.bool_], sigma: float) -> float:
    t = np.linspace(0, 1, 60_001 if sigma < 0.1 else 6001)
    return float(trapezoid(np.abs(reflected_sum(t, p, (a - p) / p.size, sigma)), t))


def with_edges(n: int, seed: int) -> Pair:
    """Samples of which a fifth sit at exactly 0 or exactly 1."""
    p, a = forecasts(n, seed, shift=-0.1)
    p[: n // 10], p[n // 10 : n // 5] = 1.0, 0.0
    return p, a


@pytest.mark.parametrize("sigma", [0.001, 0.004, 0.02, 0.05, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("n", [7, 80])
def test_given_bandwidth_agrees_with_quadrature(n: int, sigma: float) -> None:
    p, a = with_edges(n, seed=n)
    assert smece(p, a, sigma) == pytest.approx(by_quadrature(p, a, sigma), abs=3e-6)


@pytest.mark.parametrize("n", [30, 100])
def test_fixed_point_solves_the_quadrature_equation(n: int) -> None:
    p, a = with_edges(n, seed=n + 1)
    value = smece(p, a)
    assert by_quadrature(p, a, value) == pytest.approx(value, abs=1e-5)


def test_cosine_coefficients_are_of_second_order_up_to_the_edges() -> None:
    p, modes = np.array([0.0, 0.004, 0.01, 0.3, 0.5, 0.989, 0.996, 1.0]), np.pi * np.arange(4)
    bound = (modes / 64) ** 2 / 8  # of linear interpolation of a cosine on 64 cells
    for i, place in enumerate(p):
        found = _spectrum(p, np.eye(p.size)[i], cells=64)[:4]
        assert (np.abs(found - np.cos(modes * place)) <= bound + 1e-12).all()


def test_integral_of_absolute_is_exact_for_a_line_that_changes_sign() -> None:
    assert _integral_of_absolute(np.array([3.0, -1.0])) == pytest.approx((3 * 0.75 + 1 * 0.25) / 2)
    assert _integral_of_absolute(np.array([1.0, 0.0, -1.0, 0.0, 0.0])) == pytest.approx(1.5 / 4)


def test_mass_at_one_is_counted_in_full() -> None:
    # the hits at 1 have no residual; the misses at 1/2 have 0.1 * 0.5, all of one sign
    p, a = [1.0] * 900 + [0.5] * 100, [1] * 900 + [0] * 100
    assert smece(p, a, sigma=0.05) == pytest.approx(0.05, abs=1e-9)
    assert smece(p, a) == pytest.approx(0.05, abs=1e-9)


@pytest.mark.parametrize(("p", "a"), [(1.0, 0), (0.0, 1)])
@pytest.mark.parametrize("sigma", [0.001, 0.05, 0.7, None])
def test_certain_and_wrong_is_an_error_of_one(p: float, a: int, sigma: float | None) -> None:
    assert smece([p] * 5, [a] * 5, sigma) == pytest.approx(1.0, abs=1e-6)


def test_opposite_residuals_far_apart_do_not_cancel_and_close_ones_do() -> None:
    far = smece([0.0] * 10 + [1.0] * 10, [1] * 10 + [0] * 10, sigma=0.05)
    assert far == pytest.approx(1.0, abs=1e-6)
    assert smece([0.5, 0.5], [1, 0], sigma=0.05) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("n", [2000, 20_000])
def test_agrees_with_relplot_away_from_zero_and_one(n: int) -> None:
    rng = np.random.default_rng(n)
    p = rng.uniform(0.3, 0.7, size=n)
    a = rng.uniform(size=n) < p**1.5 + 0.1 * np.sin(20 * p)
    assert smece(p, a, 0.03) == pytest.approx(relplot.smECE_sigma(p, a.astype(float), 0.03), rel=5e-3)
    assert smece(p, a) == pytest.approx(relplot.smECE(p, a.astype(float)), abs=2e-3)  # it searches to 1e-3


@settings(max_examples=30)
@given(small_sets())
def test_falls_with_the_bandwidth_between_net_and_total_residual(pair: Pair) -> None:
    p, a = pair
    errors = [smece(p, a, sigma) for sigma in (0.01, 0.03, 0.1, 0.4, 2.0)]
    assert all(later <= earlier + 1e-5 for earlier, later in pairwise(errors))
    net, total = abs(float(np.mean(a - p))), float(np.abs(a - p).mean())
    for error in (*errors, smece(p, a)):
        assert net - 1e-6 <= error <= total + 1e-6


@settings(max_examples=20)
@given(small_sets())
def test_mirror_image_has_the_same_error(pair: Pair) -> None:
    p, a = pair
    assert smece(1 - p, ~a) == pytest.approx(smece(p, a), abs=1e-6)


def by_places(p: Vector, a: NDArray[np.bool_], sigma: float) -> float:
    """The same integral on places packed around every sample, for bandwidths no even grid resolves."""
    around = [np.clip(x + sigma * np.linspace(-9, 9, 721), 0, 1) for x in p]
    t = np.unique(np.concatenate([[0.0, 1.0], *around]))
    return float(trapezoid(np.abs(reflected_sum(t, p, (a - p) / p.size, sigma)), t))


def fine_set(seed: int, scale: float) -> Pair:
    """Right answers within a few `scale` of 0 and of 1, and right and wrong ones at 1/2, so close as to cancel."""
    rng = np.random.default_rng(seed)
    near_one, near_zero = 1 - 3 * scale * rng.random(5), 3 * scale * rng.random(4)
    middle = 0.5 + 30 * scale**2 * rng.random(6)
    a = np.concatenate([np.ones(5), np.zeros(4), np.arange(6) % 2]).astype(bool)
    return np.concatenate([near_one, near_zero, middle]), a


@pytest.mark.parametrize("scale", [1e-7, 2e-6, 3e-5])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fixed_point_finer_than_any_grid(seed: int, scale: float) -> None:
    p, a = fine_set(seed, scale)
    value = smece(p, a)
    assert 0 < value < 6e-5
    assert by_places(p, a, value) == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize("sigma", [1e-8, 1e-6, 2e-5, 5e-5])
def test_given_bandwidth_finer_than_any_grid(sigma: float) -> None:
    p, a = with_edges(12, seed=4)
    p = np.concatenate([p, p[:4] + 3 * sigma * np.array([1, -1, 1, -1])]).clip(0, 1)
    a = np.concatenate([a, ~a[:4]])
    assert smece(p, a, sigma) == pytest.approx(by_places(p, a, sigma), rel=1e-4)


def test_two_opposite_residuals_side_by_side() -> None:
    """+-1/4 at distance d: the integral is 2 * d / 4 * phi(0) / sigma while d is far below sigma."""
    d = 1e-9
    assert smece([0.5, 0.5 + d], [1, 0]) == pytest.approx(np.sqrt(d / 2 / np.sqrt(2 * np.pi)), rel=1e-4)
    assert smece([0.5, 0.5], [1, 0]) == 0.0


def test_perfect_forecasts_and_tiny_errors() -> None:
    assert smece([0.0, 1.0, 1.0], [0, 1, 1]) == 0.0
    assert smece([1 - 1e-7] * 10, [1] * 10) == pytest.approx(1e-7, rel=1e-6)
    # residuals -1e-6 at 1e-6 and +1e-6 at 1 - 1e-6, far apart at any such bandwidth
    assert smece([1e-6, 1 - 1e-6], [0, 1]) == pytest.approx(1e-6, abs=2e-7)


def test_torch_lists_and_numpy_agree_and_bad_widths_are_refused() -> None:
    p, a = forecasts(60)
    assert smece(torch.from_numpy(p), torch.from_numpy(a)) == smece(p.tolist(), a.tolist())
    for sigma in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="sigma must be positive"):
            smece(p, a, sigma)


@pytest.mark.parametrize("sigma", [0.02, 0.1])
def test_smooth_curve_agrees_with_quadrature_sums(sigma: float) -> None:
    p, a = with_edges(200, seed=3)
    curve = smooth_reliability(p, a, sigma)
    density = reflected_sum(curve.t, p, np.full(p.size, 1 / p.size), sigma)
    hits = reflected_sum(curve.t, p, a / p.size, sigma)
    np.testing.assert_allclose(curve.density, density, atol=1e-3 * density.max())
    dense = density > 1e-3
    np.testing.assert_allclose(curve.accuracy[dense], (hits / density)[dense], atol=2e-3)
    assert trapezoid(curve.density, curve.t) == pytest.approx(1, abs=1e-3)


def test_smooth_curve_leaves_empty_places_out_and_takes_the_fixed_point_width() -> None:
    p, a = np.array([0.9] * 50 + [0.95] * 50), np.array([1] * 85 + [0] * 15)
    curve = smooth_reliability(p, a)
    assert curve.sigma == pytest.approx(smece(p, a))
    assert np.isnan(curve.accuracy[0])
    assert smooth_reliability(p, a, 0.02).accuracy[-1] == pytest.approx(0.70, abs=0.02)
