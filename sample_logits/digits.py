"""Handwritten digits, 8 x 8 pixels: a small network trained long on few images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

SEED = 0
SHARES = {"train": 0.2, "val": 0.4, "test": 0.4}
HIDDEN = 32
EPOCHS = 400
LEARNING_RATE = 1e-2


def bundles(say: Callable[[str], None] = print) -> dict[str, dict[str, NDArray[Any]]]:
    """The one bundle, by one thread and so in one order of summation: the same bits on the same machine."""
    torch.set_num_threads(1)
    return {"digits": arrays()}


def arrays() -> dict[str, NDArray[Any]]:
    """The bundle's arrays: logits, labels and penultimate features of both parts, last layer, names."""
    images, labels = _images()
    rows = _split(labels)
    features, head = _train(images[rows["train"]], labels[rows["train"]])
    bundle: dict[str, NDArray[Any]] = {}
    with torch.no_grad():
        for split in ("val", "test"):
            seen = features(images[rows[split]])
            bundle[f"{split}_logits"] = head(seen).numpy()
            bundle[f"{split}_labels"] = labels[rows[split]].numpy()
            bundle[f"{split}_features"] = seen.numpy()
    bundle["head_weight"] = head.weight.detach().numpy()
    bundle["head_bias"] = head.bias.detach().numpy()
    bundle["class_names"] = np.array([str(digit) for digit in range(10)])
    return bundle


def _images() -> tuple[Tensor, Tensor]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    return torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)


def _split(labels: Tensor) -> dict[str, Tensor]:
    """Rows of each part, every digit in the same proportion."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(SEED))
    parts: dict[str, list[Tensor]] = {name: [] for name in SHARES}
    for digit in range(10):
        members = order[labels[order] == digit]
        cuts = (np.cumsum(list(SHARES.values()))[:-1] * len(members)).round().astype(int).tolist()
        for name, chunk in zip(SHARES, torch.tensor_split(members, cuts), strict=True):
            parts[name].append(chunk)
    return {name: torch.cat(chunks).sort().values for name, chunks in parts.items()}


def _train(images: Tensor, labels: Tensor) -> tuple[nn.Sequential, nn.Linear]:
    """Two relu layers and a linear head; Adam on cross entropy in mini-batches, nothing held back."""
    torch.manual_seed(SEED)
    features = nn.Sequential(nn.Linear(64, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU())
    head = nn.Linear(HIDDEN, 10)
    optimiser = torch.optim.Adam([*features.parameters(), *head.parameters()], lr=LEARNING_RATE)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(images)).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(head(features(images[batch])), labels[batch]).backward()
            optimiser.step()
    return features, head
