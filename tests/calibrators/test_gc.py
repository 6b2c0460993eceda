"""GC against direct formulas in NumPy, planted groups, and real logits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smart_core.calibrators.gc import GC, mixture_nll
from smart_core.errors import CalibrationError
from smart_core.metrics import ece
from tests.calibrators.checks import (
    assert_proper_rows,
    assert_same_bits_after_saving,
    cifar10_resnet50,
)
from tests.calibrators.made_up import Sample, degenerate, draw_labels, network, softmax
from tests.calibrators.test_cts import best_common_temperature
from tests.calibrators.test_nll_curves import curves_of

DEGENERATE = degenerate()
FEW = {"partitions": 3, "steps": 30, "device": "cpu"}


def fit(sample: Sample, **changes: object) -> GC:
    return GC(**{**FEW, **changes}).fit(sample.logits, sample.labels, features=sample.features)


def groups_in_numpy(calibrator: GC, features: np.ndarray) -> np.ndarray:
    """(P, N) groups from the learned weights and the features as they are."""
    weight = calibrator.weight_.numpy().astype(np.float64)
    return np.einsum("pgd,nd->pgn", weight, features.astype(np.float64)).argmax(axis=1)


def test_hard_groups_have_their_own_temperature_scaling() -> None:
    sample = network(400, 6, seed=1)
    fitted = fit(sample)
    groups = groups_in_numpy(fitted, sample.features)
    for p in range(3):
        for g in range(2):
            inside = groups[p] == g
            assert inside.any()
            expected = best_common_temperature(sample.logits[inside], sample.labels[inside])
            assert float(fitted.temperatures_[p, g]) == pytest.approx(expected, rel=2e-3)


def test_probabilities_are_the_mean_over_partitions() -> None:
    sample, new = network(300, 5, seed=2), network(50, 5, seed=3)
    fitted = fit(sample)
    groups = groups_in_numpy(fitted, new.features)
    temperatures = np.take_along_axis(fitted.temperatures_.numpy(), groups, axis=1)
    expected = np.mean([softmax(new.logits / t[:, None]) for t in temperatures], axis=0)
    np.testing.assert_allclose(fitted.predict_proba(new.logits, features=new.features), expected, atol=1e-6)


@pytest.mark.parametrize("classes", [4, 90])
def test_training_loss_is_the_nll_of_the_soft_mixture(classes: int) -> None:
    sample = network(100, classes, seed=4)
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(2, 3, 8))
    temperatures = rng.uniform(0.5, 4, size=(2, 3))
    found = mixture_nll(
        torch.from_numpy(weight).float(),
        torch.from_numpy(-np.log(temperatures)).float().reshape(-1),
        torch.from_numpy(sample.features),
        curves_of(sample),
    )
    for p in range(2):
        shares = softmax(sample.features @ weight[p].T)
        mixed = sum(shares[:, [g]] * softmax(sample.logits / temperatures[p, g]) for g in range(3))
        expected = -np.log(mixed[np.arange(100), sample.labels]).mean()
        assert float(found[p]) == pytest.approx(expected, rel=1e-4)


def test_one_group_is_temperature_scaling() -> None:
    sample = network(300, 5, seed=5)
    fitted = fit(sample, groups=1)
    expected = best_common_temperature(sample.logits, sample.labels)
    np.testing.assert_allclose(fitted.temperatures_.numpy(), expected, rtol=1e-3)


def test_planted_groups_are_found() -> None:
    rng = np.random.default_rng(6)
    logits = (rng.normal(size=(4000, 5)) * 4).astype(np.float32)
    side = rng.integers(0, 2, size=4000)
    true = np.where(side == 1, 4.0, 1.0)
    labels = draw_labels(logits / true[:, None], rng)
    features = np.stack([side * 2.0 - 1.0, rng.normal(size=4000)], axis=1).astype(np.float32)
    fitted = GC(partitions=4, device="cpu").fit(logits, labels, features=features)
    np.testing.assert_allclose(np.sort(fitted.temperatures_.numpy(), axis=1), [[1.0, 4.0]] * 4, rtol=0.1)
    one = GC(partitions=4, groups=1, device="cpu").fit(logits, labels, features=features)
    exact = softmax(logits / true[:, None])

    def distance(calibrator: GC) -> float:
        return float(np.abs(calibrator.predict_proba(logits, features=features) - exact).mean())

    assert distance(fitted) < 0.2 * distance(one)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 1e-38, 1e-8, 1e-4, 1.0, 1e4]))
def test_top1_never_changes(seed: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    logits = (rng.normal(size=(40, 6)) * spread + rng.choice([0.0, 3.0, 1000.0])).astype(np.float32)
    q = TOP1.predict_proba(logits, features=(rng.normal(size=(40, 8)) * 5).astype(np.float32))
    assert np.array_equal(q.argmax(axis=1), logits.argmax(axis=1))


TOP1 = fit(network(200, 6, seed=7))


def test_the_seed_decides_everything() -> None:
    sample = network(200, 4, seed=8)
    assert torch.equal(fit(sample, seed=3).weight_, fit(sample, seed=3).weight_)
    assert not torch.equal(fit(sample, seed=3).weight_, fit(sample, seed=4).weight_)


def test_without_features_the_logits_serve_and_it_is_said() -> None:
    sample = network(200, 4, seed=9)
    alone = GC(**FEW).fit(sample.logits, sample.labels)
    given_logits = GC(**FEW).fit(sample.logits, sample.labels, features=sample.logits)
    assert any("logits in their place" in notice for notice in alone.notices_)
    assert given_logits.notices_ == []
    np.testing.assert_array_equal(
        alone.predict_proba(sample.logits), given_logits.predict_proba(sample.logits, features=sample.logits)
    )
    with pytest.raises(CalibrationError, match="features"):
        given_logits.predict_proba(sample.logits)


def test_features_with_nan_are_refused() -> None:
    sample = network(50, 3)
    features = sample.features.copy()
    features[4, 2] = np.nan
    with pytest.raises(CalibrationError, match="NaN"):
        GC(**FEW).fit(sample.logits, sample.labels, features=features)


def test_real_logits_reach_the_known_error() -> None:
    (z, y), (z_test, y_test) = cifar10_resnet50()
    q = GC(device="cpu").fit(z, y).predict_proba(z_test)
    confidence, prediction = q.max(dim=1)
    assert 0.0130 < ece(confidence, prediction == y_test.reshape(-1)) < 0.0140


@pytest.mark.parametrize("sample", DEGENERATE.values(), ids=DEGENERATE.keys())
def test_degenerate_sets_give_proper_rows(sample: Sample) -> None:
    q = fit(sample).predict_proba(sample.logits, features=sample.features)
    assert_proper_rows(q)
    assert np.array_equal(q.argmax(axis=1), sample.logits.argmax(axis=1))


def test_a_saved_calibrator_gives_the_same_bits() -> None:
    sample = network(100, 3)
    assert_same_bits_after_saving(fit(sample), sample)
