"""Bring what a caller hands over (NumPy, torch on any device, lists) to checked NumPy vectors, once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, bfloat16

from smart_core.types import FloatArray, IntArray

ROUNDING = 1e-6
"""How far outside [0, 1] a float32 softmax may stray before the value counts as wrong."""

Values = ArrayLike | Tensor
"""Anything a metric accepts as an array."""


def as_array(values: Values) -> NDArray[Any]:
    """NumPy view of `values`; torch tensors are detached and brought to the CPU, bfloat16 is widened."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return np.asarray((values.float() if values.dtype == bfloat16 else values).numpy())
    return np.asarray(values)


def as_vector(values: Values) -> FloatArray:
    """1-D floating vector in the precision it came in; integers and booleans become float64.

    float32 stays float32, because bin edges are rounded to the precision of the confidences.
    """
    array = as_array(values)
    if array.ndim == 2 and 1 in array.shape:
        array = array.reshape(-1)
    if array.ndim != 1:
        raise ValueError(f"expected a vector, got an array of shape {array.shape}")
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def confidence_and_correct(confidence: Values, correct: Values) -> tuple[FloatArray, NDArray[np.float64]]:
    """Checked pair: confidences in [0, 1] in their own precision, correctness as float64 zeros and ones."""
    p, a = as_vector(confidence), as_vector(correct).astype(np.float64)
    if p.shape != a.shape:
        raise ValueError(f"{p.size} confidences but {a.size} correctness values")
    if p.size == 0:
        raise ValueError("no samples: a calibration metric needs at least one")
    low, high = float(p.min()), float(p.max())
    if not (low >= -ROUNDING and high <= 1 + ROUNDING):  # written so that NaN fails it
        raise ValueError(f"confidences must lie in [0, 1]; found values from {low:g} to {high:g}")
    if not np.isin(a, (0.0, 1.0)).all():
        raise ValueError("correctness must be true or false (1 or 0) for every sample")
    return np.clip(p, 0, 1), a


def residuals(confidence: Values, correct: Values) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Confidences p and residuals a - p, both float64."""
    own_precision, a = confidence_and_correct(confidence, correct)
    p = own_precision.astype(np.float64)
    return p, a - p


def probabilities_and_labels(probs: Values, labels: Values) -> tuple[FloatArray, IntArray]:
    """Checked pair: (N, K) probabilities in their own precision, (N,) integer labels in 0..K-1."""
    matrix, y = as_array(probs), as_array(labels).reshape(-1)
    if matrix.ndim != 2:
        raise ValueError(f"expected an (N, K) array of probabilities, got shape {matrix.shape}")
    if matrix.shape[0] != y.size:
        raise ValueError(f"{matrix.shape[0]} rows of probabilities but {y.size} labels")
    if y.size == 0:
        raise ValueError("no samples: a metric needs at least one")
    y = y.astype(np.int64)
    if y.min() < 0 or y.max() >= matrix.shape[1]:
        raise ValueError(f"labels must lie in 0..{matrix.shape[1] - 1}")
    return matrix if matrix.dtype.kind == "f" else matrix.astype(np.float64), y


def top_label(probs: Values, labels: Values) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Confidence max_k p_k and correctness [argmax_k p_k == y] of every row; ties go to the first class."""
    matrix, y = probabilities_and_labels(probs, labels)
    prediction = matrix.argmax(axis=1)
    return matrix[np.arange(y.size), prediction], prediction == y
