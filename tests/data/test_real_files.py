"""Published logits load unchanged, with their known classes, rows and accuracies."""

from __future__ import annotations

import numpy as np
import pytest

from smart_core.data import load
from tests.conftest import real_data
from tests.data.files import codes


def overall_accuracy(data) -> float:
    parts = (data.validation, data.test)
    right = sum(int(np.sum(np.argmax(part.logits, axis=1) == part.labels)) for part in parts)
    return right / sum(len(part) for part in parts)


def test_gpu_pair_by_split():
    folder = real_data("resnet50_cifar10_ce")
    data = load(val=[folder / "val.pt"], test=folder / "test.pt")
    assert (data.classes, len(data.validation), len(data.test)) == (10, 5000, 10000)
    assert np.mean(data.test.logits.argmax(1) == data.test.labels) == pytest.approx(0.9505, abs=5e-5)
    assert data.name == "resnet50_cifar10_ce"
    assert codes(data) == {"device"}


def test_gpu_pair_equals_torch():
    torch = pytest.importorskip("torch")
    path = real_data("resnet50_cifar10_ce") / "val.pt"
    logits, labels = torch.load(path, map_location="cpu", weights_only=True)
    data = load(val=path, test=path)
    np.testing.assert_array_equal(data.validation.logits, logits.numpy())
    np.testing.assert_array_equal(data.validation.labels, labels.numpy())
    assert "duplicate_rows" in codes(data)


@pytest.mark.parametrize(
    ("name", "accuracy"),
    [("probs_densenet40_c10_LT_logits.p", 0.721), ("probs_resnet_wide28_c10_LT_logits.p", 0.854)],
)
def test_published_pickles(name, accuracy):
    data = load(real_data(name))
    assert (data.classes, len(data.validation), len(data.test)) == (10, 10216, 10000)
    assert np.mean(data.test.logits.argmax(1) == data.test.labels) == pytest.approx(accuracy, abs=6e-4)


def test_probabilities_are_noted():
    path = real_data("netcal_wideresnet-16-4-cifar-100.npz")
    data = load(path)
    assert (data.classes, len(data.validation), len(data.test)) == (100, 5000, 5000)
    assert overall_accuracy(data) == pytest.approx(0.754, abs=5e-4)
    assert {"probabilities", "split"} <= codes(data)
    from scipy.special import softmax

    with np.load(path) as archive:
        given = {row.tobytes() for row in np.round(archive["predictions"], 3)}
    back = np.round(softmax(data.test.logits, axis=1), 3).astype(np.float32)
    assert np.mean([row.tobytes() in given for row in back]) > 0.9


@pytest.mark.parametrize("order", [("scores.npy", "targets.npy"), ("targets.npy", "scores.npy")])
def test_pair_of_arrays_in_either_order(order):
    folder = real_data("cifar100_repvgg_a2")
    data = load([folder / name for name in order], val_fraction=0.3)
    assert (data.classes, len(data.validation), len(data.test)) == (100, 3000, 7000)
    assert overall_accuracy(data) == pytest.approx(0.775, abs=6e-4)
    assert codes(data) == {"split"}


@pytest.mark.parametrize(
    ("name", "classes", "rows", "depth", "accuracy"),
    [
        ("cifar10_resnet20_test.npz", 10, 10000, 64, 0.917),
        ("imagenet5k_efficientnet_lite0.npz", 1000, 5000, 1280, 0.753),
    ],
)
def test_bundles_with_features_and_head(name, classes, rows, depth, accuracy):
    data = load(real_data(name))
    assert data.classes == classes
    assert len(data.validation) + len(data.test) == rows
    assert overall_accuracy(data) == pytest.approx(accuracy, abs=6e-4)
    assert data.head is not None
    assert data.test.features is not None
    assert data.test.features.shape == (len(data.test), depth)
    made = data.test.features @ data.head.weight.T + data.head.bias
    np.testing.assert_allclose(made, data.test.logits, atol=0.05)
    assert "head_mismatch" not in codes(data)
