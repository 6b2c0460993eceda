"""The leaderboard as a table: one row a method, every figure with what noise could make of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from pages.shared.desk import Row
from smart_core.calibrators import methods
from smart_core.evaluation import HEADLINE, METRICS
from smart_core.experiments import Comparison, MethodResult
from smart_core.formatting import metric_range, metric_value

STALE = "settings changed: refit"
OTHER_BINS = "other bins: judge again"
QUIET = "color: #8A919C"
"""Of rows that cannot be ranked; 3:1 or more on both backgrounds."""

LINE, BAR = 35, 16
"""Pixels of a line of the table, and of the bar that scrolls it sideways."""
MOST_LINES = 18
"""Up to so many rows are shown at once."""


def leaderboard(
    rows: Mapping[str, Row], ranked: Comparison | None, stale: Mapping[str, str], metric: str
) -> pd.DataFrame:
    """Ranked rows by the primary metric, then those made with other settings, then those that failed or cannot run.

    `stale` gives the words for each row that was made otherwise. Without a ranking the rows are sorted, and none is
    called better than another.
    """
    fresh = [id for id in rows if rows[id].result.available and id not in stale]
    fresh.sort(key=lambda id: _rank(rows[id].result, metric))
    old = [id for id in rows if rows[id].result.available and id in stale]
    failed = {id: rows[id].result.reason or "failed" for id in rows if not rows[id].result.available}
    table = [_line(rows[id].result, metric, "" if ranked is None else ranked.standing(id)) for id in fresh]
    table += [_line(rows[id].result, metric, stale[id]) for id in old]
    table += [{"method": id, "Method": methods()[id].label, "Verdict": reason} for id, reason in failed.items()]
    return pd.DataFrame(table, columns=["method", "Method", "Verdict", *_columns(metric)])


def height(rows: int) -> int:
    """Pixels of the table: the header, the rows, and the bar below them, which would else cut through the last."""
    return LINE * (1 + min(rows, MOST_LINES)) + BAR


def greyed(table: pd.DataFrame) -> Any:
    """The table with the rows that are not ranked in a quiet colour."""
    quiet = table["Verdict"].map(lambda words: words not in ("best", "tied", "worse", ""))
    return table.style.apply(lambda row: [QUIET if quiet[row.name] else ""] * len(row), axis=1)


def _columns(metric: str) -> list[str]:
    others = [METRICS[name].label for name in HEADLINE if name != metric]
    primary = METRICS[metric].label
    return [primary, "± seeds", "95 % interval", "floor", *others, "top-1", "parameters", "seconds"]


def _line(result: MethodResult, metric: str, verdict: str) -> dict[str, Any]:
    line: dict[str, Any] = {
        "method": result.id,
        "Method": methods()[result.id].label,
        "Verdict": verdict,
        METRICS[metric].label: metric_value(metric, result.mean(metric)),
        "± seeds": metric_value(metric, result.std(metric)),
        "95 % interval": metric_range(metric, *result.ends(metric)),
        "floor": metric_value(metric, result.floor_q95(metric)),
        "top-1": "kept" if result.keeps_top1 else "may change",
        "parameters": f"{result.parameters:,}",
        "seconds": f"{result.fit_seconds:.2f}",
    }
    for name in HEADLINE:
        if name != metric:
            line[METRICS[name].label] = (
                f"{metric_value(name, result.mean(name))} ({metric_range(name, *result.ends(name))})"
            )
    return line


def best_of(results: Mapping[str, MethodResult], metric: str) -> str:
    """The method that a table of these rows has on top."""
    return min(results, key=lambda id: _rank(results[id], metric))


def _rank(result: MethodResult, metric: str) -> float:
    return METRICS[metric].sort_key(result.mean(metric))
