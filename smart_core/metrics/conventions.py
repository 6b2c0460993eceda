"""The ECE as other packages define it: how bins are closed, how many there are, and of what.

Each convention is computed here by the project's own code, so that the same test set can be compared with a number
printed by another package. The tests run the packages themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from smart_core.metrics.arrays import Evaluated, Values, confidence_and_correct
from smart_core.metrics.binned import ece
from smart_core.metrics.smooth_ece import smece
from smart_core.types import IntArray, Vector


@dataclass(frozen=True)
class Convention:
    """A package's ECE of the top-1 confidence: its value, and how it differs from this project's."""

    package: str
    call: str
    """How the package is called, with its default number of bins."""
    value: Callable[[Values, Values], float]
    difference: str
    class_one: bool = False
    """Whether, with two classes, it takes the probability of class 1 against the label."""

    def of(self, evaluation: Evaluated, classes: int) -> float:
        """The value of an evaluation."""
        p, a = np.asarray(evaluation.confidence), np.asarray(evaluation.correct).astype(bool)
        if self.class_one and classes == 2:
            one = np.asarray(evaluation.prediction) == 1
            p, a = np.where(one, p, 1 - p), np.where(one, a, ~a)
        return self.value(p, a)


def left_closed_ece(confidence: Values, correct: Values, bins: int, *, one_apart: bool) -> float:
    """Return the ECE over bins [l, u): a confidence on an edge belongs to the bin above it.

    A confidence of exactly 1 has a bin of its own (`one_apart`), or belongs to the last one. Bins are compared in
    float64 if `one_apart` is false, as NumPy's histogram does, and in the precision of the confidences otherwise.

    >>> round(left_closed_ece([0.5, 0.7], [1, 0], bins=2, one_apart=False), 12)
    0.1
    >>> round(ece([0.5, 0.7], [1, 0], bins=2), 12)  # closed on the right: 0.5 and 0.7 are apart
    0.6
    """
    p, a = confidence_and_correct(confidence, correct)
    edges = np.linspace(0.0, 1.0, bins + 1).astype(p.dtype if one_apart else np.float64)
    index = np.searchsorted(edges, p, side="right") - 1
    return _summed(index if one_apart else np.minimum(index, bins - 1), p.astype(np.float64), a)


def width_divided_ece(confidence: Values, correct: Values, bins: int) -> float:
    """Return the ECE over the bins `floor(p / width)`, a division that rounds: edges may fall on either side.

    >>> round(width_divided_ece([0.5, 0.7], [1, 0], bins=2), 12)
    0.1
    """
    p, a = confidence_and_correct(confidence, correct)
    index = (p.astype(np.float64) / (1.0 / bins)).astype(np.int64)
    return _summed(index, p.astype(np.float64), a)


def _summed(index: IntArray, p: Vector, a: Vector) -> float:
    return float(np.abs(np.bincount(index, weights=p - a)).sum() / p.size)


CONVENTIONS = (
    Convention(
        "this project",
        "ece(confidence, correct, bins=15)",
        lambda p, a: ece(p, a, 15),
        "15 bins (l, u], the first closed at 0.",
    ),
    Convention(
        "calibench",
        "ECE(n_bins=15)",
        lambda p, a: ece(p, a, 15),
        "15 bins (l, u]: the same. A confidence of exactly 0 would not count; a top-1 confidence is never 0.",
    ),
    Convention(
        "torchmetrics",
        'MulticlassCalibrationError(K, n_bins=15, norm="l1")',
        lambda p, a: left_closed_ece(np.asarray(p, dtype=np.float32), a, 15, one_apart=True),
        "15 bins [l, u), and a confidence that is exactly 1 in a bin of its own; float32.",
    ),
    Convention(
        "probmetrics",
        'Metrics.from_names(["ece-15"])',
        lambda p, a: left_closed_ece(np.asarray(p, dtype=np.float32), a, 15, one_apart=True),
        "torchmetrics' bins. With two classes it takes the probability of class 1 against the label, not the top-1 "
        "confidence against correctness.",
        class_one=True,
    ),
    Convention(
        "netcal",
        "ECE(bins=10).measure(probabilities, labels)",
        lambda p, a: left_closed_ece(p, a, 10, one_apart=False),
        "10 bins [l, u), the last one closed.",
    ),
    Convention(
        "scikit-learn",
        "calibration_curve(correct, confidence, n_bins=5)",
        lambda p, a: ece(np.asarray(p, dtype=np.float64), a, 5),
        "No ECE, but the points of a reliability diagram: 5 bins (l, u], whose gaps are added up here by the number of "
        "their samples.",
    ),
    Convention(
        "relplot",
        "metrics.binnedECE(confidence, correct, nbins=10)",
        lambda p, a: width_divided_ece(p, a, 10),
        "10 bins [l, u), and exactly 1 in a bin of its own; the edge comes from a rounded division.",
    ),
    Convention(
        "relplot, SmoothECE",
        "smECE(confidence, correct)",
        lambda p, a: smece(p, a),
        "No bins: the gap after smoothing. This is the exact value; the package undercounts what its kernel reflects "
        "at 0 and 1, so close to 1 it prints another one.",
    ),
)
"""The rows under "Which ECE?"."""
