"""What a report is made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from smart_core.calibrators import TemperatureCalibrator, methods
from smart_core.calibrators.vanilla import Vanilla
from smart_core.data.logitset import LogitSet
from smart_core.errors import ExportError
from smart_core.evaluation import Evaluation, evaluate
from smart_core.experiments.compare import Comparison
from smart_core.experiments.method_result import MethodResult
from smart_core.experiments.sensitivity import Sensitivity

CONSTANT = ("vanilla", "ts")
"""Temperature methods whose curve is a flat line."""


@dataclass(frozen=True, eq=False)
class Findings:
    """A leaderboard, what it was made with, and the studies beside it."""

    comparison: Comparison
    bins: int = 15
    sensitivity: Sensitivity | None = None
    """The grid of SMART's settings, where it was computed."""
    name: str | None = None
    """What the data set is called, if not as its file."""
    code: str = ""
    """The Python that computes the leaderboard again."""
    command: str = ""
    """The command line that writes the report again."""
    made: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        if not self.fitted:
            raise ExportError("There is nothing to report: no method was fitted.")

    @property
    def data(self) -> LogitSet:
        return self.comparison.data

    @property
    def title(self) -> str:
        return self.name or self.data.name

    @property
    def metric(self) -> str:
        return self.comparison.metric

    @property
    def fitted(self) -> dict[str, MethodResult]:
        """The rows that have figures."""
        return {id: row for id, row in self.comparison.results.items() if row.available}

    @property
    def repair(self) -> str | None:
        """The method whose figures are shown beside the model as it is: SMART, else the best, else the first."""
        others = [id for id in self.fitted if id != "vanilla"]
        return next((id for id in ("smart", self.comparison.best, *others) if id in others), None)

    @property
    def curved(self) -> str | None:
        """The method whose temperatures are drawn: SMART, else the first that has one a sample."""
        found = [id for id in self.fitted if issubclass(methods()[id], TemperatureCalibrator) and id not in CONSTANT]
        return "smart" if "smart" in found else next(iter(found), None)

    @cached_property
    def before(self) -> Evaluation:
        """The model as it is, on test."""
        known = self.fitted.get("vanilla")
        if known is not None:
            return known.evaluations[0]
        part = self.data.validation
        return evaluate(Vanilla().fit(part.logits[:2], part.labels[:2]), self.data.test, bins=self.bins)

    @cached_property
    def after(self) -> Evaluation | None:
        """The repair on test: the seed that stands for its method."""
        if self.repair is None:
            return None
        row = self.fitted[self.repair]
        kept = len(row.evaluations) == len(row.values[self.metric])
        return row.typical(self.metric) if kept else row.evaluations[0]
