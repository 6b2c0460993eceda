"""Handwritten digits, 8 x 8 pixels: a small network trained long on few images, its weights beside its bundles."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from sample_logits import FOLDER, stages
from sample_logits.bundles import Arrays
from sample_logits.corruptions import TINY
from sample_logits.images import Bytes, ImageSet, hold_out
from sample_logits.networks import Classifier
from sample_logits.training import Recipe, Say, to_pixels
from smart_core.data.saving import atomic_write

WEIGHTS: Path = FOLDER / "digits.safetensors"
CLASSES = tuple(str(digit) for digit in range(10))
FEATURES = 32
PER_CLASS = 72
"""Images of every digit in validation and in test, of the 174 to 183 there are."""


@cache
def load() -> ImageSet:
    """The 1797 images of scikit-learn, their 17 shades spread over bytes, in a training and a test part."""
    from sklearn.datasets import load_digits

    found = load_digits()
    shades: Bytes = np.round(found.images * (255 / 16)).astype(np.uint8)[..., None]
    labels = found.target.astype(np.uint8)
    rest, test = hold_out(labels, PER_CLASS, seed=1)
    return ImageSet(shades[rest], labels[rest], shades[test], labels[test])


def network() -> Classifier:
    """Two convolutions, 32 relu features and a linear head; pixels standardised by the images' mean and spread."""
    body = nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(512, FEATURES),
        nn.ReLU(),
    )
    return Classifier(body, FEATURES, len(CLASSES), [0.3053], [0.3760])


SAMPLE = stages.ImageSample(
    "digits",
    CLASSES,
    held_out_per_class=PER_CLASS,
    network=network,
    recipe=Recipe(epochs=100, batch_size=32, peak_rate=0.05, weight_decay=0.0, pad=0, flip=False),
    strengths=TINY,
)


def bundles(say: Say = print) -> Iterator[tuple[str, Arrays]]:
    """Train, keep the weights, extract, attack all test images: the corrupted bundle and the clean one."""
    # one thread and so one order of summation: the same bits on the same machine
    torch.set_num_threads(1)
    data = load()
    model = stages.fit(SAMPLE, data, say)
    with atomic_write(WEIGHTS) as file:
        file.write(save({name: value.contiguous() for name, value in model.state_dict().items()}))
    yield "digits_corrupted", stages.corrupted(SAMPLE, data, model, say)
    yield "digits", stages.clean(SAMPLE, data, model) | stages.attack(SAMPLE, data, model, say)


def trained() -> Classifier:
    """The network with the weights in this folder, in evaluation mode: no training needed."""
    model = network()
    model.load_state_dict(load_file(WEIGHTS))
    return model.eval()


def images(part: Literal["val", "test"]) -> Tensor:
    """Pixels (N, 1, 8, 8) in [0, 1] of the bundle's validation or test rows, in its order."""
    data = load()
    if part == "test":
        return to_pixels(torch.from_numpy(data.test_images)).contiguous()
    _, held = hold_out(data.train_labels, SAMPLE.held_out_per_class, SAMPLE.recipe.seed)
    return to_pixels(torch.from_numpy(data.train_images[held])).contiguous()
