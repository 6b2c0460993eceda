"""Labelled images as arrays: training and test images of a set, and how a part of training is held out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class ImageSet:
    """Images (N, height, width, channels) and labels (N,), all uint8, as published."""

    train_images: Bytes
    train_labels: Bytes
    test_images: Bytes
    test_labels: Bytes


def cached(path: Path, decode: Callable[[], ImageSet]) -> ImageSet:
    """The set stored at the path; decoded and stored there first where missing."""
    if not path.exists():
        part = path.with_suffix(".part.npz")
        np.savez(part, **asdict(decode()))
        os.replace(part, path)
    with np.load(path) as stored:
        return ImageSet(**{name: stored[name] for name in stored.files})


def hold_out(labels: Bytes, per_class: int | Sequence[int], seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to train on and rows held out, sorted: the same number of every class, or one number each, drawn by seed."""
    order, names = np.random.default_rng(seed).permutation(len(labels)), np.unique(labels)
    counts = [per_class] * len(names) if isinstance(per_class, int) else per_class
    drawn = [order[labels[order] == name][:count] for name, count in zip(names, counts, strict=True)]
    held = np.sort(np.concatenate(drawn))
    return np.setdiff1d(np.arange(len(labels)), held), held


def thinned(data: ImageSet, counts: Sequence[int], seed: int) -> ImageSet:
    """So many training images of each class, drawn by seed; the test part as it is."""
    _, kept = hold_out(data.train_labels, counts, seed)
    return replace(data, train_images=data.train_images[kept], train_labels=data.train_labels[kept])


def check_balance(data: ImageSet, classes: int, train_per_class: int, test_per_class: int) -> None:
    """Every class as often as published, in both parts; a set that was cut or mixed up is not trained on."""
    for part, labels, pixels, expected in (
        ("training", data.train_labels, data.train_images, train_per_class),
        ("test", data.test_labels, data.test_images, test_per_class),
    ):
        counts = np.bincount(labels, minlength=classes).tolist()
        if len(labels) != len(pixels) or counts != [expected] * classes:
            raise ValueError(f"The {part} part has {len(pixels)} images, and of labels of each class {counts}.")
