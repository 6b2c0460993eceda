"""Networks of the image samples: pixels in [0, 1] in, penultimate features, logits out."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval


class Classifier(nn.Module):
    """A body that turns standardised pixels into features, and a linear head: logits = W features + b."""

    def __init__(self, body: nn.Module, features: int, classes: int, mean: list[float], std: list[float]) -> None:
        super().__init__()
        self.body = body
        self.head = nn.Linear(features, classes)
        # inside the model, so that an attack works in the pixels' own units
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1))

    def features(self, images: Tensor) -> Tensor:
        """Penultimate features (N, D) of images (N, channels, height, width) in [0, 1]."""
        return self.body((images - self.get_buffer("mean")) / self.get_buffer("std"))

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.features(images))


class Residual(nn.Module):
    """relu(F(x) + S(x)): two 3 x 3 convolutions with batch norm, and a strided 1 x 1 one as the shortcut."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            *_convolution(inside, outside, stride),
            nn.ReLU(inplace=True),
            *_convolution(outside, outside, 1),
        )
        self.shortcut = nn.Sequential(
            nn.Conv2d(inside, outside, 1, stride, bias=False),
            nn.BatchNorm2d(outside),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.path(x) + self.shortcut(x))


def resnet(channels: int, stem: int, widths: tuple[int, ...], features: int) -> nn.Sequential:
    """A stem, one halving residual block a width, the mean over pixels, and a relu layer of features."""
    blocks = [Residual(inside, outside, 2) for inside, outside in zip((stem, *widths[:-1]), widths, strict=True)]
    return nn.Sequential(
        *_convolution(channels, stem, 1),
        nn.ReLU(inplace=True),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(widths[-1], features),
        nn.ReLU(),
    )


def fused(model: Classifier) -> Classifier:
    """A copy for evaluation with every batch norm folded into the convolution before it: the same logits, sooner."""
    copy = deepcopy(model).eval()
    for chain in [module for module in copy.modules() if isinstance(module, nn.Sequential)]:
        for first, second in zip(list(chain), list(chain)[1:], strict=False):
            if isinstance(first, nn.Conv2d) and isinstance(second, nn.BatchNorm2d):
                place = list(chain).index(first)
                chain[place], chain[place + 1] = fuse_conv_bn_eval(first, second), nn.Identity()
    return copy


def _convolution(inside: int, outside: int, stride: int) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    return nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False), nn.BatchNorm2d(outside)
