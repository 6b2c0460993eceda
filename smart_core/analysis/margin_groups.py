"""Where along the margin the confidence is wrong: samples grouped by margin, each group evaluated on its own.

Groups are the intervals (l, u] between rising edges, the first one closed at both ends. The margin is that of the
uncalibrated logits, so a sample stays in its group whatever the calibrator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smart_core.analysis.slices import SampleGroup
from smart_core.analysis.slices import worst_group as worst_group
from smart_core.calibrators.ts import TS
from smart_core.data.logitset import Part
from smart_core.errors import CalibrationError
from smart_core.evaluation import Evaluation, evaluate
from smart_core.formatting import first_few
from smart_core.metrics.bands import Band, accuracy_band
from smart_core.metrics.binning import bin_edges, bin_index
from smart_core.metrics.confidence_cells import SUMS_FROM_SAMPLES, ConfidenceCells, cells_of
from smart_core.metrics.uncertainty import interval
from smart_core.types import BoolArray, FloatArray, IntArray, Matrix, Vector

GROUPS = 6
"""The default number of groups."""


def margin_edges(margin: ArrayLike, groups: int | None = None, edges: Sequence[float] | None = None) -> Vector:
    """Rising edges of margin groups, from the smallest to the largest margin.

    `groups` cuts at the margins' own quantiles; groups that equal margins would leave empty are merged, so that there
    may be fewer than asked for. `edges` are one's own; margins beyond the outermost get a group of their own, so that
    no sample is lost.

    >>> margin_edges([1.0, 2.0, 3.0, 4.0], 2).tolist(), margin_edges([1.0, 4.0], edges=[2.0, 3.0]).tolist()
    ([1.0, 2.0, 4.0], [1.0, 2.0, 3.0, 4.0])
    """
    values = np.asarray(margin, dtype=np.float64).reshape(-1)
    if values.size == 0:
        raise CalibrationError("There are no samples to group by margin.")
    odd = int((~np.isfinite(values)).sum())
    if odd:
        raise CalibrationError(f"{odd} of {values.size:,} margins are not finite; leave those samples out.")
    if edges is not None:
        if groups is not None:
            raise CalibrationError("Margin groups are given by a number of groups or by edges, not by both.")
        own = np.asarray(edges, dtype=np.float64).reshape(-1)
        if own.size < 2:
            raise CalibrationError("Margin groups need at least two edges.")
        if not np.isfinite(own).all():
            raise CalibrationError("The edges of margin groups must be finite numbers.")
        if not (np.diff(own) > 0).all():
            listed = first_few((f"{edge:g}" for edge in own), 8)
            raise CalibrationError(f"The edges of margin groups must rise strictly; {listed} do not. Sort them.")
        return np.unique([min(own[0], values.min()), *own, max(own[-1], values.max())])
    wanted = GROUPS if groups is None else groups
    if not 1 <= wanted <= 1000:
        raise CalibrationError(f"{wanted} margin groups are asked for; choose 1 to 1000.")
    # quantiles that are samples themselves: every group then holds at least its own upper edge
    cuts = np.unique(np.quantile(values, np.linspace(0, 1, wanted + 1), method="inverted_cdf"))
    return cuts if cuts.size > 1 else np.repeat(cuts, 2)


def group_of(margin: ArrayLike, edges: ArrayLike) -> IntArray:
    """Index g of the group with edges[g] < m <= edges[g + 1]; the first edge belongs to group 0.

    Edges are compared in the precision of the margins, as the bins of the confidence are.
    """
    values = np.asarray(margin)
    rounded = np.asarray(edges, dtype=np.float64)
    if values.dtype.kind == "f":
        rounded = rounded.astype(values.dtype)
    return np.clip(np.searchsorted(rounded, values, side="left") - 1, 0, rounded.size - 2)


@dataclass(frozen=True, eq=False)
class _ByMargin:
    """Many samples sorted by margin once: a group is then a slice, wherever its edges are."""

    order: IntArray
    margin: FloatArray
    confidence: FloatArray
    correct: BoolArray

    def ends(self, edges: Vector) -> IntArray:
        """Where the groups end, without the last."""
        return np.searchsorted(self.margin, edges[1:-1].astype(self.margin.dtype), side="right")

    def parts(self, edges: Vector) -> list[IntArray]:
        """The samples of each group."""
        return np.split(self.order, self.ends(edges))

    def cells(self, edges: Vector, bins: int) -> list[ConfidenceCells]:
        """The sums of each group over the bins of the confidence."""
        ends = self.ends(edges)
        split = zip(np.split(self.confidence, ends), np.split(self.correct, ends), strict=True)
        return [cells_of(p, a, bins)[0] for p, a in split]


def _by_margin(evaluation: Evaluation) -> _ByMargin:
    """The samples of an evaluation by rising margin; the evaluation keeps them."""
    kept = vars(evaluation)
    if "_by_margin" not in kept:
        order = np.argsort(evaluation.margins, kind="stable")
        kept["_by_margin"] = _ByMargin(
            order, evaluation.margins[order], evaluation.confidence[order], evaluation.correct[order]
        )
    found: _ByMargin = kept["_by_margin"]
    return found


@dataclass(frozen=True, eq=False, kw_only=True)
class MarginGroup(SampleGroup):
    """The samples of one margin interval."""

    low: float
    high: float

    @property
    def sentence(self) -> str:
        """The group in words, such as "margins 1.78–2.90: mean confidence 71%, accuracy 55%"."""
        return f"{self.span}: {self.means}"

    @property
    def span(self) -> str:
        """The interval in words, such as "margins 1.78–2.90"."""
        return f"margins {margin_text(self.low, self.high)}"

    @property
    def means(self) -> str:
        """Mean confidence and accuracy in words, with enough digits to tell them apart."""
        if self.n == 0:
            return "no samples"
        places = 0 if abs(self.gap) >= 0.02 else 1 if abs(self.gap) >= 0.002 else 2
        return f"mean confidence {self.confidence:.{places}%}, accuracy {self.accuracy:.{places}%}"


def margin_text(low: float, high: float) -> str:
    """An interval of margins with at least two decimals, and as many more as tell its ends apart."""
    return "–".join(_margin_numbers([low, high], 2))


def margin_labels(edges: ArrayLike) -> list[str]:
    """The groups between the edges as `1.8–2.9`, all with the same number of decimals."""
    numbers = _margin_numbers(_checked(edges).tolist(), 1)
    return [f"{low}–{high}" for low, high in pairwise(numbers)]


def _margin_numbers(values: Sequence[float], digits: int) -> list[str]:
    widths = [width for width in np.diff(values) if width > 0]
    if max(np.abs(values)) >= 1e5 or min(widths, default=1.0) < 1e-4:
        return [f"{value:.4g}" for value in values]
    places = max(digits, -int(np.floor(np.log10(min(widths, default=1.0)))))
    return [f"{value:.{places}f}" for value in values]


def equal_groups(evaluation: Evaluation, groups: int) -> Vector:
    """`margin_edges` of the margins of an evaluation; those of many samples are sorted once and not for every call."""
    if len(evaluation) < SUMS_FROM_SAMPLES or not np.isfinite(evaluation.margins).all():
        return margin_edges(evaluation.margins, groups)
    margin = _by_margin(evaluation).margin
    places = np.ceil(np.linspace(0, 1, groups + 1) * len(margin)).astype(np.int64) - 1
    cuts = np.unique(margin[np.maximum(places, 0)].astype(np.float64))
    return cuts if cuts.size > 1 else np.repeat(cuts, 2)


def margin_groups(evaluation: Evaluation, edges: ArrayLike, bins: int = 15) -> list[MarginGroup]:
    """Every group between the edges, empty ones too, without the slower intervals.

    >>> import smart_core as sc
    >>> data = sc.simulate_set(100, 400, 4, seed=0)
    >>> model = sc.Vanilla().fit(data.validation.logits, data.validation.labels)
    >>> evaluation = sc.evaluate(model, data.test)
    >>> [group.n for group in margin_groups(evaluation, margin_edges(evaluation.margin, 4))]
    [100, 100, 100, 100]
    """
    bounds = _checked(edges)
    spans = pairwise(bounds.tolist())
    known: Sequence[ConfidenceCells | None]
    if len(evaluation) >= SUMS_FROM_SAMPLES:
        ordered = _by_margin(evaluation)
        parts, known = ordered.parts(bounds), ordered.cells(bounds, bins)
    else:
        index = group_of(evaluation.margins, bounds)
        order = np.argsort(index, kind="stable")
        parts = np.split(order, np.searchsorted(index[order], np.arange(1, bounds.size - 1)))
        known = [None] * len(parts)
    return [
        MarginGroup.of(evaluation, rows, bins, cells=cells, low=low, high=high)
        for (low, high), rows, cells in zip(spans, parts, known, strict=True)
    ]


def with_intervals(evaluation: Evaluation, groups: Sequence[MarginGroup], bins: int = 15) -> list[MarginGroup]:
    """The same groups, each with the interval of its population ECE."""
    held = {id(group): interval("ece", evaluation.subset(group.rows), bins=bins) for group in groups if group.n}
    return [replace(group, interval=held.get(id(group))) for group in groups]


def after_temperature_scaling(validation: Part, seen: Part, bins: int = 15) -> list[MarginGroup]:
    """The groups of a part after temperature scaling fitted on validation.

    A gap that is left in a group is one that depends on the margin: a single temperature cannot close it.

    >>> import smart_core as sc
    >>> data = sc.simulate_set(2000, 20_000, 5, law=lambda margin: 1 + 0.3 * margin, seed=0)
    >>> min(group.gap for group in after_temperature_scaling(data.validation, data.test)) < -0.1
    True
    """
    after = evaluate(TS().fit_part(validation), seen, bins=bins, classwise=False)
    return margin_groups(after, margin_edges(after.margins), bins)


@dataclass(frozen=True, eq=False)
class GapCells:
    """Margin groups by confidence bins; arrays are (groups, bins), means of an empty cell NaN."""

    edges: Vector
    """(groups + 1,) margins."""
    bin_edges: Vector
    """(bins + 1,) confidences."""
    count: NDArray[np.int64]
    confidence: Matrix
    accuracy: Matrix

    @property
    def gap(self) -> Matrix:
        return self.confidence - self.accuracy

    @property
    def beyond_noise(self) -> NDArray[np.bool_]:
        """Which cells have a mean confidence outside the 95% band of their accuracy."""
        band = self.band
        return (self.confidence < band.low) | (self.confidence > band.high)

    @cached_property
    def band(self) -> Band:
        """The 95% band of the accuracy of each cell."""
        return accuracy_band(np.nan_to_num(self.accuracy) * self.count, self.count)


def gap_cells(evaluation: Evaluation, edges: ArrayLike, bins: int = 15) -> GapCells:
    """Count, mean confidence and accuracy of the samples in each margin group and equal-width confidence bin."""
    bounds = _checked(edges)
    shape = (bounds.size - 1, bins)
    if len(evaluation) >= SUMS_FROM_SAMPLES:
        tables = [each.table for each in _by_margin(evaluation).cells(bounds, bins)]
        count, confidence, accuracy = (
            np.array([getattr(each, name) for each in tables]) for name in ("count", "confidence", "accuracy")
        )
        return GapCells(bounds, bin_edges(bins).astype(np.float64), count, confidence, accuracy)
    cell = group_of(evaluation.margins, bounds) * bins + bin_index(evaluation.confidence, bins)

    def total(weights: NDArray[np.generic]) -> Matrix:
        return np.asarray(np.bincount(cell, weights, minlength=shape[0] * bins).reshape(shape), dtype=np.float64)

    count = np.bincount(cell, minlength=shape[0] * bins).reshape(shape)
    with np.errstate(invalid="ignore"):
        confidence, accuracy = total(evaluation.confidence) / count, total(evaluation.correct) / count
    return GapCells(bounds, bin_edges(bins).astype(np.float64), count, confidence, accuracy)


def samples_in(
    evaluation: Evaluation,
    edges: ArrayLike,
    bins: int = 15,
    *,
    group: int | None = None,
    confidence_bin: int | None = None,
) -> IntArray:
    """Rising indices of the samples in one margin group, one confidence bin, or both; None takes all."""
    bounds = _checked(edges)
    kept = np.ones(len(evaluation), dtype=bool)
    for chosen, size, name, index in (
        (group, bounds.size - 1, "margin group", group_of(evaluation.margins, bounds)),
        (confidence_bin, bins, "confidence bin", bin_index(evaluation.confidence, bins)),
    ):
        if chosen is not None:
            if not 0 <= chosen < size:
                raise CalibrationError(f"There is no {name} {chosen}; they are numbered 0 to {size - 1}.")
            kept &= index == chosen
    return np.flatnonzero(kept)


def _checked(edges: ArrayLike) -> Vector:
    bounds = np.asarray(edges, dtype=np.float64).reshape(-1)
    if bounds.size < 2 or not (np.diff(bounds) >= 0).all():  # written so that NaN fails it
        raise CalibrationError("Margin groups need at least two rising edges; `margin_edges` gives them.")
    return bounds


@dataclass(frozen=True, eq=False)
class ConfidenceChange:
    """The change of the confidence along the margin by a calibrator; each array has one entry per quantile group."""

    margin: Vector
    """Mean margin of the group."""
    low: Vector
    high: Vector
    """Its smallest and largest margin."""
    count: NDArray[np.int64]
    before: Vector
    """Mean confidence before."""
    after: Vector
    """Mean confidence after."""
    needed: Vector
    """Accuracy before minus mean confidence before: the mean change that would close the group's gap."""

    @property
    def change(self) -> Vector:
        return self.after - self.before


def confidence_change(before: Evaluation, after: Evaluation, points: int = 20) -> ConfidenceChange:
    """Mean change of the confidence in groups of equally many samples, by rising margin."""
    if len(before) != len(after) or not np.array_equal(before.margins, after.margins):
        raise CalibrationError("The change of confidence needs two evaluations of the same samples in the same order.")
    margin = before.margins
    index = group_of(margin, margin_edges(margin, points))
    count = np.bincount(index)

    def mean(values: NDArray[np.generic]) -> Vector:
        return np.asarray(np.bincount(index, values) / count)

    starts = np.cumsum(count) - count
    ordered = np.sort(margin).astype(np.float64)
    confidence = mean(before.confidence)
    return ConfidenceChange(
        margin=mean(margin),
        low=ordered[starts],
        high=ordered[starts + count - 1],
        count=count,
        before=confidence,
        after=mean(after.confidence),
        needed=mean(before.correct) - confidence,
    )
