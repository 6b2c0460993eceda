"""From a trained model and images to the arrays of a bundle, and from the arrays to its file."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sample_logits import path
from sample_logits.corruptions import SEVERITIES, Strengths, corrupt, edges_only
from sample_logits.images import Bytes
from sample_logits.networks import Classifier
from sample_logits.training import Say, outputs

Arrays = dict[str, NDArray[Any]]

EDGES = "edges"
"""The group of the images of which only the edges are left."""

CORRUPTED_IMAGES = 1000
"""So many of the test images, the first ones, go under every corruption."""


def part(split: str, model: Classifier, images: Bytes, labels: Bytes) -> Arrays:
    """Logits (float32), labels and penultimate features (float16) of one part, `split` being val or test."""
    features = outputs(model.eval().features, torch.from_numpy(images))
    with torch.no_grad():
        logits = model.head(features)
    return {
        f"{split}_logits": logits.numpy(),
        f"{split}_labels": labels,
        f"{split}_features": features.numpy().astype(np.float16),
    }


def shared(model: Classifier, names: tuple[str, ...]) -> Arrays:
    """The last layer and the names of the classes."""
    return {
        "head_weight": model.head.weight.detach().numpy(),
        "head_bias": model.head.bias.detach().numpy(),
        "class_names": np.array(names),
    }


def corrupted(
    model: Classifier, images: Bytes, labels: Bytes, strengths: Strengths, edges: bool, say: Say = print
) -> Arrays:
    """A test part of the first images under every corruption at every severity, `test_group` naming which.

    With `edges`, the edges of the images are one more group.
    """
    images, labels = images[:CORRUPTED_IMAGES], labels[:CORRUPTED_IMAGES]
    groups: list[tuple[str, Callable[[], Bytes]]] = [
        (f"{name} {severity}", partial(corrupt, images, name, severity, strengths))
        for name in strengths
        for severity in SEVERITIES
    ]
    if edges:
        groups.append((EDGES, partial(edges_only, images)))
    parts: list[Arrays] = []
    for group, changed in groups:
        made = part("test", model, changed(), labels)
        made["test_group"] = np.full(len(labels), group)
        say(f"{group}: accuracy {accuracy(made, 'test'):.4f}")
        parts.append(made)
    return {key: np.concatenate([made[key] for made in parts]) for key in parts[0]}


def accuracy(arrays: Arrays, split: str) -> float:
    """Share of rows whose largest logit is the label's."""
    return float(np.mean(arrays[f"{split}_logits"].argmax(axis=1) == arrays[f"{split}_labels"]))


def write(name: str, arrays: Arrays) -> None:
    """Written beside and moved into place: a bundle is whole or not there."""
    part_path = path(name).with_suffix(".part.npz")
    np.savez_compressed(part_path, **arrays)  # type: ignore[arg-type]
    os.replace(part_path, path(name))
