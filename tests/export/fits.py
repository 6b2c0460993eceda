"""Fitted calibrators, and rows to try their exported forms on."""

from __future__ import annotations

import numpy as np

from smart_core.calibrators import Calibrator, get, methods
from tests.calibrators.problems import Problem, over_confident

ALL = list(methods())
QUICK = {"smart": {"epochs": 60}, "gc": {"partitions": 3}}


def fitted(id: str, problem: Problem, **settings: object) -> Calibrator:
    return get(id, **{**QUICK.get(id, {}), **settings}).fit(problem.logits, problem.labels, **problem.fit_arguments())


def extreme(classes: int) -> np.ndarray:
    """Rows that break careless arithmetic: huge, the largest, tied, nearly tied, constant, far from 0, and zeros."""
    rng = np.random.default_rng(5)
    base = (rng.normal(size=(40, classes)) * 3).astype(np.float32)
    rows = np.arange(len(base))
    order = np.argsort(base, axis=1)
    tied, nearly = base.copy(), base.copy()
    tied[rows, order[:, -2]] = tied[rows, order[:, -1]]
    nearly[rows, order[:, -2]] = np.nextafter(nearly[rows, order[:, -1]], np.float32(-np.inf))
    constant = np.repeat(np.float32([0, -7.3, 5, 1e30, -1e30, 1e-30]), classes).reshape(6, classes)
    return np.concatenate(
        [
            base * np.float32(1e30),
            np.sign(base) * np.float32(3.3e38),
            tied,
            nearly,
            tied * np.float32(1e30),
            constant,
            base + np.float32(1e3),
            base * 8,
            np.sign(base) * np.float32(1e4),
            base * np.float32(1e4),
        ]
    )


def arguments(calibrator: Calibrator, logits: np.ndarray, features: np.ndarray) -> dict[str, np.ndarray]:
    return {"logits": logits, "features": features} if calibrator.features_used_ else {"logits": logits}


def ordinary_and_extreme(classes: int) -> tuple[np.ndarray, np.ndarray]:
    """1000 rows of logits like those of the fit and all the extreme ones, and features for them.

    The features of the odd rows are ordinary: what is odd about them are the logits.
    """
    other, odd = over_confident(1000, classes, seed=7), extreme(classes)
    features = np.resize(other.features, (len(odd), other.features.shape[1]))
    return np.concatenate([other.logits, odd]), np.concatenate([other.features, features])
