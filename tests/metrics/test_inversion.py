"""The test that intervals of calibration errors invert, and the residuals it supposes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from smart_core import metrics
from smart_core.metrics.cells import cell_sums, pooled_gap, standard_errors
from smart_core.metrics.inversion import SPENT, Candidates, Judge, inverted, judged, one_sided_at_zero, pearson_tails
from smart_core.metrics.top_label_errors import KINDS
from tests.metrics.simulated import LAWS

Vector = NDArray[np.float64]

EACH = SPENT * 0.05 / 2


@pytest.mark.parametrize("skewness", [-1.5, -0.2, 0.0, 0.4, 2.0])
@pytest.mark.parametrize("z", [-3.0, -0.5, 0.0, 1.0, 4.0])
def test_tails_are_scipys(z: float, skewness: float) -> None:
    below, above = pearson_tails(np.array([z]), np.array([skewness]))
    assert below[0] == pytest.approx(stats.pearson3.cdf(z, skewness), abs=2e-4)
    assert above[0] == pytest.approx(stats.pearson3.sf(z, skewness), abs=2e-4)


def test_tails_of_draws_are_those_of_their_law() -> None:
    draws = np.random.default_rng(0).gamma(4.0, size=(1, 200_000))
    found = judged(np.array([0.0]), draws, observed=8.0)
    assert found.above[0] == pytest.approx(stats.gamma.sf(8.0, 4.0), rel=0.03)
    assert found.below[0] + found.above[0] == pytest.approx(1)


def _normal(observed: float, sd: float = 1.0) -> Judge:
    """A statistic that is normal about t, whose path is t itself."""

    def judge(places: Vector) -> Candidates:
        below = stats.norm.cdf((observed - places) / sd)
        return Candidates(places, below, 1 - below, np.full(places.size, sd))

    return judge


@pytest.mark.parametrize("observed", [20.0, 31.7])
def test_far_from_zero_the_interval_is_the_two_sided_one(observed: float) -> None:
    low, high = inverted(_normal(observed), np.linspace(0, 60, 14), one_sided_at_zero(0.95))
    assert low == pytest.approx(observed - stats.norm.isf(EACH), abs=0.05)
    assert high == pytest.approx(observed + stats.norm.isf(EACH), abs=0.05)


@pytest.mark.parametrize(("observed", "kept"), [(stats.norm.isf(2 * EACH) - 0.05, True), (2.1, False)])
def test_zero_drops_out_by_the_upper_tail_alone(observed: float, kept: bool) -> None:
    low, _ = inverted(_normal(observed), np.linspace(0, 12, 14), one_sided_at_zero(0.95))
    assert (low == 0) is kept


def test_a_statistic_below_all_that_zero_allows_leaves_zero_alone() -> None:
    low, high = inverted(_normal(-9.0), np.linspace(0, 12, 14), one_sided_at_zero(0.95))
    assert low == 0
    assert 0 <= high < 0.5


@pytest.mark.parametrize("metric", KINDS)
def test_path_leads_from_no_error_past_the_observed_one(metric: str) -> None:
    law, samples = LAWS["strong"]
    p, a = law.draw(samples, np.random.default_rng(3))
    errors = KINDS[metric](p, a, 15)
    values = errors.population(errors.shrunk(np.linspace(errors.clear, -2, 40)))
    assert values[0] == pytest.approx(0, abs=1e-4)
    assert (np.diff(values) >= -1e-9).all()
    assert values[-1] > getattr(metrics, metric)(p, a)


@pytest.mark.parametrize("metric", KINDS)
@pytest.mark.parametrize("name", ["calibrated", "strong"])
def test_statistic_has_little_bias(metric: str, name: str) -> None:
    law, samples = LAWS[name]
    truth, generator = law.population(metric), np.random.default_rng(1)
    found, plain = [], []
    for _ in range(80):
        p, a = law.draw(samples, generator)
        found.append(KINDS[metric](p, a, 15).observed)
        plain.append(getattr(metrics, metric)(p, a))
    assert abs(np.mean(found) - truth) < 0.9 * np.std(found)
    if name == "calibrated":
        assert abs(np.mean(found)) < 0.5 * np.mean(plain)


def test_pooled_residuals_are_nearer_to_a_common_gap_and_leave_a_clear_pattern() -> None:
    generator = np.random.default_rng(2)
    p = generator.uniform(0.3, 0.95, 2000)
    index = np.minimum((15 * p).astype(np.int64), 14)
    flat = cell_sums(p, (generator.random(p.size) < p - 0.05).astype(float), index, 15)
    truth = 0.05 * flat.share
    pooled = pooled_gap(flat, standard_errors(flat))
    assert np.abs(pooled - truth).sum() < 0.5 * np.abs(flat.gap - truth).sum()

    signs = np.where(np.arange(15) % 2, 1, -1)
    wild = cell_sums(p, (generator.random(p.size) < p - 0.25 * signs[index]).astype(float), index, 15)
    used = wild.share > 0.02
    assert (np.sign(pooled_gap(wild, standard_errors(wild)))[used] == signs[used]).all()
    assert np.abs(pooled_gap(wild, standard_errors(wild))).sum() > 0.85 * np.abs(wild.gap).sum()
