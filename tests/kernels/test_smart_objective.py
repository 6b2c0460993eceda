"""SMART's compiled objective and gradient against autograd in float64, and whole fits against PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("numba")

import smart_core as sc
from smart_core import kernels
from smart_core.calibrators.smart import SMART, compiled_samples, temperature_map
from smart_core.fitting.objectives import OBJECTIVES
from smart_core.fitting.profile import DirectProfile, TableProfile, build_profile
from smart_core.kernels.smart_objective import SmartGradient
from smart_core.metrics import charbonnier_soft_ece, top_label
from tests.calibrators.checks import CIFAR10, cifar10
from tests.calibrators.problems import over_confident


def widened(profile):
    """The same profile in float64."""
    if isinstance(profile, DirectProfile):
        return DirectProfile(
            profile.d.double(), profile.label_gap.double(), profile.mean_gap.double(), profile.correct.double()
        )
    assert isinstance(profile, TableProfile)
    return TableProfile(
        profile.classes,
        profile.table.double(),
        profile.label_gap.double(),
        profile.mean_gap.double(),
        profile.correct.double(),
        profile.rows,
    )


@pytest.mark.parametrize(
    ("sigma", "delta", "bins"), [(0.05, 1e-3, 15), (0.002, 1.0, 15), (1.0, 1e-8, 1), (0.1, 0.1, 40)]
)
@pytest.mark.parametrize("count", [1, 255, 256, 700])
@pytest.mark.parametrize("classes", [3, 90])
def test_value_and_gradient_are_those_of_autograd(classes: int, count: int, sigma: float, delta: float, bins: int):
    problem = over_confident(count, classes, seed=count)
    logits, labels = torch.from_numpy(problem.logits), torch.from_numpy(problem.labels)
    profile = build_profile(logits, labels)
    generator = torch.Generator().manual_seed(count)
    x = torch.randn(count, generator=generator)
    theta = torch.randn(3 * 7 + 1, generator=generator)
    value, gradient = SmartGradient(compiled_samples(x, profile), sigma, delta, bins)(theta)
    leaf = theta.double().requires_grad_()
    loss = OBJECTIVES["charbonnier"].bind(sigma=sigma, delta=delta, bins=bins)
    expected = loss(widened(profile), 1.0 / temperature_map(leaf, (1, 7, 1), x.double().unsqueeze(1)))
    (slope,) = torch.autograd.grad(expected, leaf)
    assert value == pytest.approx(float(expected.detach()), rel=1e-4, abs=1e-6)
    torch.testing.assert_close(gradient.double(), slope, rtol=5e-3, atol=1e-4 * float(slope.abs().max()) + 1e-7)


def test_gradient_is_the_slope_of_the_value():
    """Central differences of the compiled value itself, along random directions."""
    problem = over_confident(600, 5, seed=1)
    profile = build_profile(torch.from_numpy(problem.logits), torch.from_numpy(problem.labels))
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(600, generator=generator)
    gradient = SmartGradient(compiled_samples(x, profile), 0.1, 0.05, 15)
    theta = torch.randn(49, generator=generator) * 0.5
    _, slope = gradient(theta)
    for _ in range(5):
        direction = torch.randn(49, generator=generator)
        step = 2e-3
        rise = (gradient(theta + step * direction)[0] - gradient(theta - step * direction)[0]) / (2 * step)
        assert rise == pytest.approx(float(slope @ direction), rel=0.02, abs=2e-4)


def objective(calibrator: SMART, logits: np.ndarray, labels: np.ndarray) -> float:
    return charbonnier_soft_ece(*top_label(calibrator.predict_proba(logits), labels))


@pytest.mark.parametrize("classes", [6, pytest.param(150, marks=pytest.mark.long)])
def test_a_whole_fit_is_pytorchs(classes: int, monkeypatch: pytest.MonkeyPatch):
    problem = over_confident(1500, classes, seed=classes)
    compiled = SMART(epochs=500, patience=None).fit(problem.logits, problem.labels, trace=True)
    monkeypatch.setattr(kernels, "enabled", False)
    plain = SMART(epochs=500, patience=None).fit(problem.logits, problem.labels, trace=True)
    first, second = compiled.trace_, plain.trace_
    assert set(first.values) == set(second.values)
    for name, epochs in (("objective", 50), ("nll", 50), ("gradient_norm", 20)):  # paths part slowly, by rounding
        close = first[name][:epochs], second[name][:epochs]
        np.testing.assert_allclose(*close, rtol=1e-3, atol=2e-6, err_msg=name)
    # hundreds of steps on, rounding has led them to different ends, which differ from processor to processor by a few
    # hundredths of what training takes off the objective
    reached, by_pytorch = (objective(one, problem.logits, problem.labels) for one in (compiled, plain))
    assert reached <= by_pytorch + 0.1 * (second["objective"][0] - by_pytorch)


@pytest.mark.parametrize("which", CIFAR10)
def test_real_logits_give_the_same_figures_either_way(which: str, monkeypatch: pytest.MonkeyPatch):
    data = cifar10(which)
    values = []
    for enabled in (True, False):
        monkeypatch.setattr(kernels, "enabled", enabled)
        smart = SMART(epochs=150).fit(data.validation.logits, data.validation.labels)
        judged = sc.evaluate(smart, data.test)
        values.append([judged.metric(name) for name in ("ece", "nll", "brier")])
    np.testing.assert_allclose(values[0], values[1], atol=1e-4)


@pytest.mark.parametrize(
    "settings", [{"layers": 2}, {"objective": "nll"}, {"indicator": "all_logits"}, {"batch_size": 64}]
)
def test_other_settings_are_trained_by_pytorch(settings: dict[str, object], monkeypatch: pytest.MonkeyPatch):
    def never(*_: object) -> None:
        raise AssertionError("the compiled loops do not know this")

    monkeypatch.setattr(SmartGradient, "__call__", never)
    problem = over_confident(200, 5, seed=3)
    SMART(epochs=2, **settings).fit(problem.logits, problem.labels)
    with pytest.raises(AssertionError):
        SMART(epochs=2).fit(problem.logits, problem.labels)


def test_without_numba_everything_still_runs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kernels, "installed", lambda: False)
    problem = over_confident(200, 70, seed=4)
    rows = SMART(epochs=5).fit(problem.logits, problem.labels).predict_proba(problem.logits)
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, atol=1e-5)
    assert not kernels.usable(torch.zeros(2))


def test_only_float32_on_the_cpu_is_taken():
    assert kernels.usable(torch.zeros(2), torch.zeros(2, dtype=torch.int64))
    assert not kernels.usable(torch.zeros(2, dtype=torch.float64))
    assert not kernels.usable(torch.zeros(2, device="meta"))
