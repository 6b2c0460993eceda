"""From a model and images to a bundle that the engine reads back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import sample_logits
import smart_core as sc
from sample_logits import bundles, cifar10, fashion, stages
from sample_logits.corruptions import CORRUPTIONS, corrupt, edges_only
from sample_logits.images import ImageSet, hold_out
from sample_logits.losses import LOSSES
from sample_logits.networks import Classifier, fused
from sample_logits.training import to_pixels


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> ImageSet:
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(10, dtype=np.uint8), 2)
    train, test = random.integers(0, 256, (2, 20, 28, 28, 1), dtype=np.uint8)
    monkeypatch.setattr(bundles, "CORRUPTED_IMAGES", 6)
    return ImageSet(train, labels, test, labels)


@pytest.fixture
def sample() -> stages.ImageSample:
    return stages.ImageSample("tiny", fashion.CLASSES, 1, fashion.network, fashion.SAMPLE.recipe, edges=True)


@pytest.fixture
def model() -> Classifier:
    torch.manual_seed(0)
    return fashion.network().eval()


def test_bundle_round_trip(
    data: ImageSet, sample: stages.ImageSample, model: Classifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_logits, "FOLDER", tmp_path)
    bundles.write("tiny", stages.clean(sample, data, model))
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.npz"]
    read = sc.load(tmp_path / "tiny.npz")
    assert not [notice for notice in read.notices if "class" not in notice.text]
    with torch.no_grad():
        direct = model(to_pixels(torch.from_numpy(data.test_images))).numpy()
    np.testing.assert_allclose(read.test.logits, direct, atol=1e-5)
    held = hold_out(data.train_labels, 1, 0)[1]
    np.testing.assert_array_equal(read.validation.labels, data.train_labels[held])
    assert read.head is not None
    assert read.test.features is not None
    np.testing.assert_allclose(read.test.features @ read.head.weight.T + read.head.bias, direct, atol=1e-2)
    assert tuple(read.class_names or ()) == fashion.CLASSES


def test_corrupted_bundle_names_its_groups(data: ImageSet, sample: stages.ImageSample, model: Classifier) -> None:
    said: list[str] = []
    arrays = stages.corrupted(sample, data, model, said.append)
    groups = 2 * len(CORRUPTIONS) + 1
    assert len(said) == groups == len(set(arrays["test_group"]))
    assert len(arrays["test_logits"]) == 6 * groups
    assert len(arrays["val_logits"]) == 10
    images = data.test_images[:6]
    for group, changed in (("contrast 5", corrupt(images, "contrast", 5)), ("edges", edges_only(images))):
        with torch.no_grad():
            direct = model(to_pixels(torch.from_numpy(changed))).numpy()
        np.testing.assert_allclose(arrays["test_logits"][arrays["test_group"] == group], direct, atol=1e-5)


def test_edges_are_a_group_only_where_asked_for(data: ImageSet, sample: stages.ImageSample, model: Classifier) -> None:
    without = stages.corrupted(replace(sample, edges=False), data, model, lambda words: None)
    assert len(set(without["test_group"])) == 2 * len(CORRUPTIONS)


@pytest.mark.parametrize("network", [cifar10.network, fashion.network])
def test_network_standardises_pixels_and_ends_in_its_head(network) -> None:  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    model = network().eval()
    channels = model.get_buffer("mean").numel()
    pixels = torch.rand(3, channels, 28, 28)
    features = model.features(pixels)
    assert features.shape == (3, 64)
    assert features.min() >= 0
    by_hand = model.body((pixels - model.mean) / model.std)
    torch.testing.assert_close(model(pixels), by_hand @ model.head.weight.T + model.head.bias)


@pytest.mark.parametrize("network", [cifar10.network, fashion.network])
def test_folded_network_gives_the_same_logits(network) -> None:  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    model = network()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):  # as if it had been trained: neither mean 0 nor spread 1
            for tensor in (module.weight, module.bias, module.running_mean, module.running_var):
                nn.init.uniform_(tensor, 0.5, 1.5)
    pixels = torch.rand(3, model.get_buffer("mean").numel(), 28, 28)
    folded = fused(model)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in folded.body[0:3])
    assert isinstance(model.body[1], nn.BatchNorm2d)
    with torch.no_grad():
        torch.testing.assert_close(folded(pixels), model.eval()(pixels), rtol=1e-4, atol=1e-4)


def test_each_loss_has_a_bundle_of_its_own() -> None:
    names = [stages.bundle_name(fashion.SAMPLE, loss) for loss in LOSSES]
    endings = ["", "_brier", "_mmce", "_ls_0_05", "_flsd_53", "_fl_3", "_dfl", "_mdca", "_uwg"]
    assert names == [f"fashion{ending}" for ending in endings]
