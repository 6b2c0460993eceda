"""For which samples the confidence is wrong: an evaluation sliced by a column of the file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import numpy as np

from smart_core.data.grouping import partition
from smart_core.data.logitset import Array, Part
from smart_core.errors import CalibrationError
from smart_core.evaluation import Evaluation
from smart_core.formatting import percent, plural
from smart_core.metrics.confidence_cells import SUMS_FROM_SAMPLES, ConfidenceCells, cells_of
from smart_core.metrics.uncertainty import Interval, interval, noise_floor
from smart_core.types import IntArray


@dataclass(frozen=True, eq=False, kw_only=True)
class SampleGroup:
    """Some samples of an evaluation, evaluated on their own; the means of an empty group are NaN."""

    rows: IntArray = field(repr=False)
    """Which samples, as indices into the evaluation."""
    accuracy: float
    confidence: float
    """Mean confidence."""
    ece: float
    floor_q95: float
    """ECE below which 95% of perfectly calibrated sets with these confidences would lie."""
    interval: Interval | None = None
    """95% interval of the population ECE of such samples, if it was computed."""

    @classmethod
    def of(
        cls,
        evaluation: Evaluation,
        rows: IntArray,
        bins: int,
        *,
        with_interval: bool = False,
        cells: ConfidenceCells | None = None,
        **own: Any,
    ) -> Self:
        """Evaluate the samples `rows`, by their sums if these are known; `own` are the other fields of a subclass."""
        if not rows.size:
            return cls(rows=rows, accuracy=math.nan, confidence=math.nan, ece=math.nan, floor_q95=math.nan, **own)
        part: Any = cells or evaluation.subset(rows)
        floor = noise_floor("ece", part, bins=bins)
        if cells is not None:
            _, confidence, accuracy, _, _ = cells.by_bin.sum(axis=1) / cells.samples
        else:
            confidence, accuracy = np.mean(part.confidence, dtype=np.float64), part.metric("accuracy")
        return cls(
            rows=rows,
            accuracy=float(accuracy),
            confidence=float(confidence),
            ece=cells.table.ece if cells is not None else part.metric("ece", bins),
            floor_q95=floor.q95,
            interval=interval("ece", part, bins=bins, floor=floor) if with_interval else None,
            **own,
        )

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.rows.size

    @property
    def gap(self) -> float:
        """Mean confidence minus accuracy: positive where the group is overconfident."""
        return self.confidence - self.accuracy

    @property
    def excess(self) -> float:
        """ECE beyond what noise explains."""
        return self.ece - self.floor_q95


Group = TypeVar("Group", bound=SampleGroup)

NEGLIGIBLE = 1e-4
"""Part of the whole ECE, 0.01%, below which an error is too small to be mentioned, however certain it is."""


def worst_group(groups: Iterable[Group]) -> Group | None:
    """The group with the largest number of samples times ECE beyond its noise floor; None where that is negligible.

    The product is the group's part of the whole error that noise does not explain: a tiny gap of many samples and a
    large one of a few both matter less than a large gap of many.
    """
    known = list(groups)
    least = NEGLIGIBLE * sum(group.n for group in known)
    beyond = [group for group in known if group.n * group.excess >= least and group.excess > 0]
    return max(beyond, key=lambda group: group.n * group.excess, default=None)


@dataclass(frozen=True, eq=False, kw_only=True)
class Slice(SampleGroup):
    """The samples of one value, or one interval of values, of a column."""

    name: str
    interval: Interval


def columns_of(part: Part, class_names: Sequence[str] | None = None) -> dict[str, Array]:
    """The columns that a part can be sliced by: its groups, its metadata, and the label of logits."""
    found = dict(part.columns)
    if part.kind != "confidence":
        names = np.array(class_names or [str(k) for k in range(part.classes)], dtype=np.str_)
        found.setdefault("label", names[part.labels])
    return found


def slices(
    evaluation: Evaluation, values: Array, bins: int = 15, groups: Mapping[str, IntArray] | None = None
) -> list[Slice]:
    """The slices of an evaluation by a column (N,), as `smart_core.data.grouping` groups its values.

    `groups` are what it gives, if that is known.

    >>> import numpy as np, smart_core as sc
    >>> data = sc.simulate_set(500, 1000, 4, seed=0)
    >>> evaluation = sc.evaluate(sc.Vanilla().fit_part(data.validation), data.test)
    >>> [(each.name, each.n) for each in slices(evaluation, np.repeat(["day", "night"], [600, 400]))]
    [('day', 600), ('night', 400)]
    """
    if len(values) != len(evaluation):
        raise CalibrationError(f"The column has {len(values):,} values for {len(evaluation):,} samples.")
    groups = partition(values) if groups is None else groups
    known: Sequence[ConfidenceCells | None] = [None] * len(groups)
    if len(evaluation) >= SUMS_FROM_SAMPLES:
        member = np.empty(len(evaluation), dtype=np.int64)
        for number, rows in enumerate(groups.values()):
            member[rows] = number
        known = cells_of(evaluation.confidence, evaluation.correct, bins, member, len(groups))
    return [
        Slice.of(evaluation, rows, bins, with_interval=True, cells=cells, name=name)
        for (name, rows), cells in zip(groups.items(), known, strict=True)
    ]


def slices_verdict(found: Sequence[Slice], column: str) -> str:
    """One sentence about the worst slice."""
    worst = worst_group(found)
    if worst is None:
        return f"By {column}, the error of every slice is within noise."
    return (
        f"By {column}, worst is {worst.name} ({plural(worst.n, 'sample')}): mean confidence "
        f"{percent(worst.confidence)}, accuracy {percent(worst.accuracy)}. Its ECE of {percent(worst.ece)} exceeds its "
        f"noise floor of {percent(worst.floor_q95)}."
    )
