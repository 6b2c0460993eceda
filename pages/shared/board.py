"""The session's leaderboard: rows fitted by jobs, told fresh from stale, and ranked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pages.shared.desk import Row, desk, row_key
from pages.shared.jobs import Job
from smart_core import LogitSet
from smart_core.calibrators import methods
from smart_core.calibrators.base import Calibrator
from smart_core.evaluation import Evaluation
from smart_core.experiments import Comparison, MethodResult
from smart_core.experiments.compare import compare, ranked, summarise
from smart_core.experiments.running import seeds_for
from smart_core.progress import Run

RECOMMENDED = ("vanilla", "ts", "ets", "vector", "pts", "cts", "spline", "gc", "isotonic", "bbq", "smart")
"""One of each family, and quick: what "Fit the recommended set" fits."""

SEEDS, MOST_SEEDS = 5, 20


def chosen_settings(method: str) -> dict[str, Any]:
    """The settings asked for on the Compare page; empty for the defaults."""
    return desk().settings.get(method, {})


def fit(data: LogitSet, wanted: Sequence[str], *, seeds: int = SEEDS, bins: int = 15) -> Job:
    """Start a job that fits these methods with the settings asked for; rows appear as they are finished."""
    here = desk()
    settings = {method: dict(chosen_settings(method)) for method in wanted}
    rows, fits = here.rows, here.fits

    def work(run: Run) -> None:
        finished: list[str] = []

        def keep(result: MethodResult) -> None:
            finished.append(result.id)
            if run.progress is not None:  # before the row, whose arrival runs the page
                run.progress(len(finished) / len(wanted), f"{methods()[result.id].label} is done")
            rows[row_key(data, result.id)] = Row(result, settings[result.id], seeds, bins)

        compare(
            data,
            list(wanted),
            seeds,
            bins=bins,
            settings=settings,
            progress=run.progress,
            cancel=run.cancel,
            on_result=keep,
            cache=fits,
        )

    title = methods()[wanted[0]].label if len(wanted) == 1 else f"{len(wanted)} methods"
    return here.tray.start(f"Fit {title}", work, kind="compare", about=data.content_hash, steps=len(wanted))


def row(data: LogitSet, method: str) -> Row | None:
    """The newest row of a method on a data set."""
    return desk().rows.get(row_key(data, method))


def rows(data: LogitSet) -> dict[str, Row]:
    """Every method that was fitted, or failed, on a data set, in the order of tables."""
    found = {method: row(data, method) for method in methods()}
    return {method: kept for method, kept in found.items() if kept is not None}


def stale(kept: Row, *, seeds: int | None = None, bins: int | None = None) -> bool:
    """Whether a row was made with other settings, seeds or bins than those asked for now."""
    return needs_fit(kept, seeds=seeds) or (bins is not None and kept.bins != bins)


def needs_fit(kept: Row, *, seeds: int | None = None) -> bool:
    """Whether what is asked for now takes other fits; for other bins the fits are only judged again."""
    method = kept.result.id
    return kept.settings != chosen_settings(method) or (
        seeds is not None and seeds_for(method, kept.seeds) != seeds_for(method, seeds)
    )


def fresh(data: LogitSet, *, seeds: int | None = None, bins: int | None = None) -> dict[str, MethodResult]:
    """The rows that may stand side by side."""
    return {
        method: kept.result
        for method, kept in rows(data).items()
        if kept.result.available and not stale(kept, seeds=seeds, bins=bins)
    }


def comparison(
    data: LogitSet, results: dict[str, MethodResult], metric: str, bins: int, *, test: bool = True
) -> Comparison:
    """The rows ranked by a metric, with who is tied with the best; remembered while the rows stay the same.

    Without `test`, rows that were not ranked before are only sorted: the paired test takes a second on large sets, too
    long for each row that arrives.
    """
    memory = desk().rankings
    # a remembered ranking holds its rows, so their identities stay theirs
    key = f"{data.content_hash} {metric} {bins} {[id(result) for result in results.values()]}"
    if key not in memory:
        if not test:
            return ranked(data, dict(results), metric)
        memory[key] = summarise(data, dict(results), metric=metric, bins=bins)
    return memory[key]


def fitted(data: LogitSet) -> dict[str, MethodResult]:
    """Every available row, fresh or not, for pages that look at what a fit does."""
    return {method: kept.result for method, kept in rows(data).items() if kept.result.available}


def evaluation(data: LogitSet, method: str, seed: int = 0) -> Evaluation:
    """A fitted method on the test part."""
    return fitted(data)[method].evaluations[seed]


def calibrators(data: LogitSet, method: str) -> list[Calibrator]:
    """The fitted calibrators of a method, one a seed."""
    return fitted(data)[method].calibrators
