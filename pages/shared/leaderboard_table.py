"""The leaderboard as a table: a row per method, each metric with its interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from pages.shared.session import LeaderboardRow
from smart_core.calibrators import methods
from smart_core.evaluation import HEADLINE, METRICS, metric_range, metric_value
from smart_core.experiments import Comparison, MethodResult

STALE = "settings changed: refit"
OTHER_BINS = "other bins: re-evaluate"
GREY = "color: #8A919C"
"""Colour of unranked rows; contrast of at least 3:1 on both backgrounds."""

ROW_HEIGHT, SCROLLBAR_HEIGHT = 35, 16
"""Pixels."""
MAX_ROWS = 18
"""Rows that are visible without scrolling."""

INTERVAL = "95\u00a0% interval of the population value. Calibration errors are biased upwards on finite data, so near "
INTERVAL += "the noise floor the measured value may lie above its interval."

HELP = {
    "Verdict": "By the primary metric. Tied: a paired test cannot distinguish the method from the best. Worse NLL, "
    "Brier or Accuracy than the model: beyond noise.",
    "± seeds": "Standard deviation over seeds.",
    "95 % interval": INTERVAL,
    "floor": "A perfectly calibrated model with these confidences stays below this value on 95\u00a0% of test sets.",
    "top-1": "Whether the predicted class always stays the one with the largest logit.",
    "seconds": "Time of one fit, averaged over seeds.",
}
"""Column -> its tooltip."""


def draw_leaderboard(
    rows: Mapping[str, LeaderboardRow], ranking: Comparison | None, stale: Mapping[str, str], metric: str
) -> list[str]:
    """Draw the leaderboard, and return the methods whose rows are selected."""
    table = leaderboard(rows, ranking, stale, metric)
    others = {METRICS[name].label: f"In parentheses: {INTERVAL}" for name in HEADLINE if name != metric}
    with st.container(key="leaderboard"):
        event: Any = st.dataframe(
            grey_unranked(table),
            hide_index=True,
            column_order=[name for name in table.columns if name != "method"],
            column_config={
                "Method": st.column_config.TextColumn(pinned=True),
                **{name: st.column_config.TextColumn(help=text) for name, text in (HELP | others).items()},
            },
            height=height(len(table)),
            # a selection is stored as row numbers, which mean other methods in another order
            key=f"leaderboard-{'-'.join(table['method'])}",
            on_select="rerun",
            selection_mode="multi-row",
            alt=f"Leaderboard of {len(table)} methods by {METRICS[metric].label}.",
        )
    return [table["method"].iloc[number] for number in event.selection.rows]


def leaderboard(
    rows: Mapping[str, LeaderboardRow], ranking: Comparison | None, stale: Mapping[str, str], metric: str
) -> pd.DataFrame:
    """Return the table: rows by the primary metric, then stale rows, then methods that failed or cannot run.

    `stale` has the text for each stale row. Without a ranking, the rows are sorted and have no verdict.
    """
    fresh = [id for id in rows if rows[id].result.available and id not in stale]
    fresh.sort(key=lambda id: _sort_key(rows[id].result, metric))
    old = [id for id in rows if rows[id].result.available and id in stale]
    failed = {id: rows[id].result.reason or "failed" for id in rows if not rows[id].result.available}
    table = [_table_row(rows[id].result, metric, "" if ranking is None else verdict(ranking, id)) for id in fresh]
    table += [_table_row(rows[id].result, metric, stale[id]) for id in old]
    table += [{"method": id, "Method": methods()[id].label, "Verdict": reason} for id, reason in failed.items()]
    return pd.DataFrame(table, columns=["method", "Method", "Verdict", *_columns(metric)])


def verdict(ranking: Comparison, id: str) -> str:
    """Return the standing of a method by the primary metric, and in which scores it is worse than the model."""
    return ", ".join(part for part in (ranking.standing(id), ranking.against_model(id).warning) if part)


def height(rows: int) -> int:
    """Return the height of the table in pixels: header, rows, and the scrollbar, which would cover the last row."""
    return ROW_HEIGHT * (1 + min(rows, MAX_ROWS)) + SCROLLBAR_HEIGHT


def grey_unranked(table: pd.DataFrame) -> Any:
    """Return the table with unranked rows in grey."""
    grey = table["Verdict"].map(lambda text: text.split(",")[0] not in ("best", "tied", "worse", ""))
    return table.style.apply(lambda row: [GREY if grey[row.name] else ""] * len(row), axis=1)


def _columns(metric: str) -> list[str]:
    others = [METRICS[name].label for name in HEADLINE if name != metric]
    return [METRICS[metric].label, "± seeds", "95 % interval", "floor", *others, "top-1", "parameters", "seconds"]


def _table_row(result: MethodResult, metric: str, verdict: str) -> dict[str, Any]:
    row: dict[str, Any] = {
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
            interval = metric_range(name, *result.ends(name))
            row[METRICS[name].label] = f"{metric_value(name, result.mean(name))} ({interval})"
    return row


def _sort_key(result: MethodResult, metric: str) -> float:
    return METRICS[metric].sort_key(result.mean(metric))
