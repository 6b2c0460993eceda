"""Intervals: the parts they are built from against closed forms, and what a caller relies on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom, binomtest, norm, poisson, ttest_1samp

from smart_core import metrics
from smart_core.metrics.binned_law import equal_mass_cells, equal_width_cells, even_path, plausible_path, uneven_path
from smart_core.metrics.cells import correlated_normals, hypothetical_variance, joint_covariance
from smart_core.metrics.classwise_cells import classwise_cells, random_groups
from smart_core.metrics.classwise_law import classwise_law, mean_absolute
from smart_core.metrics.intervals import DESCRIPTIONS, interval
from smart_core.metrics.inversion import SimulatedLaw, unified_interval
from smart_core.metrics.mean_interval import hall_inverse, hall_transform, mean_interval, wilson_interval
from smart_core.metrics.smooth_law import fixed_points, reflected_kernel, smce_cells, smce_of_mass, smece_of_mass
from tests.conftest import real_data
from tests.metrics.simulated import ClassLaw


def _sample(samples: int = 2000, seed: int = 0, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    p = 0.2 + 0.75 * generator.beta(3, 1.5, samples)
    return p, generator.random(samples) < p - shift


def _upper_end(mu: float, level: float) -> tuple[float, float]:
    """Acceptance interval of a normal x with mean mu >= 0 by likelihood ratio against max(x, 0), in closed form."""

    def left_of(right: float) -> float:
        # ratio at right > 0 is exp(-(x - mu)^2 / 2); at x < 0 it is exp(x mu - mu^2 / 2)
        mirrored = 2 * mu - right
        return mirrored if mirrored >= 0 else (mu**2 - (right - mu) ** 2) / (2 * mu)

    right = brentq(lambda x: norm.cdf(x - mu) - norm.cdf(left_of(x) - mu) - level, mu, mu + 10)
    return left_of(right), right


@pytest.mark.parametrize("observed", [-1.0, 0.0, 1.0, 1.8, 3.0])
def test_unified_interval_of_a_bounded_normal_mean_is_the_closed_form(observed: float) -> None:
    t = np.linspace(0, 8, 161)
    z = norm.ppf((np.arange(4001) + 0.5) / 4001)
    low, high = unified_interval(SimulatedLaw(t, t[:, None] + z, observed), 0.95)
    upper = brentq(lambda mu: _upper_end(mu, 0.95)[0] - observed, 1e-3, 8)
    lower = 0.0 if observed < norm.ppf(0.95) else brentq(lambda mu: _upper_end(mu, 0.95)[1] - observed, 1e-3, 8)
    assert (low, high) == pytest.approx((lower, upper), abs=0.02)


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


@pytest.mark.parametrize("centre", [0.02, 0.4, 3.0])
def test_mean_absolute_deviation_of_few_labels_is_the_discrete_one(centre: float) -> None:
    k = np.arange(200)
    by_poisson = float((poisson.pmf(k, centre) * np.abs(centre - k)).sum())
    value = mean_absolute(np.array([centre]), np.array([centre * (1 - 1e-7)]), np.array([centre]))[0]
    assert value == pytest.approx(by_poisson, rel=1e-4)
    by_binomial = float((binom.pmf(k, 8, 0.3) * np.abs(2.0 - k)).sum())
    value = mean_absolute(np.array([2.4]), np.array([2.4 * 0.7]), np.array([2.0]))[0]
    assert value == pytest.approx(by_binomial, rel=1e-9)


def test_hypothetical_variance_is_that_of_resampled_labels() -> None:
    p, _ = _sample()
    generator = np.random.default_rng(1)
    labels = generator.random((4000, p.size)) < p - 0.1
    sums = equal_width_cells(p, labels[0].astype(float), 15)
    drawn = np.stack([equal_width_cells(p, row.astype(float), 15).gap for row in labels])
    expected_gap = drawn.mean(axis=0)
    given_p = hypothetical_variance(sums, expected_gap[None, :])[0] - 0.1**2 * sums.share + expected_gap**2
    kept = sums.share > 0.02
    assert (drawn.var(axis=0) * p.size)[kept] == pytest.approx(given_p[kept], rel=0.12)


def test_equal_mass_cells_know_that_their_edges_move() -> None:
    """The spread of AdaECE's cell sums over samples, edges and all, is the one the drift term predicts."""
    drawn, predicted = [], []
    for seed in range(600):
        p, a = _sample(1000, seed, shift=0.2)
        sums = equal_mass_cells(p, a.astype(float), 5)
        drawn.append(sums.gap)
        predicted.append(np.diag(joint_covariance([sums])) / 1000)
    assert np.var(drawn, axis=0) == pytest.approx(np.mean(predicted, axis=0), rel=0.25)


def test_normals_have_the_correlations_asked_for() -> None:
    p, a = _sample()
    cells = [equal_width_cells(q, a.astype(float), 15) for q in (p, np.sqrt(p))]
    covariance = joint_covariance(cells)
    drawn = np.corrcoef(correlated_normals(covariance, 400, np.random.default_rng(0)).T)
    used = np.flatnonzero(np.diag(covariance) > 0)
    sd = np.sqrt(np.diag(covariance))[used]
    expected = covariance[np.ix_(used, used)] / np.outer(sd, sd)
    assert drawn[np.ix_(used, used)] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("path", [even_path, plausible_path, uneven_path])
