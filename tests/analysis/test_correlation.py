"""Correlations against SciPy's, and the coverage of their intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr, rankdata, spearmanr

from smart_core.analysis.correlation import _middle_ranks, _weighted, correlate
from smart_core.errors import SmartError


def pair(size: int, rho: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two normal variables of that correlation."""
    generator = np.random.default_rng(seed)
    x, noise = generator.normal(size=(2, size))
    return x, rho * x + np.sqrt(1 - rho**2) * noise


@given(st.integers(3, 60), st.integers(0, 1000), st.sampled_from([None, 0, 1]), st.floats(1e-6, 1e6))
def test_the_coefficients_are_scipys(size: int, seed: int, decimals: int | None, scale: float):
    x, y = pair(size, 0.5, seed)
    if decimals is not None:  # ties
        x, y = x.round(decimals), y.round(decimals)
    x = scale * x + 3.0 * scale
    found = correlate(x, y, resamples=20)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert np.isnan(found.pearson)
        return
    assert found.pearson == pytest.approx(pearsonr(x, y)[0], abs=1e-9)
    assert found.spearman == pytest.approx(spearmanr(x, y)[0], abs=1e-9)


@given(st.integers(3, 60), st.integers(0, 1000), st.sampled_from([None, 0, 1]))
def test_coefficients_from_counts_are_scipys_of_the_resample(size: int, seed: int, decimals: int | None):
    """Drawing the samples one by one and ranking them again gives the same coefficients."""
    x, y = pair(size, 0.5, seed)
    if decimals is not None:  # ties beyond those of samples that are drawn twice
        x, y = x.round(decimals), y.round(decimals)
    chosen = np.random.default_rng(seed).integers(size, size=size)
    counts = np.bincount(chosen, minlength=size).astype(float)
    ranks = [_middle_ranks(np.unique(values, return_inverse=True)[1], counts) for values in (x, y)]
    found = _weighted(counts, x, y), _weighted(counts, *ranks)
    if np.ptp(x[chosen]) == 0 or np.ptp(y[chosen]) == 0:
        assert np.isnan(found).all()
        return
    expected = pearsonr(x[chosen], y[chosen])[0], spearmanr(x[chosen], y[chosen])[0]
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("decimals", [None, 1])
def test_the_intervals_are_those_of_a_plain_bootstrap(decimals: int | None):
    x, y = pair(80, 0.6, 5)
    if decimals is not None:
        x = x.round(decimals)
    found = correlate(x, y, seed=2, resamples=4000)
    generator = np.random.default_rng(77)
    draws = []
    for _ in range(1500):
        chosen = generator.integers(80, size=80)
        values = x[chosen], y[chosen]
        draws.append([np.corrcoef(*each)[0, 1] for each in (values, [rankdata(v) for v in values])])
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    ours = [[found.pearson_low, found.spearman_low], [found.pearson_high, found.spearman_high]]
    np.testing.assert_allclose(ours, [low, high], atol=0.025)


def test_the_intervals_cover_the_truth():
    rho, sets = 0.68, 150
    spearman = 6 / np.pi * np.arcsin(rho / 2)  # of two normal variables
    hits = np.zeros(2)
    for seed in range(sets):
        found = correlate(*pair(120, rho, seed), seed=seed, resamples=400)
        hits += [
            found.pearson_low <= rho <= found.pearson_high,
            found.spearman_low <= spearman <= found.spearman_high,
        ]
    assert (np.abs(hits / sets - 0.95) <= 0.05).all()


def test_missing_values_are_counted_and_enter_nothing():
    x, y = pair(100, 0.5, 1)
    x[3], y[7], y[9] = np.nan, np.inf, np.nan
    found = correlate(x, y)
    known = np.isfinite(x) & np.isfinite(y)
    assert (found.used, found.missing) == (97, 3)
    assert found.pearson == pytest.approx(pearsonr(x[known], y[known])[0])
    assert found.to_dict() == {**correlate(x[known], y[known]).to_dict(), "missing": 3}


@pytest.mark.parametrize(
    ("x", "y"),
    [([1.0, 2.0], [1.0, 2.0]), ([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]), ([np.nan] * 4, [1.0, 2.0, 3.0, 4.0]), ([], [])],
)
def test_where_there_is_no_correlation_it_is_nan(x: list[float], y: list[float]):
    found = correlate(x, y)
    assert np.isnan([found.pearson, found.pearson_low, found.spearman, found.spearman_high]).all()
    assert found.used + found.missing == len(x)


def test_a_seed_gives_the_same_interval_and_another_one_another():
    x, y = pair(50, 0.4, 0)
    assert correlate(x, y, seed=1) == correlate(x, y, seed=1)
    assert correlate(x, y, seed=1).pearson_low != correlate(x, y, seed=2).pearson_low


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="3 and 2"):
        correlate([1.0, 2.0, 3.0], [1.0, 2.0])


def test_what_is_wrong_is_one_of_the_projects_own_sentences():
    for x, y in (([1.0, 2.0, 3.0], [1.0, 2.0]), (["a"], ["b"]), ([[1.0], [1.0, 2.0]], [1.0, 2.0])):
        with pytest.raises(SmartError, match=r"^A correlation needs .*\.$"):
            correlate(x, y)
