"""Spline calibration (Gupta et al., 2021): the slope of the cumulative gap between hits and scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smart_core.calibrators.base import LineStyle
from smart_core.calibrators.rules import INCREASING, PROBABILITIES, WEIGHTS
from smart_core.calibrators.settings import setting
from smart_core.calibrators.toplabel import LineCalibrator
from smart_core.types import FloatArray


@dataclass(kw_only=True, eq=False)
class Spline(LineCalibrator):
    """`c(s) = s + h'(t)`, h the natural cubic spline through the cumulative gap between hits and scores.

    With samples in the order of their scores s, and a_j = 1 if prediction j is right, else 0, h is fitted by least
    squares to `y_i = sum_(j <= i) (a_j - s_j) / N` at `t_i = i / N`. Between validation scores c is interpolated
    linearly; it is clipped to [0, 1]. The other classes share the rest, so another class may become the largest: like
    the paper, the default then predicts that class; `top1="keep"` does not.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits").validation
    >>> sc.Spline(top1="keep").fit(data.logits, data.labels).keeps_top1
    True
    """

    id = "spline"
    label = "Spline"
    summary = "Corrects the top-1 confidence by the slope of a spline through the cumulative calibration gap."
    position = 8
    style = LineStyle("#7C5CD6", "longdash", "hexagon")
    reducible = False  # another class may win, and reduced rows do not say which
    rules = (("nodes_", PROBABILITIES, INCREASING), ("values_", WEIGHTS))
    libraries = ("scipy.interpolate",)

    knots: int = setting(6, "Number of evenly spaced knots, both ends included.", low=2, high=100)
    top1: str = setting(
        "retake",
        "Once the other classes are rescaled: retake the largest as the prediction, or keep the model's own.",
        choices=("retake", "keep"),
    )

    def _line(self, u: FloatArray, hits: FloatArray) -> tuple[FloatArray, FloatArray]:
        knots = max(2, min(self.knots, len(u)))
        if knots < self.knots:
            self.notices_.append(f"{len(u)} samples allow {knots} knots, not {self.knots}.")
        return recalibration(u, hits, knots)

    @property
    def keeps_top1(self) -> bool:
        return self.top1 == "keep" or getattr(self, "classes_", None) == 0  # confidences have no other class

    @property
    def parameters(self) -> int:
        """The heights of the knots."""
        return self.knots


def recalibration(u: FloatArray, hits: FloatArray, knots: int) -> tuple[FloatArray, FloatArray]:
    """Increasing distinct complements `u = 1 - s` and the recalibrated confidence of each.

    Samples of equal score have no order: each counts as their mean hit, and their recalibrated values are averaged.
    """
    distinct, place, count = np.unique(u, return_inverse=True, return_counts=True)
    mean_hit = (np.bincount(place, hits) / count)[place]
    order = np.argsort(-u, kind="stable")  # least confident first
    position = np.arange(1, len(u) + 1) / len(u)
    gap = np.cumsum(mean_hit[order] - (1.0 - u[order])) / len(u)
    slope = np.empty_like(gap)
    slope[order] = natural_spline_slope(position, gap, knots)
    return distinct, np.bincount(place, 1.0 - u + slope) / count


def natural_spline_slope(t: FloatArray, y: FloatArray, knots: int) -> FloatArray:
    """Slope at t of the natural cubic spline of least squared error to y, knots evenly spaced on [0, 1]."""
    from scipy.interpolate import CubicSpline

    basis = CubicSpline(np.linspace(0.0, 1.0, knots), np.eye(knots), bc_type="natural")
    heights = np.linalg.lstsq(basis(t), y, rcond=None)[0]
    return basis(t, 1) @ heights
