"""Fashion-MNIST, 28 x 28 grey pictures of clothes: a network trained with nine losses, clean and under corruptions."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sample_logits import fetch, images, stages
from sample_logits.bundles import Arrays
from sample_logits.losses import LOSSES
from sample_logits.networks import Classifier, resnet
from sample_logits.training import Recipe, Say

PACKAGE = "dataset-fashion-mnist"
FOLDER = "usr/share/datasets/fashion-mnist"
CHECKSUMS = {
    "train-images-idx3-ubyte.gz": "b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7",
    "train-labels-idx1-ubyte.gz": "0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056",
    "t10k-images-idx3-ubyte.gz": "cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa",
    "t10k-labels-idx1-ubyte.gz": "8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05",
}
CLASSES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
FEATURES = 64
LOGITS_ONLY = ("val_logits", "val_labels", "test_logits", "test_labels", "class_names")


def idx(path: Path) -> images.Bytes:
    """The array of an idx.gz file of bytes: 0, 0, 8, the number of axes, each length in 4 bytes, the values."""
    content = gzip.decompress(path.read_bytes())
    if content[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is not an idx file of bytes.")
    axes = content[3]
    shape = np.frombuffer(content, ">u4", axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)


def decode(folder: Path) -> images.ImageSet:
    """The four files of the package, with one channel added to the images."""
    train, train_labels, test, test_labels = (idx(folder / name) for name in CHECKSUMS)
    return images.ImageSet(train[..., None], train_labels, test[..., None], test_labels)


def load() -> images.ImageSet:
    """All 60,000 training and 10,000 test images, every class equally often in both."""
    stored = images.cached(fetch.cache_folder() / "fashion.npz", lambda: decode(_files()))
    images.check_balance(stored, len(CLASSES), train_per_class=6000, test_per_class=1000)
    return stored


def network() -> Classifier:
    """A residual network of 82,000 parameters; pixels standardised by the training images' mean and spread."""
    body = resnet(1, stem=16, widths=(16, 32, 64), features=FEATURES)
    return Classifier(body, FEATURES, len(CLASSES), [0.2860], [0.3530])


RECIPE = Recipe(epochs=6, pad=0, flip=False)
"""Without crops and mirroring: a small network soon knows its training images too well, and is too sure."""

SAMPLE = stages.ImageSample("fashion", CLASSES, held_out_per_class=500, network=network, recipe=RECIPE, edges=True)


def bundles(say: Say = print) -> Iterator[tuple[str, Arrays]]:
    """Fetch, train once with each loss, extract: a clean bundle per loss, the plain one's attacked, and corrupted too.

    The bundles of the other losses hold no features, which are two thirds of a file.
    """
    data = load()
    for loss in sorted(LOSSES, key=lambda loss: loss == "NLL"):  # the attack takes longest and comes last
        name = stages.bundle_name(SAMPLE, loss)
        say(f"{name}: trained with {loss}")
        model = stages.fit(SAMPLE, data, say, loss)
        if loss == "NLL":
            yield "fashion_corrupted", stages.corrupted(SAMPLE, data, model, say)
            yield name, stages.clean(SAMPLE, data, model) | stages.attack(SAMPLE, data, model, say)
        else:
            made = stages.clean(SAMPLE, data, model)
            yield name, {key: made[key] for key in LOGITS_ONLY}


def _files() -> Path:
    folder = fetch.debian_package(PACKAGE) / FOLDER
    for name, checksum in CHECKSUMS.items():
        fetch.require_sha256(folder / name, checksum)
    return folder
