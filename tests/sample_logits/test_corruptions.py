"""Corruptions: bytes in, bytes out, the same for a seed, and worse at the higher severity."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import sobel

from sample_logits import digits
from sample_logits.corruptions import (
    CORRUPTIONS,
    PICTURES,
    SEVERITIES,
    TINY,
    corrupt,
    defocus_blur,
    edges_only,
    motion_blur,
)
from sample_logits.images import Bytes


def smooth(channels: int) -> Bytes:
    """Pictures with slopes, edges and flat ground, away from black and white."""
    y, x = np.mgrid[:32, :32] / 32
    waves = [np.sin(2 * np.pi * (f * x + g * y)) for f, g in ((1, 0), (0, 2), (1, 3), (4, 1), (2, 2), (5, 5))]
    blocks = [np.where((x > 0.3) & (y < 0.6), 0.8, -0.6), np.sign(waves[2])]
    pictures = 0.5 + 0.3 * np.stack([*waves, *blocks])
    return np.round(255 * pictures[..., None].repeat(channels, -1)).astype(np.uint8)


def test_every_corruption_has_its_strengths() -> None:
    assert set(PICTURES) == set(TINY) == set(CORRUPTIONS)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_tiny_pictures_change_more_at_the_higher_severity(name: str) -> None:
    pictures = digits.load().test_images
    mild, strong = (corrupt(pictures, name, severity, TINY).astype(float) for severity in SEVERITIES)
    assert 0 < np.linalg.norm(mild - pictures) < np.linalg.norm(strong - pictures)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_corruption_changes_pictures_and_changes_them_more_at_the_higher_severity(name: str, channels: int) -> None:
    pictures = smooth(channels)
    before = pictures.copy()
    mild, strong = (corrupt(pictures, name, severity) for severity in SEVERITIES)
    np.testing.assert_array_equal(pictures, before)
    assert mild.shape == strong.shape == pictures.shape
    assert mild.dtype == strong.dtype == np.uint8
    distance = [np.linalg.norm(made.astype(float) - pictures) for made in (mild, strong)]
    assert 0 < distance[0] < distance[1]


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_corruption_repeats_for_a_seed(name: str) -> None:
    np.testing.assert_array_equal(corrupt(smooth(3), name, 3, seed=1), corrupt(smooth(3), name, 3, seed=1))


@pytest.mark.parametrize("name", ["gaussian noise", "shot noise", "impulse noise", "motion blur", "haze"])
def test_random_corruption_differs_by_seed(name: str) -> None:
    assert (corrupt(smooth(3), name, 3, seed=1) != corrupt(smooth(3), name, 3, seed=2)).any()


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_black_and_white_pictures_stay_pictures(name: str) -> None:
    extremes = np.stack([np.zeros((28, 28, 1)), np.full((28, 28, 1), 255)]).astype(np.uint8)
    assert corrupt(extremes, name, 5).shape == extremes.shape


@pytest.mark.parametrize("name", ["defocus blur", "motion blur", "contrast", "pixelate"])
def test_flat_picture_is_left_as_it_is(name: str) -> None:
    flat = np.full((2, 32, 32, 3), 90, dtype=np.uint8)
    np.testing.assert_array_equal(corrupt(flat, name, 5), flat)


def test_noise_has_the_stated_spread() -> None:
    grey = np.full((40, 32, 32, 3), 128, dtype=np.uint8)
    left = 128 / 255
    for name, spread in (("gaussian noise", 0.08), ("shot noise", np.sqrt(left / 100))):
        noise = corrupt(grey, name, 3) / 255 - left
        assert noise.mean() == pytest.approx(0, abs=1e-3)
        assert noise.std() == pytest.approx(spread, rel=0.02)
    changed = corrupt(grey, "impulse noise", 5)
    assert np.mean(changed != 128) == pytest.approx(0.07, rel=0.05)
    assert set(np.unique(changed)) == {0, 128, 255}


@pytest.mark.parametrize("channels", [1, 3])
def test_edges_are_the_sobel_gradient_of_each_image_alone_dark_on_white(channels: int) -> None:
    pictures = smooth(channels)
    made = edges_only(pictures)
    assert made.shape == pictures.shape
    assert made.dtype == np.uint8
    grey = pictures.mean(axis=3) / 255
    for picture, lines in zip(grey, made, strict=True):
        slope = np.hypot(sobel(picture, 0, mode="nearest"), sobel(picture, 1, mode="nearest"))
        np.testing.assert_allclose(lines, (255 * (1 - slope / slope.max()))[..., None].repeat(channels, 2), atol=0.51)


def test_a_picture_without_edges_is_white_paper() -> None:
    assert (edges_only(np.full((2, 8, 8, 3), 90, dtype=np.uint8)) == 255).all()


@pytest.mark.parametrize("blur", [defocus_blur, motion_blur])
def test_blur_spreads_a_point_over_its_reach_and_loses_no_light(blur) -> None:  # type: ignore[no-untyped-def]
    point = np.zeros((5, 33, 33, 1), dtype=np.float32)
    point[:, 16, 16] = 1
    spread = blur(point, 4.0, np.random.default_rng(0))
    np.testing.assert_allclose(spread.sum(axis=(1, 2, 3)), 1, rtol=1e-4)
    y, x = np.mgrid[-16:17, -16:17]
    assert spread[:, np.hypot(y, x) > 6].max() == 0
    assert spread.max() < 0.35
