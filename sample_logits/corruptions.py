"""Common corruptions of images, after Hendrycks and Dietterich (2019), at two severities.

Images are (N, height, width, channels), one or three channels. Every function takes pixels in [0, 1] and a strength
and gives pixels that may leave [0, 1]; `corrupt` cuts and rounds them. What is random depends on the seed and the
name only, so a higher severity is more of the same.
"""

from __future__ import annotations

import io
import math
import zlib
from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sample_logits.images import Bytes

Pixels = NDArray[np.float32]
Random = np.random.Generator
Corruption = Callable[[Pixels, float, Random], Pixels]
Strengths = Mapping[str, tuple[float, float]]
"""Name of a corruption -> its strength at each of `SEVERITIES`."""

SEVERITIES = (3, 5)

PICTURES: Strengths = {
    "gaussian noise": (0.08, 0.10),
    "shot noise": (100, 50),
    "impulse noise": (0.03, 0.07),
    "defocus blur": (1.0, 2.0),
    "motion blur": (4, 7),
    "brightness": (0.15, 0.30),
    "contrast": (0.40, 0.15),
    "haze": (0.75, 1.5),
    "pixelate": (0.70, 0.45),
    "jpeg": (58, 25),
}
"""For pictures of about 32 x 32 pixels, near those authors' severities 3 and 5."""

TINY: Strengths = {
    "gaussian noise": (0.15, 0.30),
    "shot noise": (16, 5),
    "impulse noise": (0.08, 0.20),
    "defocus blur": (0.8, 1.2),
    "motion blur": (2, 4),
    "brightness": (0.20, 0.40),
    "contrast": (0.40, 0.15),
    "haze": (0.40, 0.80),
    "pixelate": (0.50, 0.375),
    "jpeg": (20, 5),
}
"""For 8 x 8 pixels: ways and discs as large as a stroke at most, and noise that hides single pixels."""


def corrupt(images: Bytes, name: str, severity: int, strengths: Strengths = PICTURES, seed: int = 0) -> Bytes:
    """The images under one corruption, as uint8."""
    random = np.random.default_rng([seed, zlib.crc32(name.encode())])
    pixels: Pixels = np.divide(images, 255, dtype=np.float32)
    changed = CORRUPTIONS[name](pixels, strengths[name][SEVERITIES.index(severity)], random)
    return np.round(255 * np.clip(changed, 0, 1)).astype(np.uint8)


def edges_only(images: Bytes) -> Bytes:
    """Dark lines on white: 1 - g / max g in every channel, g the length of the grey image's Sobel gradient."""
    from scipy.ndimage import correlate1d

    grey = np.divide(images, 255, dtype=np.float32).mean(axis=3, keepdims=True)
    # not scipy's sobel, which smooths over all axes, that of the images too
    down, right = (
        correlate1d(correlate1d(grey, [-1, 0, 1], axis, mode="nearest"), [1, 2, 1], other, mode="nearest")
        for axis, other in ((1, 2), (2, 1))
    )
    slope = np.hypot(down, right)
    steepest = slope.max(axis=(1, 2, 3), keepdims=True)
    lines = 1 - slope / np.where(steepest > 0, steepest, 1)
    return np.round(255 * lines).astype(np.uint8).repeat(images.shape[3], axis=3)


def gaussian_noise(pixels: Pixels, spread: float, random: Random) -> Pixels:
    """x + spread * N(0, 1)."""
    return pixels + spread * random.standard_normal(pixels.shape, dtype=np.float32)


def shot_noise(pixels: Pixels, photons: float, random: Random) -> Pixels:
    """Poisson(photons * x) / photons: counting noise of a pixel that sees so many photons at full brightness."""
    return (random.poisson(pixels * photons) / photons).astype(np.float32)


def impulse_noise(pixels: Pixels, share: float, random: Random) -> Pixels:
    """This share of values replaced by 0 or 1, each as often."""
    hit = random.random(pixels.shape, dtype=np.float32) < share
    return np.where(hit, random.integers(0, 2, pixels.shape), pixels).astype(np.float32)


def defocus_blur(pixels: Pixels, radius: float, random: Random) -> Pixels:
    """Each pixel spread over a disc whose edge fades over one pixel."""
    from scipy.ndimage import convolve

    reach = np.arange(-math.ceil(radius), math.ceil(radius) + 1)
    disc = np.clip(radius + 0.5 - np.hypot(reach[:, None], reach[None, :]), 0, 1)
    return convolve(pixels, (disc / disc.sum())[None, :, :, None].astype(np.float32), mode="reflect")


