"""The parts behind intervals and differences against closed forms, other packages and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom, binomtest, kstest, norm, poisson, ttest_1samp

from smart_core import metrics
from smart_core.metrics import Samples
from smart_core.metrics.classwise import _hashed
from smart_core.metrics.smooth_calibration import smce_batch
from smart_core.metrics.smooth_ece import smece_batch, smooth_cells
from smart_core.metrics.uncertainty.bounds import LARGEST_BIAS, Bounds, absolute_estimate
from smart_core.metrics.uncertainty.cells import (
    cell_sums,
    correlated_normals,
    hypothetical_variance,
    joint_covariance,
)
from smart_core.metrics.uncertainty.classwise import mean_absolute_deviation
from smart_core.metrics.uncertainty.means import (
    hall_inverse,
    hall_transform,
    mean_interval,
    mean_p_value,
    wilson_interval,
)
from smart_core.metrics.uncertainty.top_label import TOP_LABEL_ERRORS, top_label_bounds
from tests.metrics.samples import classwise_cells
from tests.metrics.simulated import LAWS, ClassLaw, beta_sample, softmax


@pytest.mark.parametrize("mu", [0.0, 0.2, 0.5, 0.9, 1.3, 2.0, 3.1, 5.5, 6.0, 7.0, 9.0])
def test_estimate_of_an_absolute_value_has_little_bias_and_variance(mu: float) -> None:
    """Against integrals over equally likely normal values."""
    z = mu + norm.ppf((np.arange(200_000) + 0.5) / 200_000)
    estimate = absolute_estimate(z)
    assert abs(estimate.mean() - mu) <= LARGEST_BIAS
    assert abs(estimate.mean() - mu) < 0.3 * (np.abs(z).mean() - mu) + 0.22 * (mu > 0)
    assert estimate.var() < 1.7
    assert absolute_estimate(-z) == pytest.approx(estimate)
    if mu >= 5.5:
        assert estimate.mean() == pytest.approx(mu, abs=0.01)


def _bounds(lower: float, upper: float, sd: float) -> Bounds:
    return Bounds(lower, upper, np.array([sd]))


def test_interval_is_two_sided_where_the_bounds_coincide_and_one_sided_where_they_are_far_apart() -> None:
    assert _bounds(1.0, 1.0, 0.5).interval() == pytest.approx((1 - 0.98, 1 + 0.98), abs=1e-3)
    assert _bounds(0.0, 9.0, 0.5).interval() == pytest.approx((-0.8224, 9.8224), abs=1e-3)
    assert _bounds(0.2, 0.7, 0.0).interval() == (0.2, 0.7)


@given(st.floats(-3, 3), st.floats(0, 3), st.floats(0.01, 2), st.floats(0.5, 0.999))
def test_p_value_is_the_level_at_which_zero_drops_out(lower: float, gap: float, sd: float, level: float) -> None:
    bounds = _bounds(lower, lower + gap, sd)
    low, high = bounds.interval(level)
    if bounds.p_value() < 1 - level - 1e-9:
        assert low > 0 or high < 0
    if bounds.p_value() > 1 - level + 1e-9:
        assert low <= 1e-9
        assert high >= -1e-9


def test_difference_of_bounds_shares_noise_and_encloses_the_difference() -> None:
    noise = np.array([0.3, -0.4])
    found = Bounds(0.1, 0.2, noise) - Bounds(0.05, 0.15, noise, own=0.01)
    assert (found.lower, found.upper) == pytest.approx((-0.05, 0.15))
    assert found.sd == pytest.approx(0.1)
    assert found.widened(2.0).sd == pytest.approx(0.2)


@pytest.mark.parametrize("metric", TOP_LABEL_ERRORS)
@pytest.mark.parametrize("name", ["calibrated", "strong"])
def test_bounds_enclose_the_population_value_on_average(metric: str, name: str) -> None:
    law, samples = LAWS[name]
    truth, generator = law.population(metric), np.random.default_rng(1)
    found, plain = [], []
    for seed in range(60):
        drawn = Samples(*law.draw(samples, generator))
        found.append(top_label_bounds(metric, [drawn], 15, seed)[0])
        plain.append(getattr(metrics, metric)(drawn.confidence, drawn.correct))
    spread = float(np.std([one.upper for one in found]))
    assert np.mean([one.lower for one in found]) <= truth + 2 * spread / np.sqrt(60)
    assert np.mean([one.upper for one in found]) >= truth - 2 * spread / np.sqrt(60)
    assert 0.8 * spread < np.mean([one.sd for one in found]) < 1.8 * spread
    if name == "calibrated":
        assert abs(np.mean([(one.lower + one.upper) / 2 for one in found])) < 0.5 * np.mean(plain)


@given(st.floats(-3, 3), st.floats(-8, 8), st.integers(20, 5000))
def test_hall_transform_and_inverse_undo_each_other(t: float, skewness: float, samples: int) -> None:
    assert hall_inverse(hall_transform(t, skewness, samples), skewness, samples) == pytest.approx(t, abs=1e-6)


def test_mean_interval_of_symmetric_values_is_students() -> None:
    half = np.random.default_rng(0).standard_normal(400)
    values = np.concatenate([half, -half]) + 0.3
    expected = ttest_1samp(values, 0).confidence_interval(0.95)
    assert mean_interval(values) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize(("hits", "samples"), [(0, 10), (10, 10), (93, 100), (4000, 5000)])
def test_wilson_is_scipys(hits: int, samples: int) -> None:
    expected = binomtest(hits, samples).proportion_ci(0.95, method="wilson")
    assert wilson_interval(hits, samples) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize("mean", [0.02, 0.4, 3.0, 60.0])
def test_mean_absolute_deviation_is_that_of_the_distribution(mean: float) -> None:
    k = np.arange(400)
    by_poisson = float((poisson.pmf(k, mean) * np.abs(mean - k)).sum())
    value = mean_absolute_deviation(np.array([mean]), np.array([mean * (1 - 1e-7)]))[0]
    assert value == pytest.approx(by_poisson, rel=1e-4)
    by_binomial = float((binom.pmf(k, 200, mean / 200) * np.abs(mean - k)).sum())
    value = mean_absolute_deviation(np.array([mean]), np.array([mean * (1 - mean / 200)]))[0]
    assert value == pytest.approx(by_binomial, rel=1e-9)


def test_hypothetical_variance_is_that_of_resampled_labels() -> None:
    p, _ = beta_sample()
    generator = np.random.default_rng(1)
    labels = generator.random((4000, p.size)) < p - 0.1
    sums = cell_sums("ece", p, labels[0].astype(float), 15)
    drawn = np.stack([cell_sums("ece", p, row.astype(float), 15).gap for row in labels])
    expected_gap = drawn.mean(axis=0)
    given_p = hypothetical_variance(sums, expected_gap) - 0.1**2 * sums.share + expected_gap**2
    kept = sums.share > 0.02
    assert (drawn.var(axis=0) * p.size)[kept] == pytest.approx(given_p[kept], rel=0.12)


def test_normals_have_the_correlations_asked_for() -> None:
    p, a = beta_sample()
    cells = [cell_sums("ece", q, a.astype(float), 15) for q in (p, np.sqrt(p))]
    covariance = joint_covariance(cells)
    drawn = np.corrcoef(correlated_normals(covariance, 400, np.random.default_rng(0)).T)
    used = np.flatnonzero(np.diag(covariance) > 0)
    sd = np.sqrt(np.diag(covariance))[used]
    expected = covariance[np.ix_(used, used)] / np.outer(sd, sd)
    assert drawn[np.ix_(used, used)] == pytest.approx(expected, abs=1e-6)


def test_smoothing_matrix_is_the_reflected_gaussian() -> None:
    cells, sigma = 64, 0.07
    place = (np.arange(cells) + 0.5) / cells
    direct = sum(
        np.exp(-0.5 * ((place[:, None] - image) / sigma) ** 2)
        for k in (-1, 0, 1)
        for image in (place + 2 * k, -place + 2 * k)
    ) / (sigma * np.sqrt(2 * np.pi) * cells)
    assert smooth_cells(np.eye(cells), sigma) == pytest.approx(direct, abs=1e-9)


def test_smooth_errors_of_cells_stay_close_to_the_exact_ones() -> None:
    p, a = beta_sample(4000, 3, shift=0.03)
    gap = cell_sums("smce", p, a.astype(float), 15).gap
    assert smce_batch(np.linspace(0, 1, gap.size), gap)[0] == pytest.approx(metrics.smce(p, a), rel=0.02)
    gap = cell_sums("smece", p, a.astype(float), 15).gap
    assert smece_batch(gap[None, :])[0] == pytest.approx(metrics.smece(p, a), rel=0.02)


def test_smooth_ece_of_a_batch_is_the_fixed_point() -> None:
    mass = np.random.default_rng(0).standard_normal((6, 128)) / 300
    roots = [brentq(lambda sigma, row=row: np.abs(smooth_cells(row, sigma)).sum() - sigma, 1e-4, 1) for row in mass]
    assert smece_batch(mass) == pytest.approx(np.array(roots), rel=0.01)


def test_groups_are_of_about_the_same_size() -> None:
    p, a = np.full((1000, 2), 0.5), np.zeros(1000, dtype=int)
    assert classwise_cells(p, a).group_count.min() > 5


def test_numbers_drawn_for_positions_are_uniform_and_unrelated() -> None:
    position = np.arange(20_001, dtype=np.uint64)
    u, other_seed, groups = (_hashed(position, salt) / 2.0**64 for salt in (1, 2, 0))
    assert kstest(u, "uniform").pvalue > 1e-3
    for other in (other_seed[:-1], u[1:], groups[:-1]):
        assert abs(np.corrcoef(u[:-1], other)[0, 1]) < 0.03


def test_classwise_cells_leave_the_probabilities_alone_and_draw_calibrated_labels() -> None:
    z, y = ClassLaw(4).draw(3000, np.random.default_rng(0))
    p = softmax(1.3 * z)
    before = p.copy()
    cells = classwise_cells(p, y)
    assert np.array_equal(p, before)
    assert cells.ece() == pytest.approx(metrics.classwise_ece(p, y), abs=1e-12)
    assert cells.group_residual.sum(axis=0) == pytest.approx(cells.sum_p - cells.sum_y, abs=1e-3)
    drawn = cells.sum_p - cells.null_residual.sum(axis=0)
    assert drawn.sum() == pytest.approx(3000, abs=1e-2)
    spread = np.sqrt(np.maximum(cells.sum_p - cells.sum_p2, 1))
    assert np.abs((drawn - cells.sum_p) / spread).max() < 4.5


def test_one_loss_says_nothing_and_equal_losses_leave_room_for_few_others() -> None:
    assert mean_interval(np.array([0.3]), bounds=(0, 2)) == (0, 2)
    low, high = mean_interval(np.full(100, 0.5), bounds=(0, 2))
    assert (low, high) == pytest.approx((0.5 - 0.0295 * 0.5, 0.5 + 0.0295 * 1.5), abs=1e-3)
    assert mean_p_value(np.array([0.3]), (-2, 2)) == 1.0
    assert mean_p_value(np.full(3, 0.5), (-2, 2)) == pytest.approx(0.8**3)
