"""Training: the stated schedule and augmentation, and the same weights whether or not it was stopped on the way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sample_logits.networks import Classifier, resnet
from sample_logits.training import Recipe, augment, learning_rate, outputs, to_pixels, train
from smart_core.errors import Cancelled
from smart_core.progress import Run

RECIPE = Recipe(epochs=3, batch_size=16, pad=1)


def bright_or_dark() -> tuple[Tensor, Tensor]:
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 80)
    pixels = random.integers(0, 120, (80, 8, 8, 1)) + 120 * labels[:, None, None, None]
    return torch.from_numpy(pixels.astype(np.uint8)), torch.from_numpy(labels)


def tiny() -> Classifier:
    # multiples of 8: with 4 channels a strided 1 x 1 convolution of torch 2.13 on AVX2 writes past its memory
    return Classifier(resnet(1, 8, (8, 16), 5), 5, 2, [0.5], [0.25])


def fitted(path: Path, say: Callable[[str], None] = lambda words: None, recipe: Recipe = RECIPE) -> dict[str, Tensor]:
    images, labels = bright_or_dark()
    return train(tiny, (images[:64], labels[:64]), (images[64:], labels[64:]), recipe, path, say=say).state_dict()


def test_stopped_training_ends_at_the_same_weights(tmp_path: Path) -> None:
    straight = fitted(tmp_path / "straight")
    lines: list[str] = []

    def stop(words: str) -> None:
        lines.append(words)
        raise KeyboardInterrupt

    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            fitted(tmp_path / "stopped", stop)
    resumed = fitted(tmp_path / "stopped", lines.append)
    assert [line.split(":")[0] for line in lines] == ["epoch 1/3", "epoch 2/3", "epoch 3/3"]
    assert straight.keys() == resumed.keys()
    for name, value in straight.items():
        assert torch.equal(value, resumed[name]), name
    assert not list(tmp_path.glob("*.part"))


def test_training_learns(tmp_path: Path) -> None:
    images, labels = bright_or_dark()
    recipe = Recipe(epochs=8, batch_size=16, pad=1)
    model = train(tiny, (images[:64], labels[:64]), (images[64:], labels[64:]), recipe, tmp_path / "c")
    assert not model.training
    assert (outputs(model, images[64:]).argmax(1) == labels[64:]).float().mean() > 0.9


def test_checkpoint_of_another_recipe_is_refused(tmp_path: Path) -> None:
    fitted(tmp_path / "c")
    with pytest.raises(ValueError, match="another recipe"):
        fitted(tmp_path / "c", recipe=Recipe(epochs=4, batch_size=16, pad=1))


def test_training_can_be_cancelled(tmp_path: Path) -> None:
    images, labels = bright_or_dark()
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Cancelled):
        train(tiny, (images, labels), (images, labels), RECIPE, tmp_path / "c", run=Run(cancel=cancel))


def test_learning_rate_goes_up_to_its_peak_and_down_to_0() -> None:
    recipe = Recipe(epochs=10, peak_rate=0.1, warm_up=0.2)
    rates = [learning_rate(progress, recipe) for progress in (0, 0.1, 0.2, 0.6, 1)]
    assert rates == pytest.approx([0, 0.05, 0.1, 0.05, 0])


def test_pixels() -> None:
    images = torch.tensor([0, 51, 255], dtype=torch.uint8).view(1, 1, 1, 3)
    torch.testing.assert_close(to_pixels(images), torch.tensor([0, 0.2, 1]).view(1, 3, 1, 1))


@pytest.mark.parametrize("flip", [True, False])
def test_augmented_image_is_a_window_of_the_padded_one(flip: bool) -> None:
    images = torch.from_numpy(np.random.default_rng(0).integers(1, 256, (60, 5, 6, 3), dtype=np.uint8))
    recipe = Recipe(epochs=1, pad=2, flip=flip)
    made = augment(images, recipe, torch.Generator().manual_seed(0))
    assert made.dtype == torch.uint8
    seen = set()
    for image, result in zip(images, made, strict=True):
        padded = nn.functional.pad(image, (0, 0, 2, 2, 2, 2))
        windows = {
            (top, left, mirrored): window.flip(1) if mirrored else window
            for top in range(5)
            for left in range(5)
            for window in [padded[top : top + 5, left : left + 6]]
            for mirrored in (False, True)
        }
        seen.add(next(place for place, window in windows.items() if torch.equal(window, result)))
    assert {place[2] for place in seen} == ({False, True} if flip else {False})
    assert {place[0] for place in seen} == {place[1] for place in seen} == set(range(5))


def test_augmentation_of_nothing_is_the_image() -> None:
    images, _ = bright_or_dark()
    assert torch.equal(augment(images, Recipe(epochs=1, pad=0, flip=False), torch.Generator()), images)
