"""Inductive Venn-Abers prediction (Vovk, Petej & Fedorova, 2015) of the top-1 confidence, with its interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smart_core.calibrators.base import LineStyle
from smart_core.calibrators.rules import NOT_DECREASING, NOT_INCREASING, PROBABILITIES
from smart_core.calibrators.toplabel import TopLabelCalibrator, complement, complement_of, stairs
from smart_core.device import like_input
from smart_core.progress import Run
from smart_core.types import FloatArray


@dataclass(kw_only=True, eq=False)
class VennAbers(TopLabelCalibrator):
    """`c(s) = p1 / (1 - p0 + p1)`; p0 and p1 are isotonic fits to the hits and the query, as a miss and as a hit.

    One of the two probabilities p0 <= p1 is calibrated whatever the distribution, if the samples are exchangeable, so
    the width of the interval says how much the validation set leaves open (`probability_interval`). c is the value of
    least worst-case log-loss between them. Departure: the original is for two classes; this maps the top-1 confidence,
    and the other classes share the rest.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits").validation
    >>> vennabers = sc.VennAbers().fit(data.logits, data.labels)
    >>> low, high = vennabers.probability_interval(data.logits)
    >>> bool((low <= high).all())
    True
    """

    id = "vennabers"
    label = "Venn-Abers"
    summary = (
        "Two isotonic fits, with the new sample counted as incorrect and as correct: an interval and a value inside it."
    )
    position = 21
    style = LineStyle("#7F8C1B", "10px,3px,2px,3px", "diamond-tall")
    shapes = (("low_edges_", ("n",)), ("low_", ("n+1",)), ("high_edges_", ("m",)), ("high_", ("m+1",)))
    rules = (
        ("low_edges_", PROBABILITIES, NOT_DECREASING),
        ("low_", PROBABILITIES, NOT_INCREASING),
        ("high_edges_", PROBABILITIES, NOT_DECREASING),
        ("high_", PROBABILITIES, NOT_INCREASING),
    )
    numpy_map = "venn_abers(u, LOW_EDGES, LOW, HIGH_EDGES, HIGH)"

    def _fit_map(self, u: FloatArray, hits: FloatArray, run: Run) -> None:
        nodes, place, number = np.unique(u, return_inverse=True, return_counts=True)
        count, hit = number.astype(np.float64), np.bincount(place, hits).astype(np.float64)
        run.tick(0.5, "isotonic regression")
        # rising confidence is falling u; a miss among hits is a hit among misses in reverse order
        high = with_a_hit(count[::-1], hit[::-1])[::-1]
        low = 1.0 - with_a_hit(count, count - hit)
        self.low_edges_, self.low_ = self._stored(nodes, np.append(low, 0.0))
        self.high_edges_, self.high_ = self._stored(nodes, np.append(1.0, high))
        width = np.append(1.0, high)[1:] - low
        self.notices_.append(
            f"The interval from p0 to p1 is {np.average(width, weights=count):.4f} wide on average over validation, "
            f"and {width.max():.4f} at most."
        )

    def _stored(self, edges: FloatArray, values: FloatArray) -> tuple[Tensor, Tensor]:
        """The steps without those between equal values."""
        changes = values[1:] != values[:-1]
        return self._store(edges[changes]), self._store(np.append(values[:-1][changes], values[-1]))

    def _interval(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """p0 and p1 at the complements u; at a validation confidence the query joins the samples that are there."""
        low = self.low_[torch.searchsorted(self.low_edges_, u.contiguous())]
        return low, torch.maximum(stairs(u, self.high_edges_, self.high_), low)

    def _map(self, u: Tensor) -> Tensor:
        low, high = self._interval(u)
        return high / (1.0 - low + high)

    def probability_interval(self, logits: Any) -> tuple[Any, Any]:
        """p0 and p1 of each sample's prediction, (N,) each, NumPy or torch like the input."""
        found = [self._interval(complement(chunk)[0]) for _, chunk, _ in self._chunks(logits, None)]
        low, high = (torch.cat(column) for column in zip(*found, strict=True)) if found else (torch.empty(0),) * 2
        return like_input(low, logits), like_input(high, logits)

    def interval_at(self, confidence: FloatArray) -> tuple[FloatArray, FloatArray]:
        """p0 and p1 of predictions with these uncalibrated confidences, (n,) each."""
        low, high = self._interval(complement_of(torch.from_numpy(confidence)).to(self.low_.device))
        return low.double().cpu().numpy(), high.double().cpu().numpy()


def with_a_hit(count: FloatArray, hits: FloatArray) -> FloatArray:
    """(G,) the isotonic fit at each group, in the order of rising scores, if that group had one more sample, a hit.

    The fit at a group is the slope there of the greatest convex minorant of the points `(samples so far, hits so
    far)`. Moving the added hit from a group to the next moves one point, so the corners of the minorant are kept on a
    stack and each is added and removed once (algorithms 1 and 2 of the paper).
    """
    x = [-1.0, 0.0, *np.cumsum(count).tolist()]
    y = [-1.0, 0.0, *np.cumsum(hits).tolist()]
    corners: list[tuple[float, float]] = []
    for point in zip(x, y, strict=True):
        while len(corners) > 1 and _turn(corners[-2], corners[-1], point) <= 0.0:
            corners.pop()
        corners.append(point)
    corners.reverse()  # the leftmost is on top
    slopes = np.empty(len(count))
    moved = (x[0], y[0])
    for group in range(len(count)):
        (left, low), (right, high) = corners[-1], corners[-2]
        slopes[group] = (high - low) / (right - left)
        # the added hit passes this group: the point between the two is now the group's own step further
        moved = (moved[0] + x[group + 2] - x[group + 1], moved[1] + y[group + 2] - y[group + 1])
        if _turn(corners[-1], corners[-2], moved) >= 0.0:
            continue
        corners.pop()
        while len(corners) > 1 and _turn(moved, corners[-1], corners[-2]) <= 0.0:
            corners.pop()
        corners.append(moved)
    return slopes


def _turn(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    """Positive where the way from a over b to c turns left; 0 where it is straight."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
