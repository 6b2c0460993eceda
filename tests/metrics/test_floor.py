"""Noise floor against labels drawn one by one."""

from __future__ import annotations

import numpy as np
import pytest

from smart_core import metrics
from smart_core.errors import CalibrationError
from smart_core.metrics import Samples, noise_floor
from tests.metrics.samples import classwise_cells
from tests.metrics.simulated import softmax


@pytest.mark.parametrize("metric", ["ece", "adaece", "mce", "smce", "smece"])
@pytest.mark.parametrize("shape", [(3, 1.5), (8, 0.4)])
def test_floor_is_the_metric_of_labels_drawn_from_the_confidences(metric: str, shape: tuple[float, float]) -> None:
    generator = np.random.default_rng(1)
    p = 0.1 + 0.9 * generator.beta(*shape, 1500)
    direct = np.array([getattr(metrics, metric)(p, generator.random(p.size) < p) for _ in range(200)])
    floor = noise_floor(metric, Samples(p), draws=1500)
    error = direct.std() / np.sqrt(direct.size)
    assert floor.mean == pytest.approx(direct.mean(), abs=4.5 * error + 0.01 * floor.mean)
    rounding = 1e-9  # the MCE of bins with few samples takes few values, the quantile among them
    assert (direct <= floor.q95 + rounding).mean() >= 0.9
    assert (direct < floor.q95 - rounding).mean() <= 0.99
    assert floor.draws == floor.values.size == 1500


def test_floor_of_ece_follows_the_half_normal_mean() -> None:
    """One bin in use, p = 1/2: E|mean of (p - a)| = sqrt(2 / pi) / (2 sqrt(N))."""
    floor = noise_floor("ece", Samples(np.full(4000, 0.5)), bins=2, draws=4000)
    assert floor.mean == pytest.approx(np.sqrt(2 / np.pi) / (2 * np.sqrt(4000)), rel=0.05)


def test_floor_is_repeatable_and_zero_for_certainties() -> None:
    p = Samples(np.random.default_rng(0).random(300))
    assert noise_floor("ece", p, seed=4) == noise_floor("ece", p, seed=4)
    assert noise_floor("ece", Samples([0.0, 1.0, 1.0])).q95 == 0


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match="cells"):
        noise_floor("cece", Samples([0.5]))
    with pytest.raises(ValueError, match="confidences"):
        noise_floor("ece", Samples())
    with pytest.raises(ValueError, match="choose one of"):
        noise_floor("nll", Samples([0.5]))


@pytest.mark.parametrize("metric", ["ece", "adaece", "smce", "smece"])
def test_a_model_that_is_certain_and_calibrated_has_no_noise(metric: str):
    floor = noise_floor(metric, Samples(np.ones(9)))
    assert floor.mean == 0.0
    assert floor.q95 == 0.0


@pytest.mark.parametrize(("classes", "samples"), [(2, 400), (4, 2000), (30, 500), (300, 800)])
def test_floor_of_the_classwise_error_is_that_of_labels_drawn_from_the_rows(classes: int, samples: int) -> None:
    generator = np.random.default_rng(classes)
    probs = softmax(2 * generator.standard_normal((samples, classes)))
    direct = []
    for _ in range(300):
        drawn = (generator.random(samples)[:, None] > probs.cumsum(axis=1)).sum(axis=1)
        direct.append(metrics.classwise_ece(probs, np.minimum(drawn, classes - 1)))
    floor = noise_floor("cece", Samples(cells=classwise_cells(probs, np.zeros(samples, dtype=int))))
    sd = float(np.std(direct))
    assert floor.mean == pytest.approx(np.mean(direct), abs=4.5 * sd / np.sqrt(300) + 0.005 * floor.mean)
    assert floor.q95 - floor.mean == pytest.approx(1.645 * sd, rel=0.25)
    assert np.quantile(floor.values, 0.95) == pytest.approx(floor.q95, rel=1e-3)


def test_floor_of_the_classwise_error_hardly_depends_on_the_seed() -> None:
    probs = softmax(2 * np.random.default_rng(0).standard_normal((2000, 20)))
    cells = [classwise_cells(probs, np.zeros(2000, dtype=int), seed=seed) for seed in range(8)]
    floors = [noise_floor("cece", Samples(cells=each)) for each in cells]
    assert np.std([floor.q95 for floor in floors]) < 0.01 * floors[0].q95


@pytest.mark.parametrize("wrong", [[0.5, 1.1], [-0.01, 0.5], [0.5, float("nan")]])
def test_confidences_that_are_none_are_refused(wrong: list[float]) -> None:
    with pytest.raises(CalibrationError, match="onfidence"):
        noise_floor("ece", Samples(wrong))
    assert noise_floor("ece", Samples([0.5, 1 + 5e-7])).draws == 1000
