"""The content of a report: a comparison and the results derived from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypedDict, Unpack

from smart_core.analysis.diagnosis import Diagnosis, diagnose
from smart_core.analysis.margin_groups import MarginGroup, margin_edges, margin_groups
from smart_core.calibrators import TemperatureCalibrator, method_named
from smart_core.calibrators.vanilla import Vanilla
from smart_core.data.logitset import LogitSet
from smart_core.errors import Cancelled, ExportError
from smart_core.evaluation import Evaluation, evaluate
from smart_core.experiments.benchmark_result import Benchmark
from smart_core.experiments.compare import Comparison, compare
from smart_core.experiments.method_result import MethodResult
from smart_core.experiments.running import Settings
from smart_core.experiments.sensitivity import Sensitivity
from smart_core.experiments.sensitivity import sensitivity as run_sensitivity
from smart_core.progress import Run
from smart_core.types import Vector

CONSTANT = ("vanilla", "ts")
"""Temperature methods that have one temperature for all samples."""

COMPARED = 0.3
"""Share of the progress at which the leaderboard is finished if a sensitivity study follows."""


@dataclass(frozen=True, eq=False)
class Findings:
    """A leaderboard, its options, and the studies beside it."""

    comparison: Comparison
    bins: int = 15
    sensitivity: Sensitivity | None = None
    """The grid of SMART's settings, if it was computed."""
    name: str | None = None
    """The name of the data set, if it is not that of its file."""
    code: str = ""
    """The Python that computes the leaderboard again."""
    command: str = ""
    """The command line that writes the report again."""
    benchmark: Benchmark | None = None
    """Results over many data sets."""
    selected: Sequence[str] = ()
    """Methods to draw; empty for the recommended one."""
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
        """The rows that have values."""
        return self.comparison.available

    @property
    def drawn(self) -> list[str]:
        """The methods drawn beside the uncalibrated model: those selected, else the recommended one or the best."""
        others = [id for id in self.fitted if id != "vanilla"]
        advice = self.comparison.recommended
        first = (advice.method if advice else None, self.comparison.best, "smart", *others)
        proposed = [id for id in first if id in others][:1]
        return [id for id in self.selected if id in others] or proposed

    @property
    def repair(self) -> str | None:
        """The first of these, which is drawn group by group."""
        return next(iter(self.drawn), None)

    @property
    def curved(self) -> str | None:
        """The method whose temperatures are drawn: SMART, else the first with a temperature per sample."""
        varying = [
            id for id in self.fitted if issubclass(method_named(id), TemperatureCalibrator) and id not in CONSTANT
        ]
        return "smart" if "smart" in varying else next(iter(varying), None)

    @cached_property
    def before(self) -> Evaluation:
        """The uncalibrated model on test."""
        known = self.fitted.get("vanilla")
        if known is not None:
            return known.evaluations[0]
        return evaluate(Vanilla().fit_part(self.data.validation), self.data.test, bins=self.bins)

    @cached_property
    def after(self) -> Evaluation | None:
        """The repair on test: the evaluation of its typical seed."""
        return None if self.repair is None else self.typical(self.repair)

    def typical(self, id: str) -> Evaluation:
        """A method's evaluation on test, of its typical seed."""
        row = self.fitted[id]
        kept = len(row.evaluations) == len(row.values[self.metric])
        return row.typical(self.metric) if kept else row.evaluations[0]

    @cached_property
    def margin_edges(self) -> Vector:
        """Edges of the margin groups."""
        return margin_edges(self.before.margins)

    @cached_property
    def margin_groups(self) -> list[list[MarginGroup]]:
        """The margin groups of the uncalibrated model and, if there is one, of the repair; none without logits."""
        if self.before.margin is None:
            return []
        sides = [self.before] if self.after is None else [self.before, self.after]
        return [margin_groups(side, self.margin_edges, self.bins) for side in sides]

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """The verdict on the uncalibrated model."""
        known = self.fitted.get("vanilla")
        if known is None:
            return diagnose(self.before, self.bins)
        return diagnose(self.before, self.bins, floor=known.floor.get("ece"), interval=known.intervals.get("ece"))


class Options(TypedDict, total=False):
    """Keyword arguments of `report`."""

    bins: int
    metric: str
    settings: dict[str, Settings] | None
    """A method's own settings by its id."""
    device: str
    benchmark: Benchmark | None
    """Results over many data sets, for a section of their own."""
    sensitivity: bool
    """Also refit SMART over the paper's grid of settings, which takes twenty fits per seed."""


def findings(
    data: LogitSet,
    methods: str | Sequence[str] = "all",
    seeds: int = 5,
    *,
    code: str = "",
    command: str = "",
    run: Run | None = None,
    **options: Unpack[Options],
) -> Findings:
    """Compute the content of a report, which quotes `code` and `command` as ways to get the same numbers."""
    run = run or Run()
    with_grid, settings = options.get("sensitivity", False), options.get("settings") or {}
    same: dict[str, Any] = {name: value for name, value in options.items() if name in ("bins", "metric", "device")}
    first, second = run.part(0.0, COMPARED if with_grid else 1.0), run.part(COMPARED, 1.0)
    ranked = compare(data, methods, seeds, settings=settings, progress=first.tick, cancel=run.cancel, **same)
    if not ranked.complete:
        raise Cancelled("stopped before the leaderboard was complete; no report was written.")
    ranked.check_any()
    grid = None
    if with_grid:
        own = settings.get("smart")
        grid = run_sensitivity(data, seeds=seeds, settings=own, progress=second.tick, cancel=run.cancel, **same)
        if not grid.complete:
            raise Cancelled("stopped before the sensitivity study was complete; no report was written.")
    more = options.get("benchmark")
    return Findings(ranked, options.get("bins", 15), grid, code=code, command=command, benchmark=more)
