"""The leaderboard as a table: a row per method, its error measured and true, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from pages.shared import charts, session
from pages.shared.session import LeaderboardRow
from smart_core.calibrators import method_named
from smart_core.evaluation import (
    CALIBRATION_ERRORS,
    FURTHER,
    HEADLINE,
    IMPROVED,
    MEASURED_AND_TRUE,
    METRICS,
    TRUE_RANGE,
    measured_label,
    metric_range,
    metric_value,
)
from smart_core.experiments import Comparison, MethodResult
from smart_core.figures import row_images
from smart_core.formatting import percent

STALE = "settings changed: refit"
OTHER_BINS = "other bins: re-evaluate"
GREY = "color: #8A919C"
"""Colour of unranked rows; contrast of at least 3:1 on both backgrounds."""

ROW_HEIGHT, SCROLLBAR_HEIGHT = 35, 16
"""Pixels."""
MAX_ROWS = 32
"""Rows that are visible without scrolling."""

BAR = "░ floor ▬ true ● measured"
"""The column of images, named by what they show."""

HELP = {
    "Verdict": "By the primary metric. Tied: a paired test cannot distinguish the method from the best. "
    '"Worse NLL, Brier or Accuracy": worse than the uncalibrated model, beyond noise.',
    "± seeds": "Standard deviation over seeds.",
    "noise floor": MEASURED_AND_TRUE,
    "top-1": "Whether the predicted class always stays the one with the largest logit.",
    "seconds": "Time of one fit, averaged over seeds.",
    **dict.fromkeys(IMPROVED.values(), "Share of the uncalibrated model's loss that the method removes; no interval."),
    **{described.label: f"{described.help} No interval." for described in FURTHER.values()},
}
"""Column -> its tooltip."""


def draw_leaderboard(
    rows: Mapping[str, LeaderboardRow], ranking: Comparison | None, stale: Mapping[str, str], metric: str
) -> list[str]:
    """Draw the leaderboard, and return the methods whose rows are selected; other pages draw these too."""
    everything = st.toggle("All columns", key="leaderboard-columns", persist_state="session")
    table = leaderboard(rows, ranking, stale, metric)
    fresh = {id: rows[id].result for id in table["method"] if rows[id].result.available and id not in stale}
    table[BAR] = table["method"].map(row_images(fresh, metric, charts.is_dark()))
    chosen = [number for number, id in enumerate(table["method"]) if id in session.selected()]
    intervals = {name: st.column_config.TextColumn(help=MEASURED_AND_TRUE) for name in table if TRUE_RANGE in name}
    measured = {measured_label(name): f"{METRICS[name].help} {MEASURED_AND_TRUE}" for name in CALIBRATION_ERRORS}
    with st.container(key="leaderboard"):
        event: Any = st.dataframe(
            grey_unranked(table),
            hide_index=True,
            column_order=columns(metric, everything),
            column_config={
                "Method": st.column_config.TextColumn(pinned=True, width=96),
                BAR: st.column_config.ImageColumn(help=MEASURED_AND_TRUE, width=162),
                **intervals,
                **{name: st.column_config.TextColumn(help=text) for name, text in (HELP | measured).items()},
                measured_label(metric): st.column_config.TextColumn(
                    help=(HELP | measured).get(measured_label(metric)), width=None if everything else 102
                ),
                "Verdict": st.column_config.TextColumn(help=HELP["Verdict"], width=152),
                "top-1": st.column_config.TextColumn(help=HELP["top-1"], width=80),
                "seconds": st.column_config.TextColumn(help=HELP["seconds"], width=66),
            },
            height=height(len(table)),
            # a selection is stored as row numbers, which mean other methods in another order
            key=f"leaderboard-{'-'.join(table['method'])}",
            on_select="rerun",
            selection_mode="multi-row",
            placeholder="",
            selection_default={"selection": {"rows": chosen}},
            alt=f"Leaderboard of {len(table)} methods by {METRICS[metric].label}.",
        )
    selected = [table["method"].iloc[number] for number in event.selection.rows]
    st.session_state[session.SELECTED] = selected
    return selected


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
    improved = {} if ranking is None else {id: improvements(ranking, id) for id in fresh if id in ranking.results}
    table = [
        _table_row(rows[id].result, metric, "" if ranking is None else verdict(ranking, id)) | improved.get(id, {})
        for id in fresh
    ]
    table += [_table_row(rows[id].result, metric, stale[id]) for id in old]
    table += [{"method": id, "Method": method_named(id).label, "Verdict": reason} for id, reason in failed.items()]
    return pd.DataFrame(table, columns=["method", *(name for name in columns(metric, everything=True) if name != BAR)])


def verdict(ranking: Comparison, id: str) -> str:
    """Return the standing of a method by the primary metric, and in which scores it is worse than the model."""
    return ranking.standing_text(id).removesuffix(" than the model")  # the tooltip names the baseline


def improvements(ranking: Comparison, id: str) -> dict[str, str]:
    """Return the shares of the model's losses that a method removes, under their headings."""
    return {label: percent(ranking.improvement(id, loss)) for loss, label in IMPROVED.items()}


def height(rows: int) -> int:
    """Return the height of the table in pixels: header, rows, and the scrollbar, which would cover the last row."""
    return ROW_HEIGHT * (1 + min(rows, MAX_ROWS)) + SCROLLBAR_HEIGHT


def grey_unranked(table: pd.DataFrame) -> Any:
    """Return the table with unranked rows in grey."""
    grey = table["Verdict"].map(lambda text: text.split(",")[0] not in ("best", "tied", "worse", ""))
    return table.style.apply(lambda row: [GREY if grey[row.name] else ""] * len(row), axis=1)


def columns(metric: str, everything: bool) -> list[str]:
    """Return the columns in their order: those that a decision needs, or all."""
    first = ["Method", "Verdict", measured_label(metric), BAR]
    if everything:
        others = [name for name in HEADLINE if name != metric]
        pairs = [label for name in others for label in (measured_label(name), _range_label(name))]
        more = [*IMPROVED.values(), *(described.label for name, described in FURTHER.items() if name != metric)]
        first += ["± seeds", "noise floor", _range_label(metric), *pairs, *more, "parameters"]
    else:
        first += [METRICS[name].label for name in ("nll", "accuracy") if name != metric]
    return [*first, "top-1", "seconds"]


def _range_label(metric: str) -> str:
    return f"{METRICS[metric].label}, {TRUE_RANGE}"


def _table_row(result: MethodResult, metric: str, verdict: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "method": result.id,
        "Method": method_named(result.id).label,
        "Verdict": verdict,
        "± seeds": metric_value(metric, result.std(metric)),
        "noise floor": metric_value(metric, result.floor_q95(metric)),
        "top-1": "kept" if result.keeps_top1 else "may change",
        "parameters": f"{result.parameters:,}",
        "seconds": f"{result.fit_seconds:.2f}",
        **dict.fromkeys(IMPROVED.values(), ""),
    }
    for name in dict.fromkeys((metric, *HEADLINE)):
        row[measured_label(name)] = metric_value(name, result.mean(name))
        row[_range_label(name)] = metric_range(name, *result.ends(name))
    for name, described in FURTHER.items():  # a workspace of an older version has none
        row[described.label] = metric_value(name, result.mean(name)) if name in result.values else ""
    return row


def _sort_key(result: MethodResult, metric: str) -> float:
    return METRICS[metric].sort_key(result.mean(metric))
