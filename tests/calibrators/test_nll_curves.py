"""Tabulated NLL curves against the softmax itself and scipy's minimiser."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from smart_core.calibrators.gc import NllCurves
from smart_core.fitting.profile import build_profile
from smart_core.progress import Run
from smart_core.types import Logits
from tests.calibrators.made_up import Sample, network, softmax
from tests.calibrators.test_cts import best_common_temperature


def curves_of(sample: Sample) -> NllCurves:
    logits = Logits(torch.from_numpy(sample.logits))
    return NllCurves.of(build_profile(logits, torch.from_numpy(sample.labels)), Run())


@pytest.mark.parametrize("classes", [3, 100])
def test_curves_are_the_nll_at_any_temperature(classes: int) -> None:
    sample = network(120, classes, seed=1)
    temperatures = np.geomspace(0.1, 19.0, 23)
    found = curves_of(sample).at(torch.from_numpy(-np.log(temperatures)).float()).numpy()
    rows = np.arange(120)
    for number, t in enumerate(temperatures):
        exact = -np.log(softmax(sample.logits.astype(np.float64) / t)[rows, sample.labels])
        np.testing.assert_allclose(found[number], exact, rtol=2e-4, atol=2e-4)


def test_gradient_is_that_of_finite_differences() -> None:
    curves = curves_of(network(80, 5, seed=2))
    u = torch.tensor([-0.7, 0.13, 0.9], requires_grad=True)
    (gradient,) = torch.autograd.grad(curves.at(u).mean(), u)
    wide = NllCurves(curves.value.double(), curves.slope.double())
    for number in range(3):
        step = torch.zeros(3, dtype=torch.float64)
        step[number] = 1e-5
        base = u.detach().double()
        difference = (wide.at(base + step).mean() - wide.at(base - step).mean()) / 2e-5
        assert float(gradient[number]) == pytest.approx(float(difference), rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("classes", [2, 10, 200])
def test_best_temperature_of_each_group_is_scipys(classes: int) -> None:
    sample = network(300, classes, seed=classes)
    rng = np.random.default_rng(0)
    shares = np.array([[1.0], [0.5], [0.2]])
    members = (rng.uniform(size=(3, 300)) < shares).astype(np.float32)
    found = curves_of(sample).best_temperatures(torch.from_numpy(members)).numpy()
    for row, t in zip(members > 0, found, strict=True):
        assert t == pytest.approx(best_common_temperature(sample.logits[row], sample.labels[row]), rel=1e-3)


def test_groups_without_an_optimum() -> None:
    sample = network(60, 4, seed=3)
    right = Sample(sample.logits, sample.logits.argmax(axis=1), sample.features, sample.weight, sample.bias)
    wrong = Sample(sample.logits, sample.logits.argmin(axis=1), sample.features, sample.weight, sample.bias)
    everyone, nobody = torch.ones(1, 60), torch.zeros(1, 60)
    assert float(curves_of(right).best_temperatures(everyone)) == pytest.approx(0.05, rel=1e-6)
    assert float(curves_of(wrong).best_temperatures(everyone)) == pytest.approx(20.0, rel=1e-6)
    assert float(curves_of(sample).best_temperatures(nobody)) == 1.0
