"""The way of an image sample, stage by stage: split, fit, extract, attack, corrupt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from sample_logits import attacking, bundles, training
from sample_logits.corruptions import PICTURES, Strengths
from sample_logits.fetch import cache_folder
from sample_logits.images import ImageSet, hold_out
from sample_logits.losses import LOSSES
from sample_logits.networks import Classifier
from smart_core.attacks import Search
from smart_core.cli.terminal import ProgressBar
from smart_core.progress import Run


@dataclass(frozen=True)
class ImageSample:
    """What sets one sample apart from another."""

    name: str
    classes: tuple[str, ...]
    held_out_per_class: int | tuple[int, ...]
    network: Callable[[], Classifier]
    recipe: training.Recipe
    attacked: int = 1000
    """So many of the test images, the first ones, are attacked."""
    search: Search = field(default_factory=Search)
    strengths: Strengths = field(default_factory=lambda: PICTURES)
    edges: bool = False
    """Whether the corrupted bundle has the edges of the images, too."""


def fit(sample: ImageSample, data: ImageSet, say: training.Say, loss: str = "NLL") -> Classifier:
    """The network after its recipe, trained on what is not held out; a finished one is taken from its checkpoint."""
    fitted, held = hold_out(data.train_labels, sample.held_out_per_class, sample.recipe.seed)
    pixels, labels = torch.from_numpy(data.train_images), torch.from_numpy(data.train_labels).long()
    bar = ProgressBar()
    try:
        return training.train(
            sample.network,
            (pixels[fitted], labels[fitted]),
            (pixels[held], labels[held]),
            sample.recipe,
            cache_folder() / f"{bundle_name(sample, loss)}.ckpt",
            loss=LOSSES[loss],
            say=say,
            run=Run(bar),
        )
    finally:
        bar.close()


def clean(sample: ImageSample, data: ImageSet, model: Classifier) -> bundles.Arrays:
    """The held-out images as validation, the published test images as test."""
    return _validation(sample, data, model) | bundles.part("test", model, data.test_images, data.test_labels)


def attack(sample: ImageSample, data: ImageSet, model: Classifier, say: training.Say) -> bundles.Arrays:
    """`test_cw_l2`: the distance of every attacked test image; NaN for the others and where the attack failed."""
    bar = ProgressBar()
    try:
        images = data.test_images[: sample.attacked]
        found = attacking.distances(sample.name, model, images, sample.search, say, Run(bar))
    finally:
        bar.close()
    return {"test_cw_l2": np.pad(found, (0, len(data.test_images) - len(found)), constant_values=np.nan)}


def corrupted(sample: ImageSample, data: ImageSet, model: Classifier, say: training.Say) -> bundles.Arrays:
    """The same clean validation part, and test images under corruptions."""
    test = bundles.corrupted(model, data.test_images, data.test_labels, sample.strengths, sample.edges, say)
    return _validation(sample, data, model) | test


def bundle_name(sample: ImageSample, loss: str) -> str:
    """The sample's name for the plain loss, else with the loss: `fashion_ls_0_05`."""
    if loss == "NLL":
        return sample.name
    return sample.name + "_" + "".join(letter if letter.isalnum() else "_" for letter in loss.lower())


def _validation(sample: ImageSample, data: ImageSet, model: Classifier) -> bundles.Arrays:
    _, held = hold_out(data.train_labels, sample.held_out_per_class, sample.recipe.seed)
    part = bundles.part("val", model, data.train_images[held], data.train_labels[held])
    return part | bundles.shared(model, sample.classes)
