"""Rows with different numbers of classes, such as the choices of a question, as one matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smart_core.data.formats.limits import Budget
from smart_core.data.logitset import Array

_SUMS = 1e-3
"""How far from 1 the sum of a row of probabilities may be."""


def padded(budget: Budget, label: str, rows: Sequence[Array]) -> Array:
    """Return the rows as a matrix, with -inf for each class that a row does not have.

    Probabilities become their logarithms, because a class of probability 0 is one that the row has.

    >>> padded(Budget("a.json", 100), "logits", [np.array([1.0, 2.0]), np.array([3.0])])
    array([[  1.,   2.],
           [  3., -inf]])
    """
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    width = int(lengths.max(initial=0))
    budget.charge(label, 8 * len(rows) * width)
    flat: Any = np.concatenate(rows).astype(np.float64) if len(rows) else np.empty(0)
    if len(flat) and flat.min() >= 0 and lengths.min() > 0:
        sums = np.add.reduceat(flat, np.concatenate([[0], lengths.cumsum()[:-1]]))
        if np.abs(sums - 1).max() < _SUMS:
            flat = np.log(np.maximum(flat, np.finfo(np.float32).tiny))
    matrix = np.full((len(rows), width), -np.inf)
    matrix[np.arange(width) < lengths[:, None]] = flat
    return matrix
