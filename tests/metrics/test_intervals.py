"""Intervals: the parts they are built from against closed forms, and what a caller relies on."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binom, binomtest, kstest, norm, poisson, ttest_1samp

from smart_core import metrics
from smart_core.metrics.absolute import LARGEST_BIAS, absolute_estimate
from smart_core.metrics.bias_bound import absolute_bias_bound, absolute_rise
from smart_core.metrics.bracket import Bracket, Estimate
from smart_core.metrics.cells import correlated_normals, hypothetical_variance, joint_covariance
from smart_core.metrics.classwise_cells import classwise_cells, random_groups, random_uniforms
from smart_core.metrics.classwise_law import mean_absolute
from smart_core.metrics.difference import paired_difference
from smart_core.metrics.gathered import fixed_points, reflected_kernel, smce_cells, smce_of_mass, smece_of_mass
from smart_core.metrics.intervals import DESCRIPTIONS, interval
from smart_core.metrics.means import hall_inverse, hall_transform, mean_interval, mean_p_value, wilson_interval
from smart_core.metrics.top_label_errors import equal_mass_cells, equal_width_cells
from tests.conftest import real_data
from tests.metrics.simulated import ClassLaw, softmax


def _sample(samples: int = 2000, seed: int = 0, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    p = 0.2 + 0.75 * generator.beta(3, 1.5, samples)
    return p, generator.random(samples) < p - shift


@pytest.mark.parametrize("mu", [0.0, 0.3, 1.0, 2.5, 6.0])
def test_bias_of_an_absolute_value_lies_below_its_bound(mu: float) -> None:
    """E|mu + Z| - |mu| against the mean of the bound over draws of mu + Z, equal at mu = 0."""
    z = norm.ppf((np.arange(200_000) + 0.5) / 200_000)
    bias = float(np.abs(mu + z).mean()) - mu
    bound = float(np.mean([absolute_bias_bound(np.array([x]), np.ones(1)) for x in mu + z[::100]]))
    assert bias <= bound + 1e-3
    assert bound <= 2 / np.sqrt(2 * np.pi) + 1e-3
    if mu == 0:
        assert bound == pytest.approx(bias, rel=5e-3)
    if mu == 6:
        assert bound < 1e-3


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


def test_lower_end_leaves_out_zero_just_where_the_error_is_beyond_noise() -> None:
    for shift in (0.0, 0.02, 0.06):
        for seed in range(5):
            p, a = _sample(1000, seed, shift)
            floor = metrics.noise_floor("ece", p)
            found = interval("ece", p, a)
            if metrics.ece(p, a) > 1.1 * floor.q95:
                assert found.low > 0
            if metrics.ece(p, a) < 0.5 * floor.mean:
                assert found.low == 0


@pytest.mark.parametrize("z", [-2.0, 0.0, 0.7, 5.0])
def test_rise_of_an_absolute_value_by_noise_is_the_integral(z: float) -> None:
    by_quadrature = quad(lambda x: abs(z + x) * norm.pdf(x), -12, 12, points=[-z])[0] - abs(z)
    assert absolute_rise(np.array([z]))[0] == pytest.approx(by_quadrature, abs=1e-8)


def _bracket(below: float, above: float, sd: float) -> Bracket:
    noise = np.array([sd])
    return Bracket(Estimate(below, noise), Estimate(above, noise))


def test_bracket_of_one_point_is_the_two_sided_normal_interval_and_of_two_far_ones_the_one_sided() -> None:
    assert _bracket(1.0, 1.0, 0.5).interval() == pytest.approx((1 - 0.98, 1 + 0.98), abs=1e-3)
    assert _bracket(0.0, 9.0, 0.5).interval() == pytest.approx((-0.8224, 9.8224), abs=1e-3)
    assert _bracket(0.2, 0.7, 0.0).interval() == (0.2, 0.7)


@given(st.floats(-3, 3), st.floats(0, 3), st.floats(0.01, 2), st.floats(0.5, 0.999))
def test_p_value_of_a_bracket_is_the_level_at_which_zero_drops_out(
    below: float, gap: float, sd: float, level: float
) -> None:
    bracket = _bracket(below, below + gap, sd)
    low, high = bracket.interval(level)
    if bracket.p_value() < 1 - level - 1e-9:
        assert low > 0 or high < 0
    if bracket.p_value() > 1 - level + 1e-9:
        assert low <= 1e-9
        assert high >= -1e-9


def test_difference_of_brackets_shares_noise_and_encloses_the_difference() -> None:
    noise = np.array([0.3, -0.4])
    a = Bracket(Estimate(0.1, noise), Estimate(0.2, noise))
    b = Bracket(Estimate(0.05, noise, own=0.01), Estimate(0.15, noise, own=0.01))
    found = a - b
    assert (found.below.value, found.above.value) == pytest.approx((-0.05, 0.15))
    assert found.below.sd == pytest.approx(0.1)


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
    given_p = hypothetical_variance(sums, expected_gap) - 0.1**2 * sums.share + expected_gap**2
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
    whole = random_groups(0, 1000, 64)
    assert np.array_equal(whole, np.concatenate([random_groups(0, 300, 64), random_groups(300, 700, 64)]))
    assert np.bincount(whole).min() > 5


def test_numbers_drawn_for_positions_are_uniform_and_unrelated() -> None:
    u = random_uniforms(0, 20_000, seed=0)
    assert kstest(u, "uniform").pvalue > 1e-3
    for other in (random_uniforms(0, 20_000, seed=1), random_uniforms(1, 20_000, seed=0), random_groups(0, 20_000, 64)):
        assert abs(np.corrcoef(u, other)[0, 1]) < 0.03


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


@settings(max_examples=20)
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


def test_always_certain_and_right_is_bounded_by_about_the_rule_of_three() -> None:
    for certain in (1.0, 1 - 1e-7):
        for metric in ("ece", "adaece", "smce", "smece"):
            found = interval(metric, np.full(100, certain), np.ones(100))
            assert found.low == 0.0
            assert 0.02 < found.high < 0.04, metric


def test_always_certain_and_wrong_leaves_room_for_the_right_answers_not_seen() -> None:
    for metric in ("ece", "adaece", "smce", "smece"):
        found = interval(metric, np.ones(100), np.zeros(100))
        assert found.high == 1.0
        assert 0.95 < found.low < 0.98, metric


def test_a_constant_confidence_that_is_exactly_right_does_not_leave_out_zero() -> None:
    for metric in ("ece", "adaece", "smce", "smece"):
        found = interval(metric, np.full(1000, 0.99), np.arange(1000) >= 10)
        assert found.low == 0.0
        assert found.high > 0.005, metric


BOUNDED = {
    "ece": 1.0,
    "adaece": 1.0,
    "smce": 1.0,
    "smece": 1.0,
    "cece": 1.0,
    "nll": 709.0,
    "brier": 2.0,
    "accuracy": 1.0,
}


@st.composite
def degenerate_sets(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """One to forty samples: constant, of two values, tied, certain; all right, all wrong or mixed."""
    samples = draw(st.sampled_from([1, 2, 3, 5, 40]))
    value = st.sampled_from([0.0, 1e-9, 0.1, 0.5, 0.99, 1 - 1e-7, 1.0]) | st.floats(0, 1, allow_subnormal=False)
    values = draw(st.lists(value, min_size=1, max_size=draw(st.sampled_from([1, 2, 40]))))
    p = np.array(draw(st.lists(st.sampled_from(values), min_size=samples, max_size=samples)))
    kind = draw(st.sampled_from(["right", "wrong", "mixed"]))
    if kind == "mixed":
        return p, np.array(draw(st.lists(st.booleans(), min_size=samples, max_size=samples)))
    return p, np.full(samples, kind == "right")


def _two_classes(p: np.ndarray, a: np.ndarray) -> SimpleNamespace:
    """Class 0 is predicted with confidence p; class 1 is the label where that is wrong."""
    rows, labels = np.column_stack([p, 1 - p]), np.where(a, 0, 1)
    label = np.maximum(rows[np.arange(p.size), labels], 1e-300)
    losses = {"nll": -np.log(label), "brier": 2 * (1 - label) ** 2}
    return SimpleNamespace(confidence=p, correct=a, cells=classwise_cells(rows, labels), **losses)


def _plug_in(metric: str, one: SimpleNamespace) -> float:
    if metric == "cece":
        return float(one.cells.ece())
    if metric in ("nll", "brier"):
        return float(np.mean(getattr(one, metric)))
    return float(
        np.mean(one.correct) if metric == "accuracy" else getattr(metrics, metric)(one.confidence, one.correct)
    )


@settings(max_examples=60)
@given(degenerate_sets())
@example((np.array([0.0, 1e-9]), np.array([True, True])))
@example((np.array([1.0, 1.0 - 1e-9]), np.array([True, True])))
@example((np.array([0.0, 0.03125]), np.array([False, False])))
def test_every_interval_of_a_degenerate_set_is_ordered_finite_and_holds_the_plug_in(
    pair: tuple[np.ndarray, np.ndarray],
) -> None:
    one = _two_classes(*pair)
    for metric, largest in BOUNDED.items():
        found = interval(metric, one.confidence, one.correct, nll=one.nll, brier=one.brier, cells=one.cells, draws=100)
        value = _plug_in(metric, one)
        assert 0 <= found.low <= value + 1e-6, metric
        assert value - 1e-6 <= found.high <= largest, metric
        if len(one.confidence) <= 2:
            assert found.high - found.low > 0.05, metric  # so few samples say little


@settings(max_examples=40)
@given(degenerate_sets(), st.floats(0, 1))
def test_every_difference_of_degenerate_sets_is_ordered_and_finite(
    pair: tuple[np.ndarray, np.ndarray], share: float
) -> None:
    p, a = pair
    one, other = _two_classes(p, a), _two_classes(share * p + (1 - share) * 0.5, a)
    for metric, largest in BOUNDED.items():
        found = paired_difference(metric, one, other, draws=100)
        assert -largest <= found.low <= found.mean + 1e-6, metric
        assert found.mean - 1e-6 <= found.high <= largest, metric
        assert 0 <= found.p_value <= 1
        expected = _plug_in(metric, one) - _plug_in(metric, other)
        assert found.mean == pytest.approx(expected, abs=1e-5), metric


def test_one_loss_says_nothing_and_equal_losses_leave_room_for_few_others() -> None:
    assert mean_interval(np.array([0.3]), bounds=(0, 2)) == (0, 2)
    low, high = mean_interval(np.full(100, 0.5), bounds=(0, 2))
    assert (low, high) == pytest.approx((0.5 - 0.0295 * 0.5, 0.5 + 0.0295 * 1.5), abs=1e-3)
    assert mean_p_value(np.array([0.3]), (-2, 2)) == 1.0
    assert mean_p_value(np.full(3, 0.5), (-2, 2)) == pytest.approx(0.8**3)


def test_every_interval_says_what_it_is_of() -> None:
    z, y = ClassLaw(3).draw(400, np.random.default_rng(0))
    p = softmax(1.5 * z)
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
    """The percentile bootstrap gives 1.08 to 1.77 %; the population value may lie lower, by the bias."""
    import torch

    saved = torch.load(real_data("resnet50_cifar10_ce") / "test.pt", weights_only=True, map_location="cpu")
    logits, labels = saved.values() if isinstance(saved, dict) else saved
    p = torch.softmax(logits.double() / 2.4975, dim=1).numpy()
    confidence, correct = metrics.top_label(p, labels)
    found = interval("ece", confidence, correct)
    assert 0.005 < found.low < 0.0108
    assert 0.013 < found.high < 0.0185  # the estimate of a cell may be too low, too


@pytest.mark.parametrize("samples", [1, 5, 12])
def test_a_loss_beyond_its_bound_is_held_by_its_interval(samples: int) -> None:
    """Logits of some thousands give an NLL of thousands, more than float64's log of 0."""
    found = interval("nll", [], [], nll=np.full(samples, 2305.0))
    assert found.low <= 2305 <= found.high


def test_one_wrong_of_thirty_at_nine_tenths_is_no_evidence() -> None:
    """A calibrated model shows 1 wrong of 30 in 14 % of all sets, and fewer than 2 in 18 %."""
    right = np.arange(30) > 0
    for metric in ("ece", "adaece", "smce", "smece"):
        assert interval(metric, np.full(30, 0.9), right).low == 0


@pytest.mark.parametrize("metric", ["ece", "adaece", "smce", "smece", "cece"])
def test_a_floor_that_is_known_already_changes_nothing(metric: str) -> None:
    one = _two_classes(*_sample(600, 1, shift=0.05))
    floor = metrics.noise_floor(metric, one.confidence, cells=one.cells)
    found = [interval(metric, one.confidence, one.correct, cells=one.cells, floor=known) for known in (None, floor)]
    assert found[0] == found[1]
