"""Convert what a caller passes (NumPy arrays, torch tensors on any device, lists) to checked NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, bfloat16

from smart_core.errors import CalibrationError
from smart_core.kernels.row_reading import RowStatistics, read_rows
from smart_core.types import BoolArray, FloatArray, IntArray, Vector

ROUNDING = 1e-6
"""Largest distance from [0, 1] of a float32 softmax value that still counts as rounding."""

ROW_SUM = 1e-3
"""Largest distance from 1 of the sum of a row of probabilities; ten times as much in bfloat16, which has three
digits."""

Values = ArrayLike | Tensor
"""Anything a metric accepts as an array."""

Evaluated = Any
"""An `Evaluation`, or `Samples` in its place."""


class MetricError(CalibrationError, ValueError):
    """Raised if a metric cannot be computed from its arguments; a `ValueError`, as callers of functions expect."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Per-sample arrays in the place of an `Evaluation`; each metric needs some of them only."""

    confidence: Values | None = None
    correct: Values | None = None
    nll: Values | None = None
    brier: Values | None = None
    cells: Any = None
    """Sums per class and bin, a `ClasswiseCells`."""


def needed(evaluation: Evaluated, name: str, metric: str) -> Any:
    """Return an attribute of the evaluation, or raise an error that says what the metric needs."""
    value = getattr(evaluation, name, None)
    if value is None:
        what = {"cells": "classwise sums, `cells`", "confidence": "confidences", "correct": "correctness values"}
        raise MetricError(f"For {metric} the evaluation needs the {what.get(name, f'losses, `{name}`')}.")
    return value


def as_array(values: Values) -> NDArray[Any]:
    """Return a NumPy view of `values`; torch tensors are detached and moved to the CPU, bfloat16 is widened."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return np.asarray((values.float() if values.dtype == bfloat16 else values).numpy())
    return np.asarray(values)


def as_vector(values: Values, name: str = "values") -> FloatArray:
    """Return a 1-D floating-point vector in its own precision; integers and booleans become float64.

    float32 stays float32, because bin edges are rounded to the precision of the confidences.
    """
    array = as_array(values)
    if array.ndim == 2 and 1 in array.shape:
        array = array.reshape(-1)
    if array.ndim != 1:
        raise MetricError(
            f"The {name} must be a vector with one number per sample, but have the shape {array.shape}; "
            "metrics.top_label(probs, labels) computes confidence and correctness from rows of probabilities."
        )
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def confidences(values: Values) -> FloatArray:
    """Return checked confidences in their own precision, with rounding beyond [0, 1] removed."""
    p = as_vector(values, "confidences")
    if p.size == 0:
        raise MetricError("There are no samples; a calibration metric needs at least one.")
    low, high = float(p.min()), float(p.max())
    if np.isnan(low) or np.isnan(high):
        raise MetricError(f"Confidence {int(np.isnan(p).argmax())} is not a number (NaN); leave such samples out.")
    if low < -ROUNDING or high > 1 + ROUNDING:
        raise MetricError(f"The confidences must lie in [0, 1], but range from {low:g} to {high:g}.")
    return np.clip(p, 0, 1)


def confidence_and_correct(confidence: Values, correct: Values) -> tuple[FloatArray, Vector]:
    """Return confidences in [0, 1] in their own precision, and correctness as float64 zeros and ones."""
    p, a = as_vector(confidence, "confidences"), as_vector(correct, "correctness values").astype(np.float64)
    if p.shape != a.shape:
        raise MetricError(f"There are {p.size} confidences but {a.size} correctness values; each sample needs both.")
    p = confidences(p)
    if not np.isin(a, (0.0, 1.0)).all():
        raise MetricError("Correctness must be true or false (1 or 0) for every sample.")
    return p, a


def residuals(confidence: Values, correct: Values) -> tuple[Vector, Vector]:
    """Return confidences p and residuals a - p, both float64."""
    own_precision, a = confidence_and_correct(confidence, correct)
    p = own_precision.astype(np.float64)
    return p, a - p


def losses(values: Values, name: str) -> Vector:
    """Return one finite float64 number per sample."""
    vector = as_vector(values, f"{name} values").astype(np.float64)
    if vector.size == 0:
        raise MetricError(f"There are no samples; the {name} needs at least one.")
    if not np.isfinite(vector).all():
        raise MetricError(f"The {name} of sample {int((~np.isfinite(vector)).argmax())} is not finite.")
    return vector


def probabilities_and_labels(probs: Values, labels: Values) -> tuple[FloatArray, IntArray, RowStatistics]:
    """Return checked (N, K) probabilities in their own precision, (N,) integer labels in 0..K-1, and what the check has
    computed of each row."""
    matrix, y = as_array(probs), as_array(labels).reshape(-1)
    if matrix.ndim != 2:
        raise MetricError(f"The probabilities must be an (N, K) array, but have the shape {matrix.shape}.")
    if matrix.shape[0] != y.size:
        raise MetricError(f"There are {matrix.shape[0]} rows of probabilities but {y.size} labels.")
    if y.size == 0:
        raise MetricError("There are no samples; a metric needs at least one.")
    whole = y.astype(np.int64)
    if whole.min() < 0 or whole.max() >= matrix.shape[1] or (y.dtype.kind == "f" and bool((y != whole).any())):
        raise MetricError(f"The labels must be whole numbers in 0..{matrix.shape[1] - 1}.")
    matrix = matrix if matrix.dtype.kind == "f" else matrix.astype(np.float64)
    rows = read_rows(matrix)
    tolerance = 10 * ROW_SUM if isinstance(probs, Tensor) and probs.dtype == bfloat16 else ROW_SUM
    wrong = ~(np.abs(rows.total - 1) <= tolerance) | (rows.least < -ROUNDING)  # written so that NaN fails it
    if wrong.any():
        row = int(wrong.argmax())
        if np.isnan(rows.total[row]):
            raise MetricError(f"Row {row} of the probabilities holds a value that is not a number (NaN); leave it out.")
        raise MetricError(
            f"Row {row} of the probabilities sums to {rows.total[row]:g} and has a smallest value of "
            f"{matrix[row].min():g}; probabilities are not negative and sum to 1, so take the softmax of logits first."
        )
    return matrix, whole, rows


def top_label(probs: Values, labels: Values) -> tuple[FloatArray, BoolArray]:
    """Return the confidence max_k p_k and the correctness [argmax_k p_k == y] of each row; ties go to the first class.

    >>> confidence, correct = top_label([[0.7, 0.3], [0.4, 0.6]], [0, 0])
    >>> confidence.tolist(), correct.tolist()
    ([0.7, 0.6], [True, False])
    """
    _, y, rows = probabilities_and_labels(probs, labels)
    return rows.top, rows.place == y
