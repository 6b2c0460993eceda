"""ProCal against scikit-learn's neighbours and a plain sum of Gaussians."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.neighbors import NearestNeighbors

from smart_core import kernels
from smart_core.calibrators import neighbours as neighbours_module
from smart_core.calibrators.neighbours import nearest_squares, unit_rows
from smart_core.calibrators.procal import Density, ProCal, proximity
from smart_core.metrics import ece
from tests.calibrators.checks import (
    assert_proper_rows,
    assert_same_bits_after_saving,
    cifar10_resnet50,
)
from tests.calibrators.made_up import Sample, degenerate, network, softmax
from tests.conftest import real_data

DEGENERATE = degenerate()
Wide = NDArray[np.float64]


def fit(sample: Sample, neighbours: int = 10) -> ProCal:
    calibrator = ProCal(neighbours=neighbours, device="cpu")
    return calibrator.fit(sample.logits, sample.labels, features=sample.features)


def normalised(features: NDArray[np.floating]) -> Wide:
    wide = features.astype(np.float64)
    return wide / np.linalg.norm(wide, axis=1, keepdims=True)


def proximity_of(queries: Wide, reference: Wide, neighbours: int, *, own: bool) -> Wide:
    """By scikit-learn; `own` drops the first neighbour, the query itself."""
    search = NearestNeighbors(algorithm="brute").fit(reference)
    distance, _ = search.kneighbors(queries, n_neighbors=neighbours + own)
    return np.exp(-(distance[:, int(own) :] ** 2)).mean(axis=1)


def kernel_density(queries: Wide, points: Wide) -> Wide:
    """Product of Gaussians, bandwidth 1.06 s n^(-1/6), one point after another."""
    h = 1.06 * points.std(axis=0) * len(points) ** (-1 / 6)
    total = np.zeros(len(queries))
    for point in points:
        total += norm.pdf(queries[:, 0], point[0], h[0]) * norm.pdf(queries[:, 1], point[1], h[1])
    return total / len(points)


def positive_network(count: int, seed: int) -> Sample:
    """A network without all-zero feature rows, which have no direction."""
    sample = network(count, 4, width=12, seed=seed)
    assert (np.abs(sample.features).max(axis=1) > 0).all()
    return sample


def test_confidence_is_the_density_ratio() -> None:
    seen, new = positive_network(300, 1), positive_network(60, 1)
    new = Sample(new.logits, new.labels, new.features + 0.01, new.weight, new.bias)
    reference = normalised(seen.features)
    own = proximity_of(reference, reference, 10, own=True)
    near = proximity_of(normalised(new.features), reference, 10, own=False)
    q, q_new = softmax(seen.logits), softmax(new.logits)
    hit = q.argmax(axis=1) == seen.labels
    points = np.stack([q.max(axis=1), own], axis=1)
    queries = np.stack([q_new.max(axis=1), near], axis=1)
    for_hit, for_miss = kernel_density(queries, points[hit]), kernel_density(queries, points[~hit])
    ratio = for_hit / (for_hit + for_miss * (~hit).sum() / hit.sum())
    found = fit(seen).predict_proba(new.logits, features=new.features)
    prediction = q_new.argmax(axis=1)
    np.testing.assert_allclose(found[np.arange(60), prediction], np.maximum(ratio, 0.25), atol=2e-4)


def test_other_classes_keep_their_proportions() -> None:
    sample = positive_network(300, 2)
    found = fit(sample).predict_proba(sample.logits, features=sample.features)
    old = softmax(sample.logits)
    rows, top = np.arange(300), old.argmax(axis=1)
    others = np.argsort(old, axis=1)[:, :-1]
    confidence = found[rows, top]
    free = confidence > 0.55  # below, a share may be held under the prediction's
    share = np.take_along_axis(found, others, axis=1) / (1 - confidence)[:, None]
    expected = np.take_along_axis(old, others, axis=1) / (1 - old[rows, top])[:, None]
    assert free.sum() > 50
    np.testing.assert_allclose(share[free], expected[free], atol=2e-3)


@pytest.mark.parametrize("neighbours", [1, 10, 39, 500])
def test_proximity_is_scikit_learns(neighbours: int) -> None:
    rng = np.random.default_rng(3)
    reference, queries = normalised(rng.normal(size=(40, 6))), normalised(rng.normal(size=(25, 6)))
    found = proximity(torch.from_numpy(queries).float(), torch.from_numpy(reference).float(), neighbours)
    expected = proximity_of(queries, reference, min(neighbours, 39), own=False)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


def test_a_validation_sample_does_not_count_itself() -> None:
    sample = positive_network(200, 4)
    reference = torch.from_numpy(normalised(sample.features)).float()
    found = proximity(reference, reference, 10)
    wide = normalised(sample.features)
    np.testing.assert_allclose(found.numpy(), proximity_of(wide, wide, 10, own=True), atol=2e-6)
    alone = torch.cat([proximity(row, reference, 10) for row in reference.split(1)])
    np.testing.assert_allclose(alone.numpy(), found.numpy(), atol=2e-6)


def test_a_twin_counts_but_the_sample_itself_does_not() -> None:
    reference = torch.eye(3).repeat_interleave(2, dim=0)  # every row twice
    found = proximity(reference, reference, 2)
    np.testing.assert_allclose(found.numpy(), (1.0 + np.exp(-2.0)) / 2, rtol=1e-6)


@pytest.mark.parametrize("width", [0.3, 1e-3, 1e-6])
def test_compiled_densities_are_those_of_pytorch(width: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    points = torch.from_numpy(rng.random((300, 2))).float()
    queries = torch.cat([points[:50].double() + 1e-7, torch.from_numpy(rng.random((50, 2)))])
    density = Density(points, torch.tensor([width, 0.1]))
    found = density.log_mass(queries)
    monkeypatch.setattr("smart_core.kernels.enabled", False)
    np.testing.assert_allclose(found, density.log_mass(queries), rtol=1e-6, atol=1e-6)


def test_unit_rows_of_huge_tiny_and_zero_values() -> None:
    rows = unit_rows(torch.tensor([[3e30, 4e30], [3e-30, 4e-30], [0.0, 0.0]]))
    np.testing.assert_allclose(rows.numpy(), [[0.6, 0.8], [0.6, 0.8], [0.0, 0.0]], rtol=1e-6)


def test_density_in_log_space_is_scipys_and_survives_far_away() -> None:
    rng = np.random.default_rng(5)
    points, queries = rng.uniform(size=(50, 2)), rng.uniform(size=(20, 2))
    tensor = torch.from_numpy(points).float()
    density = Density(tensor, Density.bandwidth(tensor, tensor))
    found = density.log_mass(torch.from_numpy(queries).float()).numpy() - np.log(2 * np.pi) - np.log(50)
    np.testing.assert_allclose(found, np.log(kernel_density(queries, points)), atol=1e-4)
    narrow = Density(torch.full((3, 2), 0.5), torch.full((2,), 1e-6))
    assert bool(torch.isfinite(narrow.log_mass(torch.tensor([[0.0, 1.0]]))).all())


def test_crowding_alone_can_tell_hits_from_misses() -> None:
    rng = np.random.default_rng(6)
    count = 2000
    crowded = rng.uniform(size=count) < 0.5
    directions = normalised(rng.normal(size=(count, 16)))
    features = np.where(crowded[:, None], np.eye(16)[0] + 0.05 * directions, directions).astype(np.float32)
    logits = np.tile(np.array([1.5, 0.0, -1.0], dtype=np.float32), (count, 1))
    logits[:, 0] += rng.normal(size=count).astype(np.float32) * 0.05
    hit = rng.uniform(size=count) < np.where(crowded, 0.95, 0.45)
    sample = Sample(logits, np.where(hit, 0, 1), features, np.zeros((3, 16)), np.zeros(3))
    confidence = fit(sample).predict_proba(logits, features=features).max(axis=1)
    assert np.ptp(softmax(logits).max(axis=1)) < 0.08  # the softmax hardly tells them apart
    assert confidence[crowded].mean() == pytest.approx(0.95, abs=0.03)
    assert confidence[~crowded].mean() == pytest.approx(0.45, abs=0.1)


@pytest.mark.parametrize("case", ["all correct", "all wrong"])
def test_only_hits_or_only_misses_change_nothing_and_leave_a_notice(case: str) -> None:
    sample = DEGENERATE[case]
    fitted = fit(sample)
    assert any("no density ratio" in notice for notice in fitted.notices_)
    found = fitted.predict_proba(sample.logits, features=sample.features)
    np.testing.assert_allclose(found, softmax(sample.logits), atol=1e-5)


@pytest.mark.parametrize("sample", DEGENERATE.values(), ids=DEGENERATE.keys())
def test_degenerate_sets_give_proper_rows(sample: Sample) -> None:
    q = fit(sample).predict_proba(sample.logits, features=sample.features)
    assert_proper_rows(q)
    assert np.array_equal(q.argmax(axis=1), sample.logits.argmax(axis=1))


TOP1 = fit(network(200, 6, seed=7))


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 1e-8, 1e-4, 1.0, 1e4]))
def test_top1_never_changes(seed: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    logits = (rng.normal(size=(40, 6)) * spread + rng.choice([0.0, 3.0])).astype(np.float32)
    q = TOP1.predict_proba(logits, features=rng.normal(size=(40, 8)).astype(np.float32))
    assert np.array_equal(q.argmax(axis=1), logits.argmax(axis=1))


def test_real_logits_give_the_papers_modest_gain() -> None:
    (z, y), (z_test, y_test) = cifar10_resnet50()
    fitted = ProCal(device="cpu").fit(z, y)
    assert any("logits in their place" in notice for notice in fitted.notices_)
    confidence, prediction = fitted.predict_proba(z_test).max(dim=1)
    error = ece(confidence, prediction == y_test.reshape(-1))
    assert 0.036 < error < 0.0435  # the paper: 4.17%, from 4.34% uncalibrated


def test_real_features_repair_a_network() -> None:
    file = np.load(real_data("imagenet5k_efficientnet_lite0.npz"))
    order = np.random.default_rng(0).permutation(len(file["labels"]))
    z, y, x = file["logits"][order], file["labels"][order], file["features"][order]
    fitted = ProCal(device="cpu").fit(z[:1500], y[:1500], features=x[:1500])
    q = fitted.predict_proba(z[1500:], features=x[1500:])
    hit = q.argmax(axis=1) == y[1500:]
    assert ece(q.max(axis=1), hit) < 0.5 * ece(softmax(z[1500:]).max(axis=1), hit)


def test_a_saved_calibrator_gives_the_same_bits() -> None:
    for sample in (positive_network(100, 8), DEGENERATE["all correct"]):  # the second keeps no misses
        assert_same_bits_after_saving(fit(sample), sample)


@pytest.mark.parametrize("compiled", [True, False])
def test_the_search_in_float32_finds_the_same_neighbours(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "enabled", compiled)
    rng = np.random.default_rng(5)
    reference = unit_rows(torch.from_numpy(rng.normal(size=(2500, 30))).float())
    queries = torch.cat([unit_rows(torch.from_numpy(rng.normal(size=(60, 30)))), reference[:20].double()])
    found = nearest_squares(queries, reference, 10)
    monkeypatch.setattr(neighbours_module, "MANY", len(reference))
    np.testing.assert_allclose(found, nearest_squares(queries, reference, 10), atol=1e-13)
