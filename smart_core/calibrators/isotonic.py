"""Isotonic regression (Zadrozny & Elkan, 2002) of the hits on the top-1 confidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smart_core.calibrators.base import LineStyle
from smart_core.calibrators.rules import INCREASING, NOT_INCREASING, PROBABILITIES
from smart_core.calibrators.toplabel import LineCalibrator
from smart_core.types import FloatArray, IntArray


@dataclass(kw_only=True, eq=False)
class Isotonic(LineCalibrator):
    """`c(s)`, the non-decreasing function of the confidence s with the least squared error to the hits.

    Linear between the validation confidences, constant beyond them. Departure: the original maps each class's
    probability and normalises; this maps the top-1 confidence, and the other classes share the rest.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits").validation
    >>> isotonic = sc.Isotonic().fit(data.logits, data.labels)
    >>> bool((isotonic.values_.diff() <= 0).all())  # as a function of 1 - s
    True
    """

    id = "isotonic"
    label = "Isotonic"
    summary = "Isotonic regression of correctness on the top-1 confidence."
    position = 13
    style = LineStyle("#9A7B1F", "dash", "cross-open")
    rules = (("nodes_", PROBABILITIES, INCREASING), ("values_", PROBABILITIES, NOT_INCREASING))
    libraries = ("scipy.optimize",)

    def _line(self, u: FloatArray, hits: FloatArray) -> tuple[FloatArray, FloatArray]:
        return non_increasing_line(u, hits)


def non_increasing_levels(x: FloatArray, y: FloatArray) -> tuple[FloatArray, IntArray, FloatArray]:
    """The distinct x, how many samples each has, and the non-increasing function of least squared error there.

    Samples of equal x count as their mean.
    """
    from scipy.optimize import isotonic_regression

    nodes, place, count = np.unique(x, return_inverse=True, return_counts=True)
    level = isotonic_regression(np.bincount(place, y) / count, weights=count, increasing=False).x
    return nodes, count, level


def non_increasing_line(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Nodes and values of that function, linear between distinct x.

    Nodes inside a level, where the line is flat on both sides, are dropped.
    """
    nodes, _, level = non_increasing_levels(x, y)
    falls = np.concatenate([[True], level[1:] != level[:-1], [True]])
    kept = falls[:-1] | falls[1:]
    return nodes[kept], level[kept]
