"""Bands of the reliability diagram: coverage of a known accuracy, the textbook width, and their open ends."""

from __future__ import annotations

import numpy as np
import pytest

from smart_core.metrics.arrays import Values
from smart_core.metrics.bands import Band, accuracy_band, bootstrap_reliability_band, effective_samples
from smart_core.metrics.smooth_ece import smooth_reliability
from tests.metrics.samples import forecasts


def smooth_band(p: Values, a: Values, sigma: float, places: int = 257) -> Band:
    """The band as the smoothed diagram draws it."""
    curve = smooth_reliability(p, a, sigma, places)
    count = effective_samples(p, curve)
    return accuracy_band(curve.accuracy * count, count)


def test_band_covers_a_known_accuracy_at_its_level() -> None:
    # the accuracy is 0.7 whatever the confidence, hence 0.7 after smoothing too
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(150):
        p = rng.uniform(0.2, 1.0, 400)
        band = smooth_band(p, rng.random(400) < 0.7, 0.05, places=41)
        covered.append(((band.low <= 0.7) & (band.high >= 0.7))[10:])
    assert np.mean(covered) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("sigma", [0.004, 0.03, 0.15])
def test_width_is_that_of_a_share_of_the_effective_samples(sigma: float) -> None:
    n, rate = 8_000, 0.8
    p = (np.arange(n) + 0.5) / n
    a = np.random.default_rng(1).random(n) < rate
    band = smooth_band(p, a, sigma, places=101)
    images = np.concatenate([-p, p, 2 - p])  # the mirrors at 0 and 1
    kernel = np.exp(-0.5 * ((np.linspace(0, 1, band.low.size)[:, None] - images) / sigma) ** 2)
    kernel = kernel.reshape(len(kernel), 3, n).sum(axis=1)
    effective = kernel.sum(axis=1) ** 2 / (kernel**2).sum(axis=1)
    expected = 2 * 1.96 * np.sqrt(rate * (1 - rate) / effective)
    np.testing.assert_allclose(np.mean(band.high - band.low), np.mean(expected), rtol=0.05)
    curve = smooth_reliability(p, a, sigma, places=101)
    np.testing.assert_allclose(effective_samples(p, curve), effective, rtol=0.01)


@pytest.mark.parametrize("sigma", [0.0015, 0.02, 0.4, 1.0])
def test_band_holds_the_curve_it_belongs_to(sigma: float) -> None:
    p, a = forecasts(5000, seed=4, shift=-0.1)
    p[:300] = 1.0
    curve = smooth_reliability(p, a, sigma)
    band = smooth_band(p, a, sigma)
    assert band.low.shape == band.high.shape == curve.t.shape
    dense = effective_samples(p, curve) * np.minimum(curve.accuracy, 1 - curve.accuracy) > 1  # hits and misses
    inside = (band.low <= curve.accuracy) & (curve.accuracy <= band.high)
    assert inside[dense].all()


def test_band_stays_open_where_only_hits_were_seen() -> None:
    band = smooth_band([0.9] * 20, [1] * 20, 0.05)
    at = int(np.argmin(np.abs(np.linspace(0, 1, band.low.size) - 0.9)))
    # twenty of twenty: the 95% interval of the rate (Jeffreys) begins at 0.88
    assert band.low[at] == pytest.approx(0.883, abs=0.02)
    assert band.high[at] > 0.999


def test_there_is_no_band_out_of_reach_of_the_samples() -> None:
    band = smooth_band([0.99] * 50, [1, 0] * 25, 0.002)
    assert np.isnan(band.low[0])
    assert np.isfinite(band.low[-1])


def test_one_sample_says_next_to_nothing() -> None:
    band = smooth_band([0.5], [1], 0.5)
    assert np.isfinite(band.low).all()
    assert band.low[128] < 0.5 < band.high[128]


def test_reliability_band_holds_the_accuracy_and_stays_open_without_misses() -> None:
    p = np.repeat([0.5, 0.95], [400, 20])
    a = np.concatenate([np.arange(400) % 2, np.ones(20)])
    band = bootstrap_reliability_band(p, a, bins=10)
    half, top = 4, 9
    assert band.low[half] == pytest.approx(0.5 - 1.96 * 0.025, abs=0.006)
    assert band.high[half] == pytest.approx(0.5 + 1.96 * 0.025, abs=0.006)
    assert band.low[top] < 0.95
    assert np.isnan(band.low[0])
