"""What the tests of several methods ask in the same words."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import sample_logits
import smart_core as sc
from smart_core.calibrators import Calibrator
from smart_core.calibrators.store import calibrator_bytes, load_calibrator
from tests.calibrators.made_up import Sample
from tests.conftest import real_data


def apply(calibrator: Calibrator, sample: Sample) -> NDArray[np.float32]:
    return calibrator.predict_proba(sample.logits, features=sample.features)


def assert_proper_rows(probabilities: NDArray[np.floating]) -> None:
    assert np.isfinite(probabilities).all()
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)


def assert_same_bits_after_saving(calibrator: Calibrator, sample: Sample) -> None:
    loaded = load_calibrator(calibrator_bytes(calibrator), device="cpu")
    assert np.array_equal(apply(loaded, sample), apply(calibrator, sample))


CIFAR10 = ("published", "bundled")
"""The network behind the paper's figures, where its logits are at hand, and the sample that is always here."""


def cifar10(which: str) -> sc.LogitSet:
    if which == "bundled":
        return sc.load(sample_logits.path("cifar10"))
    folder = real_data("resnet50_cifar10_ce")
    return sc.load(val=folder / "val.pt", test=folder / "test.pt")


def cifar10_resnet50() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Validation and test (logits, labels) of the network behind the known figures."""
    folder = real_data("resnet50_cifar10_ce")
    validation, test = (
        torch.load(folder / name, map_location="cpu", weights_only=True) for name in ("val.pt", "test.pt")
    )
    return validation, test