def test_paths_reach_every_population_value(path: object) -> None:
    p, a = _sample(shift=0.05)
    values = np.linspace(0, 0.3, 13)
    mu = path(equal_width_cells(p, a.astype(float), 15), values)  # type: ignore[operator]
    assert np.abs(mu).sum(axis=1) == pytest.approx(values, abs=1e-9)


def test_smoothing_matrix_is_the_reflected_gaussian() -> None:
    cells, sigma = 64, 0.07
    place = (np.arange(cells) + 0.5) / cells
    direct = sum(
        np.exp(-0.5 * ((place[:, None] - image) / sigma) ** 2)
        for k in (-1, 0, 1)
        for image in (place + 2 * k, -place + 2 * k)
    ) / (sigma * np.sqrt(2 * np.pi) * cells)
    assert reflected_kernel(cells, sigma) == pytest.approx(direct, abs=1e-9)


def test_gathered_smooth_errors_stay_close_to_the_exact_ones() -> None:
    p, a = _sample(4000, 3, shift=0.03)
    assert smce_of_mass(smce_cells(p, a.astype(float)).gap[None, :])[0] == pytest.approx(metrics.smce(p, a), rel=0.02)
    mass = np.random.default_rng(0).standard_normal((6, 128)) / 300
    assert smece_of_mass(mass) == pytest.approx(fixed_points(mass), rel=0.01)


def test_random_groups_do_not_depend_on_the_chunks() -> None:
    whole = random_groups(0, 1000)
    assert np.array_equal(whole, np.concatenate([random_groups(0, 300), random_groups(300, 700)]))
    assert np.bincount(whole).min() > 5


def test_classwise_cells_leave_the_probabilities_alone_and_draw_calibrated_labels() -> None:
    p, y = ClassLaw(4, 1.0).draw(3000, np.random.default_rng(0))
    before = p.copy()
    cells = classwise_cells(p, y)
    assert np.array_equal(p, before)
    assert cells.ece() == pytest.approx(metrics.classwise_ece(p, y), abs=1e-12)
    assert cells.drawn.sum(axis=(1, 2)) == pytest.approx(3000)
    assert cells.drawn.mean(axis=0) == pytest.approx(cells.sum_p, abs=6.0)
    assert cells.group_residual.sum(axis=0) == pytest.approx(cells.sum_p - cells.sum_y, abs=1e-3)


def test_mean_of_the_classwise_law_at_zero_is_the_floor() -> None:
    p, y = ClassLaw(30, 1.0).draw(1500, np.random.default_rng(2))
    cells = classwise_cells(p, y)
    law = classwise_law(cells)
    assert law.values[0] == 0
    assert law.mean[0] == pytest.approx(cells.null_values().mean(), rel=0.02)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["ece", "adaece", "smce"]), st.integers(30, 400))
def test_interval_is_ordered_within_the_unit_interval_and_repeatable(seed: int, metric: str, samples: int) -> None:
    p, a = _sample(samples, seed)
    first, second = (interval(metric, p, a, seed=3, draws=200) for _ in range(2))
    assert 0 <= first.low <= first.high <= 1
    assert first == second


def test_wider_level_contains_the_narrower_interval() -> None:
    p, a = _sample(shift=0.08)
    for metric in ("ece", "adaece", "smce", "smece"):
        narrow, wide = (interval(metric, p, a, level=level, draws=400) for level in (0.8, 0.95))
        assert wide.low <= narrow.low <= narrow.high <= wide.high


def test_always_certain_and_right_is_bounded_by_the_rule_of_three() -> None:
    found = interval("ece", np.ones(100), np.ones(100))
    assert (found.low, found.high) == pytest.approx((0.0, 0.0295), abs=1e-3)


def test_every_interval_says_what_it_is_of() -> None:
    p, y = ClassLaw(3, 1.5).draw(400, np.random.default_rng(0))
    confidence, correct = metrics.top_label(p, y)
    losses = -np.log(p[np.arange(400), y])
    for metric in DESCRIPTIONS:
        found = interval(
            metric, confidence, correct, nll=losses, brier=losses, cells=classwise_cells(p, y, bins=10), bins=10
        )
        assert "population" in found.of or "expected" in found.of or "probability" in found.of
        assert "{" not in found.of


def test_what_is_missing_is_named() -> None:
    p, a = _sample(50)
    with pytest.raises(ValueError, match="cells"):
        interval("cece", p, a)
    with pytest.raises(ValueError, match="nll"):
        interval("nll", p, a)
    with pytest.raises(ValueError, match="choose one of"):
        interval("mce", p, a)


def test_real_logits_after_temperature_scaling() -> None:
    """The percentile bootstrap gives 1.08 to 1.77 %; the population value lies lower, by the bias."""
    import torch

    saved = torch.load(real_data("resnet50_cifar10_ce") / "test.pt", weights_only=True, map_location="cpu")
    logits, labels = saved.values() if isinstance(saved, dict) else saved
    p = torch.softmax(logits.double() / 2.4975, dim=1).numpy()
    confidence, correct = metrics.top_label(p, labels)
    found = interval("ece", confidence, correct)
    assert 0.005 < found.low < 0.0108
    assert 0.013 < found.high < 0.0177