def motion_blur(pixels: Pixels, length: float, random: Random) -> Pixels:
    """The mean over a straight way of this many pixels, in a direction of its own for every image."""
    angle = random.uniform(0, np.pi, len(pixels))
    _, height, width, _ = pixels.shape
    # one pixel is 2 / width in the sampler's units, where the image is [-1, 1] wide
    direction = torch.tensor(np.stack([np.cos(angle) * 2 / width, np.sin(angle) * 2 / height], 1), dtype=torch.float32)
    image = _channels_first(pixels)
    steps = torch.linspace(-length / 2, length / 2, 2 * math.ceil(length) + 1)
    return _channels_last(torch.stack([_shifted(image, step * direction) for step in steps]).mean(0))


def brightness(pixels: Pixels, shift: float, random: Random) -> Pixels:
    """x + shift."""
    return pixels + np.float32(shift)


def contrast(pixels: Pixels, factor: float, random: Random) -> Pixels:
    """factor * (x - mean) + mean, the mean over each image and channel."""
    mean = pixels.mean(axis=(1, 2), keepdims=True)
    return np.float32(factor) * (pixels - mean) + mean


def haze(pixels: Pixels, density: float, random: Random) -> Pixels:
    """(x + density * field) * top / (top + density): a bright cloudy field laid over the image, `top` its maximum."""
    top = pixels.max(axis=(1, 2, 3), keepdims=True)
    field = np.float32(density) * _clouds(len(pixels), pixels.shape[1], pixels.shape[2], random)
    return (pixels + field) * top / (top + np.float32(density))


def pixelate(pixels: Pixels, share: float, random: Random) -> Pixels:
    """Shrunk to this share of its width by averaging, and blown up again without smoothing."""
    _, height, width, _ = pixels.shape
    small = nn.functional.interpolate(
        _channels_first(pixels), (round(share * height), round(share * width)), mode="area"
    )
    return _channels_last(nn.functional.interpolate(small, (height, width), mode="nearest"))


def jpeg(pixels: Pixels, quality: float, random: Random) -> Pixels:
    """Through the compression of this quality and back."""
    from PIL import Image

    back = []
    for image in np.round(255 * pixels).astype(np.uint8):
        file = io.BytesIO()
        Image.fromarray(image.squeeze(-1) if image.shape[-1] == 1 else image).save(file, "JPEG", quality=int(quality))
        with Image.open(file) as picture:
            back.append(np.asarray(picture, dtype=np.float32).reshape(image.shape) / 255)
    return np.stack(back)


CORRUPTIONS: dict[str, Corruption] = {
    "gaussian noise": gaussian_noise,
    "shot noise": shot_noise,
    "impulse noise": impulse_noise,
    "defocus blur": defocus_blur,
    "motion blur": motion_blur,
    "brightness": brightness,
    "contrast": contrast,
    "haze": haze,
    "pixelate": pixelate,
    "jpeg": jpeg,
}


def _clouds(count: int, height: int, width: int, random: Random) -> Pixels:
    """Random fields in [0, 1], (N, height, width, 1): octaves of smooth noise, each finer one half as strong."""
    total = torch.zeros(count, 1, height, width)
    for octave in range(4):
        cells = torch.from_numpy(random.random((count, 1, 2 + 2**octave, 2 + 2**octave), dtype=np.float32))
        total += 0.5**octave * nn.functional.interpolate(cells, (height, width), mode="bicubic", align_corners=True)
    low, high = total.amin((2, 3), keepdim=True), total.amax((2, 3), keepdim=True)
    return _channels_last((total - low) / (high - low))


def _shifted(image: Tensor, shift: Tensor) -> Tensor:
    """Every image read at places moved by its own shift (N, 2), mirrored at the edges."""
    move = torch.eye(2, 3).repeat(len(image), 1, 1)
    move[:, :, 2] = shift
    grid = nn.functional.affine_grid(move, list(image.shape), align_corners=False)
    return nn.functional.grid_sample(image, grid, padding_mode="reflection", align_corners=False)


def _channels_first(pixels: Pixels) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2)


def _channels_last(images: Tensor) -> Pixels:
    return images.permute(0, 2, 3, 1).contiguous().numpy()
