"""Noise floor against labels drawn one by one."""

from __future__ import annotations

import numpy as np
import pytest

from smart_core import metrics
from smart_core.metrics.floor import Floor, floor_pvalue, is_beyond_noise, noise_floor


@pytest.mark.parametrize("metric", ["ece", "adaece", "mce", "smce", "smece"])
@pytest.mark.parametrize("shape", [(3, 1.5), (8, 0.4)])
def test_floor_is_the_metric_of_labels_drawn_from_the_confidences(metric: str, shape: tuple[float, float]) -> None:
    generator = np.random.default_rng(1)
    p = 0.1 + 0.9 * generator.beta(*shape, 1500)
    direct = np.array([getattr(metrics, metric)(p, generator.random(p.size) < p) for _ in range(200)])
    floor = noise_floor(metric, p, draws=1500)
    error = direct.std() / np.sqrt(direct.size)
    assert floor.mean == pytest.approx(direct.mean(), abs=4.5 * error + 0.01 * floor.mean)
    rounding = 1e-9  # the MCE of bins with few samples takes few values, the quantile among them
    assert (direct <= floor.q95 + rounding).mean() >= 0.9
    assert (direct < floor.q95 - rounding).mean() <= 0.99
    assert floor.draws == floor.values.size == 1500


def test_floor_of_ece_follows_the_half_normal_mean() -> None:
    """One bin, p = 1/2: E|mean of (p - a)| = sqrt(2 / pi) / (2 sqrt(N))."""
    floor = noise_floor("ece", np.full(4000, 0.5), bins=1, draws=4000)
    assert floor.mean == pytest.approx(np.sqrt(2 / np.pi) / (2 * np.sqrt(4000)), rel=0.05)


def test_floor_is_repeatable_and_zero_for_certainties() -> None:
    p = np.random.default_rng(0).random(300)
    assert noise_floor("ece", p, seed=4) == noise_floor("ece", p, seed=4)
    assert noise_floor("ece", np.array([0.0, 1.0, 1.0])).q95 == 0


def test_verdict_helpers() -> None:
    floor = Floor(0.2, 0.3, 4, np.array([0.1, 0.15, 0.2, 0.35]))
    assert floor_pvalue(0.2, floor) == pytest.approx(3 / 5)
    assert is_beyond_noise(0.31, floor)
    assert not is_beyond_noise(0.3, floor)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match="cells"):
        noise_floor("cece")
    with pytest.raises(ValueError, match="confidences"):
        noise_floor("ece")
    with pytest.raises(ValueError, match="choose one of"):
        noise_floor("nll", [0.5])


@pytest.mark.parametrize("metric", ["ece", "adaece", "smce", "smece"])
def test_a_model_that_is_certain_and_calibrated_has_no_noise(metric: str):
    floor = noise_floor(metric, np.ones(9))
    assert floor.mean == 0.0
    assert floor.q95 == 0.0
