"""Bootstrap against resampling by hand."""

from __future__ import annotations

import numpy as np
import pytest

from smart_core import metrics
from smart_core.metrics.bootstrap import bootstrap, bootstrap_reliability_band


def _sample(samples: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    p = generator.beta(3, 1, samples)
    return p, generator.random(samples) < p**1.5


@pytest.mark.parametrize("metric", ["ece", "adaece", "mce", "smce", "smece", "accuracy"])
def test_named_statistics_are_distributed_like_the_metric_on_resamples(metric: str) -> None:
    p, a = _sample(600)
    function = (lambda q, b: b.mean()) if metric == "accuracy" else getattr(metrics, metric)
    by_hand = bootstrap(function, p, a, resamples=300, seed=1)
    fast = bootstrap(metric, p, a, resamples=1500, seed=2)
    error = by_hand.std() / np.sqrt(300)
    assert fast.mean() == pytest.approx(by_hand.mean(), abs=4.5 * error + 0.01 * by_hand.mean())
    assert fast.std() == pytest.approx(by_hand.std(), rel=0.2)


def test_a_resample_is_drawn_with_replacement_and_repeatable() -> None:
    p, a = _sample(200)
    seen = bootstrap(lambda q, b: float(np.unique(q).size), p, a, resamples=200)
    assert seen.mean() == pytest.approx(200 * (1 - np.exp(-1)), rel=0.02)
    assert np.array_equal(bootstrap("ece", p, a, seed=3), bootstrap("ece", p, a, seed=3))


def test_mean_of_losses() -> None:
    p, a = _sample(500)
    losses = np.random.default_rng(1).exponential(size=500)
    values = bootstrap("mean", p, a, losses=losses, resamples=2000)
    assert values.mean() == pytest.approx(losses.mean(), abs=0.01)
    assert values.std() == pytest.approx(losses.std() / np.sqrt(500), rel=0.1)


def test_reliability_band_holds_the_accuracy_and_stays_open_without_misses() -> None:
    p = np.repeat([0.5, 0.95], [400, 20])
    a = np.concatenate([np.arange(400) % 2, np.ones(20)])
    band = bootstrap_reliability_band(p, a, bins=10)
    half, top = 4, 9
    assert band.low[half] == pytest.approx(0.5 - 1.96 * 0.025, abs=0.006)
    assert band.high[half] == pytest.approx(0.5 + 1.96 * 0.025, abs=0.006)
    assert band.low[top] < 0.95
    assert np.isnan(band.low[0])


def test_unknown_statistic_is_refused() -> None:
    with pytest.raises(ValueError, match="no bootstrap"):
        bootstrap("auc", [0.5], [1])
