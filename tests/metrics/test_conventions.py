"""Each convention of the ECE against the package that has it, on confidences with ties, on edges and at 1."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from smart_core.metrics import Samples
from smart_core.metrics.conventions import CONVENTIONS, Convention


def named(package: str) -> Convention:
    (found,) = [each for each in CONVENTIONS if each.package == package]
    return found


@pytest.fixture(scope="module", params=[0, 1])
def rows(request: pytest.FixtureRequest) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of four classes and labels: some on the edges of 10 and 15 bins, some exactly 1."""
    rng = np.random.default_rng(request.param)
    on_edges = np.concatenate([rng.integers(8, 15, 60) / 15, rng.integers(5, 10, 60) / 10])
    top = np.concatenate([rng.uniform(0.3, 1, 400), np.ones(60), on_edges])
    probs = np.tile(((1 - top) / 3)[:, None], 4)
    place = rng.integers(0, 4, len(top))
    probs[np.arange(len(top)), place] = top
    right = rng.random(len(top)) < top + 0.25 * np.sin(25 * top)  # gaps of both signs, or every bin would do
    labels = np.where(right, place, (place + 1) % 4)
    return probs.astype(np.float32), labels


def value(package: str, rows: tuple[np.ndarray, np.ndarray]) -> float:
    probs, labels = rows
    return named(package).value(probs.max(axis=1), probs.argmax(axis=1) == labels)


def test_torchmetrics(rows):
    from torchmetrics.functional.classification import multiclass_calibration_error

    probs, labels = (torch.from_numpy(array) for array in rows)
    expected = multiclass_calibration_error(probs, labels, num_classes=4, n_bins=15, norm="l1")
    assert value("torchmetrics", rows) == pytest.approx(float(expected), abs=1e-5)


def test_probmetrics(rows):
    metrics = pytest.importorskip("probmetrics.metrics")
    from probmetrics.distributions import CategoricalLogits, CategoricalProbs

    probs, labels = (torch.from_numpy(array) for array in rows)
    error = metrics.CalibrationError(n_bins=15)
    truth = CategoricalLogits(torch.nn.functional.one_hot(labels, 4) * 1e4)
    expected = float(error._compute_mean(truth, CategoricalProbs(probs)))
    assert value("probmetrics", rows) == pytest.approx(expected, abs=1e-5)
    # with two classes it is another quantity
    two = probs[:, :2].clamp(min=1e-3)
    two, labels = two / two.sum(dim=1, keepdim=True), labels % 2
    truth = CategoricalLogits(torch.nn.functional.one_hot(labels, 2) * 1e4)
    expected = float(error._compute_mean(truth, CategoricalProbs(two)))
    confidence, prediction = (array.numpy() for array in two.max(dim=1))
    samples = Samples(confidence=confidence, correct=prediction == labels.numpy())
    object.__setattr__(samples, "prediction", prediction)
    assert named("probmetrics").of(samples, 2) == pytest.approx(expected, abs=1e-4)


def test_netcal(rows):
    """In float64: of float32 probabilities it rounds the edges for its means, but not for its counts."""
    netcal = pytest.importorskip("netcal.metrics")
    probs, labels = rows
    expected = netcal.ECE(bins=10).measure(probs.astype(np.float64), labels)
    assert value("netcal", rows) == pytest.approx(float(expected), abs=1e-6)


def test_scikit_learn(rows):
    from sklearn.calibration import calibration_curve

    probs, labels = rows
    p, a = probs.max(axis=1).astype(np.float64), probs.argmax(axis=1) == labels
    accuracy, confidence = calibration_curve(a, p, n_bins=5)
    edges = np.linspace(0, 1, 6)
    count = np.bincount(np.searchsorted(edges[1:-1], p), minlength=5)
    expected = np.sum(count[count > 0] / len(p) * np.abs(accuracy - confidence))
    assert value("scikit-learn", rows) == pytest.approx(expected, abs=1e-6)


def test_relplot(rows):
    relplot = pytest.importorskip("relplot")
    probs, labels = rows
    p, a = probs.max(axis=1).astype(np.float64), probs.argmax(axis=1) == labels
    assert value("relplot", rows) == pytest.approx(relplot.metrics.binnedECE(p, a, nbins=10), abs=1e-6)
    inside = (p > 0.4) & (p < 0.75)  # far from 0 and 1, where its reflection is right
    ours = named("relplot, SmoothECE").value(p[inside], a[inside])
    assert ours == pytest.approx(relplot.smECE(p[inside], a[inside]), abs=2e-3)


def test_calibench(rows):
    """The formula of its code: samples above the lower and not above the upper edge."""
    probs, labels = rows
    p, a = probs.max(axis=1), probs.argmax(axis=1) == labels
    edges = np.linspace(0, 1, 16)
    total = 0.0
    for low, high in pairwise(edges):
        inside = (p > np.float32(low)) & (p <= np.float32(high))
        if inside.any():
            total += inside.mean() * abs(a[inside].mean() - p[inside].mean())
    assert value("calibench", rows) == value("this project", rows) == pytest.approx(total, abs=1e-6)


def test_the_conventions_differ_on_these_rows(rows):
    values = {each.package: value(each.package, rows) for each in CONVENTIONS}
    assert len({round(found, 6) for found in values.values()}) >= 5
