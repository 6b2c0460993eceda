"""Other packages, installed here where the environment lacks them: into a throw-away folder, gone at the end."""

from __future__ import annotations

import importlib
import logging
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib.util import find_spec
from io import StringIO

import numpy as np
import torch

NEEDED = {
    "netcal": "netcal==1.4.0",
    "torchmetrics": "torchmetrics==1.9.0",
    "torchmin": "pytorch-minimize==0.1.0",
    "probmetrics": "probmetrics==1.3.0",
    "patsy": "patsy==1.0.2",
    "statsmodels": "statsmodels==0.14.6",
    "faiss": "faiss-cpu==1.13.0",
}
"""Module -> what to install."""


@contextmanager
def installed() -> Iterator[None]:
    """Inside, every peer can be imported. The packages they need beside each other are in the environment already."""
    missing = [package for module, package in NEEDED.items() if find_spec(module) is None]
    with tempfile.TemporaryDirectory() as folder:
        if missing:
            command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder, *missing]
            subprocess.run(command, check=True)
            sys.path.append(folder)
            importlib.invalidate_caches()
        try:
            yield
        finally:
            if folder in sys.path:
                sys.path.remove(folder)


@contextmanager
def quietly() -> Iterator[None]:
    """Without the bars and logs that peers print."""
    logging.disable(logging.WARNING)
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        yield
    logging.disable(logging.NOTSET)


def temperature_peers(logits: np.ndarray, labels: np.ndarray) -> dict[str, Callable[[], float]]:
    """Name -> temperature scaling that returns T."""
    from netcal.scaling import TemperatureScaling
    from probmetrics.calibrators.temperature_scaling import TemperatureScalingCalibrator
    from probmetrics.distributions import CategoricalLogits
    from sklearn.calibration import _TemperatureScaling

    z, y = torch.from_numpy(logits), torch.from_numpy(labels)
    # from float32 probabilities netcal stays at T = 1: its numerical derivative vanishes
    probabilities = torch.softmax(z.double(), dim=1).numpy()

    def by_netcal() -> float:
        with quietly():
            return 1.0 / float(np.asarray(TemperatureScaling().fit(probabilities, labels).temperature).item())

    def by_probmetrics() -> float:
        calibrator = TemperatureScalingCalibrator()
        calibrator.fit_torch(CategoricalLogits(z), y)
        return 1.0 / float(calibrator.invtemp_)

    def by_sklearn() -> float:
        return 1.0 / float(_TemperatureScaling().fit(logits, labels).beta_)

    return {"netcal": by_netcal, "scikit-learn": by_sklearn, "probmetrics": by_probmetrics}


def ece_peers(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, Callable[[], float]]:
    """Name -> ECE with 15 bins."""
    from netcal.metrics import ECE
    from torchmetrics.functional.classification import multiclass_calibration_error

    p, y = torch.from_numpy(probabilities), torch.from_numpy(labels)

    def by_netcal() -> float:
        with quietly():
            return float(ECE(15).measure(probabilities, labels))

    return {
        "torchmetrics": lambda: float(multiclass_calibration_error(p, y, p.shape[1], n_bins=15)),
        "netcal": by_netcal,
    }


def procal_peer(
    validation: np.ndarray, labels: np.ndarray, test: np.ndarray, neighbours: int = 10
) -> Callable[[], np.ndarray]:
    """ProCal as its authors compute it, on the logits: exact neighbours by faiss, densities by statsmodels.

    Fitted on validation; returns the calibrated probabilities of test, float64 like the authors'. Each row is divided
    by its own norm; their script divides test rows by the norms of the validation rows in the same places.
    """
    import faiss
    from scipy.special import softmax
    from statsmodels.nonparametric.kernel_density import KDEMultivariate

    def calibrated() -> np.ndarray:
        known, new = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (validation, test))
        index = faiss.IndexFlatL2(known.shape[1])
        index.add(known)
        own = np.exp(-index.search(known, neighbours + 1)[0][:, 1:]).mean(axis=1)
        near = np.exp(-index.search(new, neighbours)[0]).mean(axis=1)
        probabilities = softmax(validation, axis=1)
        hit = probabilities.argmax(axis=1) == labels
        points = np.stack([probabilities.max(axis=1), own], axis=1)
        right, wrong = (KDEMultivariate(points[rows], "cc", "normal_reference") for rows in (hit, ~hit))
        rows = softmax(test, axis=1)
        queries = np.stack([rows.max(axis=1), near], axis=1)
        for_hit, for_miss = right.pdf(queries), wrong.pdf(queries)
        confidence = for_hit / np.maximum(for_hit + for_miss * (~hit).sum() / hit.sum(), 1e-10)
        place = np.arange(len(rows)), rows.argmax(axis=1)
        rows[place] = 0.0
        rows *= ((1.0 - confidence) / rows.sum(axis=1))[:, None]
        rows[place] = confidence
        return rows

    return calibrated
