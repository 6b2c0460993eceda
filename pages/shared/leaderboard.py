"""The leaderboard of a data set: fit rows, find those that are stale, and rank the others.

`fit` is what happens when a Fit button is clicked: it starts a job that calls `smart_core.compare` and stores each
finished method as a row of the session. The sidebar then reruns the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from pages.shared import estimates, session, undo
from pages.shared.jobs import Job
from pages.shared.session import LeaderboardRow, row_key
from pages.shared.urls import DEFAULT_SEEDS
from smart_core import LogitSet
from smart_core.calibrators import in_order, is_method, method_named, methods
from smart_core.experiments import Comparison, MethodResult
from smart_core.experiments.compare import compare, ranked, summarise
from smart_core.experiments.estimate import methods_within_budget, row_seconds
from smart_core.experiments.running import seeds_for, unavailable
from smart_core.progress import Run

KIND = "compare"
"""Kind of the jobs that fit rows."""

RECOMMENDED = ("vanilla", "ts", "smart", "ets", "vector", "isotonic", "bbq", "spline", "pts", "gc", "cts")
"""One or more quick methods of each family, the most useful first."""

RECOMMENDED_SECONDS = 24.0
"""The predicted time of the recommended set, so that it ends within 30 seconds on two idle cores."""


def fit(
    data: LogitSet, wanted: Sequence[str], *, seeds: int = DEFAULT_SEEDS, bins: int = 15, key: str | None = None
) -> Job:
    """Start a job that fits these methods with their chosen settings; each row appears when it is finished.

    `key` is that of the data set if it is not the selected one.
    """
    here = session.current()
    here.datasets.save()
    settings = {method: dict(chosen_settings(method)) for method in wanted}
    replaced = [method for method in wanted if method in fitted(data)]
    if replaced:
        undo.remember(
            f"refit of {method_named(replaced[0]).label if len(replaced) == 1 else f'{len(replaced)} methods'}"
        )
    rows, fits = here.rows, here.fits  # the job must not reference the session itself

    def work(run: Run) -> None:
        def store(result: MethodResult) -> None:
            rows[row_key(data, result.id)] = LeaderboardRow(result, settings[result.id], seeds, bins)

        compare(
            data,
            list(wanted),
            seeds,
            bins=bins,
            settings=settings,
            progress=run.progress,
            cancel=run.cancel,
            on_values=store,
            on_result=store,
            cache=fits,
            paired_tests=False,  # `ranking` makes them, for the metric that the page shows
        )

    values, intervals = (list(column) for column in zip(*(row_seconds(id, data, seeds) for id in wanted), strict=True))
    whole = sum(values) + sum(intervals) or 1.0
    ends = [end / whole for end in accumulate(values)]  # as `compare` reports its progress
    estimate = sum(map(sum, estimates.rows(data, wanted, seeds)))
    title = method_named(wanted[0]).label if len(wanted) == 1 else f"{len(wanted)} methods"
    note = {"data": key or session.data_key(), "settings": {"methods": list(wanted), "seeds": seeds, "bins": bins}}
    about: dict[str, Any] = {"kind": KIND, "data_hash": data.content_hash, "note": note}
    return here.jobs.start(f"Fit {title}", work, steps=ends, estimate=estimate, **about)


def recommended_set(data: LogitSet, seeds: int) -> list[str]:
    """Return the quick methods, or on confidences alone every one, that can run on a data set and end soon enough."""
    wanted = methods() if data.kind == "confidence" else RECOMMENDED
    possible = [id for id in wanted if unavailable(id, data) is None]
    chosen = methods_within_budget(RECOMMENDED_SECONDS, possible, data, seeds)
    return [id for id in methods() if id in chosen]


def active_job(data: LogitSet) -> Job | None:
    """Return the job that is fitting rows of a data set, if there is one."""
    return session.current().jobs.active(KIND, data.content_hash)


def chosen_settings(method: str) -> dict[str, Any]:
    """Return the settings that were changed on Compare; empty for the defaults."""
    return session.current().settings.get(method, {})


def row(data: LogitSet, method: str) -> LeaderboardRow | None:
    """Return the latest row of a method on a data set; a restored row of other data does not count."""
    found = session.current().rows.get(row_key(data, method))
    return found if found is not None and found.result.matches(data) else None


def rows(data: LogitSet) -> dict[str, LeaderboardRow]:
    """Return the row of every method that was fitted or failed on a data set, in the order of tables."""
    start = row_key(data, "")
    held = [key.removeprefix(start) for key in session.current().rows if key.startswith(start)]
    found = {method: row(data, method) for method in in_order(filter(is_method, held))}
    return {method: each for method, each in found.items() if each is not None}


def fitted(data: LogitSet) -> dict[str, MethodResult]:
    """Return the result of every fitted method, stale or not."""
    return {method: each.result for method, each in rows(data).items() if each.result.available}


def is_stale(each: LeaderboardRow, *, seeds: int | None = None, bins: int | None = None) -> bool:
    """Return whether a row was computed with other settings, seeds or bins than the chosen ones."""
    return needs_refit(each, seeds=seeds) or (bins is not None and each.bins != bins)


def needs_refit(each: LeaderboardRow, *, seeds: int | None = None) -> bool:
    """Return whether a row needs other fits; for other bins, its fits are only evaluated again."""
    method = each.result.id
    return each.settings != chosen_settings(method) or (
        seeds is not None and seeds_for(method, each.seeds) != seeds_for(method, seeds)
    )


def fresh(data: LogitSet, *, seeds: int | None = None, bins: int | None = None) -> dict[str, MethodResult]:
    """Return the results that are not stale and can be ranked together."""
    return {
        method: each.result
        for method, each in rows(data).items()
        if each.result.available and not is_stale(each, seeds=seeds, bins=bins)
    }


def ranking(
    data: LogitSet, results: dict[str, MethodResult], metric: str, bins: int, *, test: bool = True
) -> Comparison:
    """Rank results by a metric, with paired tests against the best.

    The ranking is cached in the session. With `test=False`, results that were not ranked before are only sorted: the
    paired tests take a second on large sets, which is too long for each row that arrives during a job.
    """
    cache = session.current().rankings
    # a cached ranking keeps its results alive, so their ids stay unique
    key = f"{data.content_hash} {metric} {bins} {[id(result) for result in results.values()]}"
    if key not in cache:
        if not test:
            return ranked(data, dict(results), metric, bins)
        here = session.current()
        fits = here.fits if here.original is None else None  # a read-only view may not add the uncalibrated model
        cache[key] = summarise(data, dict(results), metric=metric, bins=bins, cache=fits)
    return cache[key]


def recommended(ranking: Comparison) -> str:
    """Return the method to deploy; without paired tests, the best by the primary metric."""
    if ranking.recommended is not None and ranking.recommended.method in ranking.results:
        return ranking.recommended.method
    return ranking.best or next(iter(ranking.results))
