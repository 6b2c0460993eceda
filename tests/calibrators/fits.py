"""Fits of every method on small sets; equal ones are made once in a process and handed out as copies."""

from __future__ import annotations

import copy
from typing import Any

from smart_core.calibrators import Calibrator, get, methods
from smart_core.calibrators.inputs import TWO_CLASSES

ALL = [id for id, method in methods().items() if TWO_CLASSES not in method.needs]
"""Methods for any number of classes; the others have tests of their own."""
QUICK: dict[str, dict[str, Any]] = {
    "smart": {"epochs": 60},
    "fc": {"search": "coarse"},
    "gc": {"partitions": 3},
    "iop": {"epochs": 40},
    "refined": {"folds": 2},
}
"""Settings that keep the shared tests short; what they assert does not depend on these."""

_MADE: dict[tuple[Any, ...], Calibrator] = {}


def fitted(id: str, problem: Any, **settings: Any) -> Calibrator:
    """A method fitted to a `Problem` or `Sample`, its features and head included; the caller may change it."""
    arrays = (problem.logits, problem.labels, problem.features, *problem.head)
    key = (id, repr(sorted(settings.items())), *(array.tobytes() for array in arrays))
    if key not in _MADE:
        _MADE[key] = fit_again(id, problem, **settings)
    return copy.deepcopy(_MADE[key])


def fit_again(id: str, problem: Any, **settings: Any) -> Calibrator:
    """The same, always by a new fit."""
    calibrator = get(id, **{**QUICK.get(id, {}), **settings})
    return calibrator.fit(problem.logits, problem.labels, features=problem.features, head=problem.head)
