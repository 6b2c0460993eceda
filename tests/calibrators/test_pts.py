"""Parameterised temperature scaling: its inputs, its clamps, and what fast training must reach."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import smart_core as sc
from smart_core.calibrators.pts import PTS, absolute_temperature
from tests.calibrators.problems import over_confident
from tests.conftest import real_data


def mse(rows: np.ndarray, labels: np.ndarray) -> float:
    one_hot = np.eye(rows.shape[1])[labels]
    return float(((rows - one_hot) ** 2).mean())


def test_inputs_are_the_ten_largest_in_order_and_clipped():
    logits = torch.tensor([[300.0, -300.0, *np.arange(20.0)]])
    read = PTS()._inputs(logits)
    np.testing.assert_array_equal(read, [[100.0, 19, 18, 17, 16, 15, 14, 13, 12, 11]])
    assert PTS()._inputs(logits[:, :4]).shape == (1, 4)


def test_temperature_is_positive_even_where_the_network_says_zero():
    theta = torch.zeros(5 * 3 + 5 + 25 + 5 + 5 + 1)
    temperature = absolute_temperature(theta, (3, 5, 5, 1), torch.randn(4, 3))
    assert (temperature == 1e-12).all()


def test_fast_training_beats_temperature_scaling_at_its_own_objective():
    problem = over_confident(800, 12, seed=1)
    pts = PTS().fit(problem.logits, problem.labels)
    ts = sc.TS(objective="mse").fit(problem.logits, problem.labels)
    assert mse(pts.predict_proba(problem.logits), problem.labels) < mse(
        ts.predict_proba(problem.logits), problem.labels
    )


def test_the_original_mode_takes_the_published_number_of_steps():
    schedule = PTS(mode="original")._schedule(2500)
    assert schedule.batch_size == 1000
    assert schedule.epochs * 3 >= 100_000 > (schedule.epochs - 1) * 3


def test_real_logits_are_repaired_about_as_published():
    folder = real_data("resnet50_cifar10_ce")
    data = sc.load(val=folder / "val.pt", test=folder / "test.pt")
    values = [
        sc.evaluate(PTS(seed=seed).fit(data.validation.logits, data.validation.labels), data.test).metric("ece")
        for seed in range(3)
    ]
    assert 0.0055 < np.mean(values) < 0.0135  # independent runs: 0.59 to 1.32%


ORIGINAL_NLL = {"resnet50_cifar10_ce": 0.1970, "cifar10_resnet20_test.npz": 0.2578,
                "netcal_wideresnet-16-4-cifar-100.npz": 0.9217}  # fmt: skip
"""Test NLL of `mode="original"`, which takes minutes: the mean of two seeds, and one seed of each of the others."""


@pytest.mark.parametrize("name", list(ORIGINAL_NLL))
def test_fast_training_does_not_overfit(name: str):
    path = real_data(name)
    data = sc.load(val=path / "val.pt", test=path / "test.pt") if path.is_dir() else sc.load(path)
    fits = [PTS(seed=seed).fit(data.validation.logits, data.validation.labels) for seed in range(3)]
    found = [sc.evaluate(fit, data.test, classwise=False).metric("nll") for fit in fits]
    assert np.mean(found) < 1.02 * ORIGINAL_NLL[name]
    assert max(found) < 1.04 * ORIGINAL_NLL[name]


def test_seeds_differ():
    problem = over_confident(300, 12, seed=2)
    first, second = (PTS(seed=seed).fit(problem.logits, problem.labels) for seed in (0, 1))
    assert not np.allclose(first.temperatures(problem.logits), second.temperatures(problem.logits), rtol=1e-3)


@pytest.mark.parametrize("objective", ["nll", "charbonnier"])
def test_other_objectives_train(objective: str):
    problem = over_confident(300, 12, seed=3)
    pts = PTS(objective=objective).fit(problem.logits, problem.labels)
    assert np.isfinite(pts.temperatures(problem.logits)).all()
