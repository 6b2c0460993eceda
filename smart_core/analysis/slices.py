"""For which samples the confidence is wrong: an evaluation sliced by a column of the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from smart_core.data.logitset import Array, Part
from smart_core.data.partition import partition
from smart_core.errors import CalibrationError
from smart_core.evaluation import Evaluation
from smart_core.formatting import percent, plural
from smart_core.metrics.uncertainty import Interval, interval, noise_floor
from smart_core.types import IntArray


@dataclass(frozen=True, eq=False)
class Slice:
    """The samples of one value, or one interval of values, of a column."""

    name: str
    rows: IntArray = field(repr=False)
    """Which samples, as indices into the evaluation."""
    accuracy: float
    confidence: float
    """Mean confidence."""
    ece: float
    floor_q95: float
    """ECE below which 95 % of perfectly calibrated sets with these confidences would lie."""
    interval: Interval
    """95 % interval of the population ECE of such samples."""

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.rows.size

    @property
    def excess(self) -> float:
        """ECE beyond what noise explains."""
        return self.ece - self.floor_q95


def columns_of(part: Part, class_names: Sequence[str] | None = None) -> dict[str, Array]:
    """The columns that a part can be sliced by: its groups, its metadata, and the label of logits."""
    found = dict(part.columns)
    if part.kind == "logits":
        names = np.array(class_names or [str(k) for k in range(part.classes)], dtype=np.str_)
        found.setdefault("label", names[part.labels])
    return found


def slices(evaluation: Evaluation, values: Array, bins: int = 15, *, intervals: int = 5) -> list[Slice]:
    """The slices of an evaluation by a column (N,), as `smart_core.data.partition` groups its values.

    >>> import numpy as np, smart_core as sc
    >>> data = sc.simulate_set(500, 1000, 4, seed=0)
    >>> evaluation = sc.evaluate(sc.Vanilla().fit_part(data.validation), data.test)
    >>> [(each.name, each.n) for each in slices(evaluation, np.repeat(["day", "night"], [600, 400]))]
    [('day', 600), ('night', 400)]
    """
    if len(values) != len(evaluation):
        raise CalibrationError(f"The column has {len(values):,} values for {len(evaluation):,} samples.")
    return [_slice(name, rows, evaluation.subset(rows), bins) for name, rows in _groups(values, intervals)]


def _groups(values: Array, intervals: int) -> list[tuple[str, IntArray]]:
    return [(name, rows) for name, rows in partition(values, intervals=intervals).items() if rows.size]


def _slice(name: str, rows: IntArray, part: Evaluation, bins: int) -> Slice:
    floor = noise_floor("ece", part, bins=bins)
    return Slice(
        name,
        rows,
        accuracy=float(np.mean(part.correct)),
        confidence=float(np.mean(part.confidence, dtype=np.float64)),
        ece=part.metric("ece", bins),
        floor_q95=floor.q95,
        interval=interval("ece", part, bins=bins, floor=floor),
    )


def slices_verdict(found: Sequence[Slice], column: str) -> str:
    """One sentence: the slice with the largest number of samples times ECE beyond its noise floor."""
    worst = max((each for each in found if each.excess > 0), key=lambda each: each.n * each.excess, default=None)
    if worst is None:
        return f"By {column}, no slice is further off than chance explains."
    return (
        f"By {column}, worst is {worst.name} ({plural(worst.n, 'sample')}): it claims {percent(worst.confidence)} and "
        f"is right {percent(worst.accuracy)} of the time; its ECE of {percent(worst.ece)} is more than the "
        f"{percent(worst.floor_q95)} that chance explains."
    )
