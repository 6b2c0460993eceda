"""From a data set to its report: fit, judge, write."""

from __future__ import annotations

from collections.abc import Sequence

from smart_core.data.logitset import LogitSet
from smart_core.errors import Cancelled
from smart_core.experiments.compare import compare
from smart_core.experiments.running import Settings
from smart_core.experiments.sensitivity import PAPER_DELTAS, PAPER_SIGMAS
from smart_core.experiments.sensitivity import sensitivity as run_sensitivity
from smart_core.progress import CancelToken, Progress, Run
from smart_core.report.findings import Findings
from smart_core.report.page import report_html

COMPARED = 0.3
"""Share of the progress at which the leaderboard is done where a sensitivity study follows."""


def report(
    data: LogitSet,
    methods: str | Sequence[str] = "all",
    seeds: int = 5,
    *,
    bins: int = 15,
    metric: str = "ece",
    settings: dict[str, Settings] | None = None,
    sensitivity: bool = False,
    device: str = "auto",
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
) -> str:
    """The report's HTML: the methods fitted on validation, judged on test, and drawn.

    With `sensitivity`, SMART is refitted over the paper's grid of settings too, which takes twenty fits a seed.
    """
    run = Run(progress, cancel)
    found = findings(
        data,
        methods,
        seeds,
        bins=bins,
        metric=metric,
        settings=settings,
        sensitivity=sensitivity,
        device=device,
        run=run.part(0.0, 0.9),
    )
    return report_html(found, run.part(0.9, 1.0))


def findings(
    data: LogitSet,
    methods: str | Sequence[str] = "all",
    seeds: int = 5,
    *,
    bins: int = 15,
    metric: str = "ece",
    settings: dict[str, Settings] | None = None,
    sensitivity: bool = False,
    device: str = "auto",
    code: str = "",
    command: str = "",
    run: Run | None = None,
) -> Findings:
    """What a report is made from; `code` and `command` are what it says gives the same figures."""
    line = run or Run()
    ranked = compare(
        data,
        methods,
        seeds,
        bins=bins,
        metric=metric,
        settings=settings,
        device=device,
        progress=line.part(0.0, COMPARED if sensitivity else 1.0).tick,
        cancel=line.cancel,
    )
    if not ranked.complete:
        raise Cancelled("stopped before the leaderboard was complete; no report was written.")
    ranked.check_any()
    grid = None
    if sensitivity:
        grid = run_sensitivity(
            data,
            PAPER_SIGMAS,
            PAPER_DELTAS,
            seeds,
            metric=metric,
            bins=bins,
            settings=(settings or {}).get("smart"),
            device=device,
            progress=line.part(COMPARED, 1.0).tick,
            cancel=line.cancel,
        )
        if not grid.complete:
            raise Cancelled("stopped before the sensitivity study was complete; no report was written.")
    return Findings(ranked, bins, grid, code=code, command=command)
