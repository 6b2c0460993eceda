"""Fitted calibrators, rows to try their exported forms on, and how close these must come."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from smart_core.calibrators import Calibrator, get, mlp
from smart_core.calibrators.smart import SMART
from smart_core.fitting.indicators import INDICATORS
from smart_core.types import Logits
from tests.calibrators.fits import ALL, QUICK, fitted
from tests.calibrators.made_up import degenerate
from tests.calibrators.problems import over_confident
from tests.tolerance import PROBABILITY, float32_bound, moved_by_temperature


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


def temperatures_off(calibrator: Calibrator, logits: np.ndarray) -> np.ndarray:
    """(N,) how far the engine's temperatures may lie from exact ones, relative to them.

    SMART's network is float32: layer by layer, an error is relative to the sum of the absolute values of all terms,
    which cancel where logits of 1e30 have either sign. Other networks are float64, and what is left is one rounding.
    """
    off = np.full(len(logits), float32_bound(2))
    if not isinstance(calibrator, SMART):
        return off
    values = INDICATORS[calibrator.indicator](Logits(torch.from_numpy(logits))).double()
    scale = (values.abs() + calibrator.mean_.abs()) / calibrator.std_
    terms = 4  # of the indicator and its standardisation
    for weight, bias in mlp.unpack(calibrator.theta_.double(), calibrator._sizes()):
        scale = scale @ weight.abs().T + bias.abs()
        terms += len(weight.T) + 1
    return off + float32_bound(terms / 2, scale[:, 0].numpy() / calibrator.temperatures(logits))


def probabilities_off(calibrator: Calibrator, logits: np.ndarray) -> np.ndarray:
    """(N, 1) how far the engine's probabilities may lie from exact ones."""
    return PROBABILITY + moved_by_temperature(temperatures_off(calibrator, logits), calibrator.classes_)[:, None]


Case = tuple[Calibrator, dict[str, np.ndarray]]
"""A fitted calibrator and the arrays to apply its exported forms to."""

OTHER_SETTINGS: list[tuple[str, dict[str, object]]] = [
    *(("smart", {"indicator": name}) for name in INDICATORS),
    ("smart", {"layers": 3, "hidden": 40, "standardize": False, "init": "random"}),
    ("spline", {"top1": "keep"}),
    ("histogram", {"scheme": "width"}),
    ("procal", {"neighbours": 3}),
    ("pts", {"top": 3}),
]
"""Settings with which a method computes something else."""


def _ordinary(id: str, samples: int, classes: int, seed: int, settings: dict[str, object]) -> Case:
    calibrator = fitted(id, over_confident(samples, classes, seed=seed), **settings)
    return calibrator, arguments(calibrator, *ordinary_and_extreme(classes))


def _without_features(id: str, classes: int) -> Case:
    """Normalised rows of two logits lie on a circle, so close that float32 cannot resolve their distances."""
    fit_on = over_confident(600, classes, seed=2)
    calibrator = get(id, **QUICK.get(id, {})).fit(fit_on.logits, fit_on.labels)
    return calibrator, {"logits": ordinary_and_extreme(classes)[0]}


def _at_the_edge(id: str, kind: str) -> Case:
    sample = degenerate()[kind]
    calibrator = fitted(id, sample)
    return calibrator, arguments(calibrator, sample.logits, sample.features)


CASES: dict[str, Callable[[], Case]] = {
    **{
        f"{id}_{classes}_classes_seed_{seed}": partial(_ordinary, id, 600, classes, seed, {})
        for classes, seed in [(2, 1), (6, 1), (6, 2), (30, 2)]
        for id in ALL
    },
    **{f"{id}_set_{n}": partial(_ordinary, id, 400, 5, 3, wanted) for n, (id, wanted) in enumerate(OTHER_SETTINGS)},
    **{f"{id}_{k}_logits": partial(_without_features, id, k) for k in (2, 5) for id in ("gc", "procal")},
    **{
        f"{id}_{kind.replace(' ', '_')}": partial(_at_the_edge, id, kind)
        for kind in sorted(degenerate().keys() - {"many classes"})
        for id in ALL
    },
}
"""What every exported form is tried on: ordinary and extreme rows, other settings, logits in place of features, and
fits on validation sets at the edge of what a fit can meet."""
