"""A small convolutional network trained on scikit-learn's digits in about a second, for the attacks to work on."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

TRAINED_ON = 1000
"""So many digits, the first ones, are for training; the others are there to be attacked."""


def network() -> nn.Module:
    """Two convolutions and a linear head, untrained: 1 x 8 x 8 images in [0, 1] to 10 logits."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(512, 10),
    )


@cache
def digits() -> tuple[Tensor, Tensor]:
    """Images (N, 1, 8, 8) in [0, 1] and labels (N,)."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return torch.tensor(found.images / 16, dtype=torch.float32)[:, None], torch.tensor(found.target)


def unseen(count: int) -> Tensor:
    """Digits that the network was not trained on."""
    return digits()[0][TRAINED_ON : TRAINED_ON + count]


@cache
def trained(epochs: int = 8) -> nn.Module:
    """The network after a few passes over its training digits, whatever mode its first caller is in."""
    images, labels = (part[:TRAINED_ON] for part in digits())
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        model = network()
        optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
        for _ in range(epochs):
            for rows in torch.randperm(len(images)).split(64):
                optimiser.zero_grad()
                nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
                optimiser.step()
    return model.eval()
