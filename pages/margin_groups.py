"""Margin groups: where along the margin is the confidence wrong, and what do calibrators do about it there?"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from pages.shared import board, cached, downloads, library, routing, show, state
from pages.shared.desk import desk
from pages.shared.wording import plain_text
from smart_core import Evaluation, LogitSet
from smart_core.analysis.margin_groups import (
    GROUPS,
    MarginGroup,
    confidence_change,
    margin_edges,
    margin_text,
    samples_in,
    worst_group,
)
from smart_core.calibrators import methods
from smart_core.errors import CalibrationError
from smart_core.figures import confidence_change_plot, gap_heatmap, margin_group_grid
from smart_core.formatting import percent
from smart_core.types import IntArray

routing.enter()

LISTED = 1000
"""Samples of a cell that are listed."""

MOST_OWN = 20
"""Edges of one's own: more panels than this nobody reads."""


@dataclass(frozen=True)
class Edges:
    """Rising margins between groups, and the Python that finds them in `judged.margin`."""

    values: list[float]
    code: str


def chosen_edges(evaluation: Evaluation) -> Edges:
    """Groups of equally many samples, or between edges of the reader's own."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        number = st.slider(
            "Groups",
            2,
            12,
            GROUPS,
            key="groups",
            bind="query-params",
            persist_state="session",
            width=260,
            help="Equally many samples in each.",
        )
        own = st.text_input(
            "Own edges instead",
            key="edges",
            bind="query-params",
            persist_state="session",
            placeholder="1.8, 2.9, 5",
            width=260,
            help="Rising margins, separated by commas. The paper shows 1.78–2.90, 4.00–4.99 and 6.76–8.68.",
        )
    if own.strip():
        try:
            parts = [float(part) for part in own.replace(";", ",").split(",") if part.strip()]
            if len(parts) > MOST_OWN:
                raise CalibrationError(f"{len(parts)} edges are too many; give at most {MOST_OWN}.")
            values = margin_edges(evaluation.margin, edges=parts)
            return Edges(values.tolist(), f"margin_edges(judged.margin, edges={parts})")
        except ValueError:
            st.warning("Own edges are numbers separated by commas, like 1.8, 2.9, 5. Until then the slider counts.")
        except CalibrationError as error:
            st.warning(f"{error} Until then the slider counts.")
    return Edges(margin_edges(evaluation.margin, number).tolist(), f"margin_edges(judged.margin, {number})")


def pair(available: dict[str, str], filling: bool) -> tuple[str, str]:
    """The two methods to set side by side. While the first fits are `filling` the list, the second follows them."""
    ids = list(available)
    latest = "smart" if "smart" in ids else ids[-1]
    if len(ids) == 1 or (filling and "after" not in st.session_state):
        return ids[0], latest
    common: dict[str, Any] = {"format_func": available.__getitem__, "bind": "query-params", "width": 200}
    with st.container(horizontal=True):
        before = st.selectbox("Before", ids, key="before", persist_state="session", **common)
        after = st.selectbox("After", ids, index=ids.index(latest), key="after", persist_state="session", **common)
    return before, after


def sentence(groups: list[MarginGroup], label: str) -> str:
    """The worst group named, or that none stands out."""
    worst = worst_group(groups)
    if worst is None:
        return f"{label}: in every margin group the error is within what chance explains."
    words = (
        f"{label} is worst at {worst.sentence} ({worst.n:,} samples; ECE {percent(worst.ece)}, chance explains "
        f"{percent(worst.floor_q95)})."
    )
    largest = max((group for group in groups if group.n), key=lambda group: group.ece)
    if largest is worst:
        return words
    # the largest figure of the chart is another group's: say why that one is not named
    span, explained = margin_text(largest.low, largest.high, " to ", 2), percent(largest.floor_q95)
    return (
        f"{words} The ECE is larger at margins {span}, {percent(largest.ece)}, but there chance explains {explained}."
    )


def group_table(groups: list[MarginGroup]) -> None:
    """Every group in figures, with the interval of its error."""
    shares = ("mean confidence", "accuracy", "ECE", "low", "high", "floor")
    st.dataframe(
        [
            {
                "margin": margin_text(group.low, group.high, digits=2),
                "samples": group.n,
                "mean confidence": group.confidence,
                "accuracy": group.accuracy,
                "ECE": group.ece,
                "low": group.interval.low if group.interval else None,
                "high": group.interval.high if group.interval else None,
                "floor": group.floor_q95,
            }
            for group in groups
        ],
        hide_index=True,
        key="group-table",
        column_config={name: st.column_config.NumberColumn(format="percent") for name in shares},
    )
    st.caption("Low and high: the 95 % interval of the group's population ECE. Floor: 95 % of sets by chance below.")


def samples(data: LogitSet, rows: IntArray, before: Evaluation, after: Evaluation) -> None:
    """The samples behind a cell."""
    names = data.class_names
    shown = rows[:LISTED]
    columns = {
        "label": data.test.labels[shown],
        "prediction before": before.prediction[shown],
        "prediction after": after.prediction[shown],
    }
    table = pd.DataFrame(
        {
            "row": shown,
            **{name: [names[k] for k in ids] if names else ids for name, ids in columns.items()},
            "confidence before": before.confidence[shown],
            "confidence after": after.confidence[shown],
            "margin": before.margin[shown],
        }
    )
    if data.test.group is not None:
        table["group"] = data.test.group[shown]
    shares = ("confidence before", "confidence after")
    show.table(table, "samples", downloads.stem(library.title(), "samples"), shares)
    if len(rows) > LISTED:
        st.caption(f"The first {LISTED:,} of {len(rows):,}.")


bins: int = st.session_state[state.BINS]
data = library.current()
st.title("Margin groups")
st.markdown("One average hides much: the same samples, grouped by their margin (largest minus second largest logit).")

fitted = board.fitted(data)
evaluations = {"vanilla": cached.uncalibrated(data)}
evaluations |= {id: result.evaluations[0] for id, result in fitted.items() if id != "vanilla"}
edges = chosen_edges(evaluations["vanilla"])
fitting = desk().tray.active("compare", data.content_hash) is not None
before, after = pair({id: methods()[id].label for id in evaluations}, fitting)
look: dict[str, Any] = {"dark": show.dark(), "uirevision": data.content_hash}

groups = {id: cached.margin_groups(data, evaluations[id], edges.values, bins) for id in dict.fromkeys((before, after))}
for id, judged in groups.items():
    st.markdown(f"##### {plain_text(sentence(judged, methods()[id].label))}")
old = [methods()[id].label for id, row in board.rows(data).items() if id in fitted and board.stale(row)]
if old:
    st.warning(f"Settings changed: refit on Compare. Still fitted with the earlier ones: {', '.join(old)}.")
if fitting:
    st.info("Fitting: finished methods appear here by themselves.")
elif len(evaluations) == 1 and show.empty(
    "Nothing is fitted yet, so there is no after.", "Fit TS and SMART", "fit-two", shortcut="Ctrl+Enter"
):
    board.fit(data, ["ts", "smart"], bins=bins)
    st.rerun()

show.chart(
    margin_group_grid(
        evaluations[before],
        evaluations[after] if after != before else None,
        edges.values,
        bins,
        methods=(before, after),
        groups=list(groups.values()),
        **look,
    ),
    "margin-groups",
)
details = st.expander(f"The groups in figures: {methods()[after].label}", key="group-box", on_change="rerun")
if details.open:
    with details:
        group_table(cached.group_intervals(data, evaluations[after], edges.values, bins))

left, right = st.columns(2)
with left:
    st.subheader(f"Gap by margin and confidence: {methods()[after].label}")
    # a selected cell is a place in the grid: on another grid it would mean other samples
    grid = hashlib.sha256(f"{data.content_hash} {after} {edges.values} {bins}".encode()).hexdigest()[:12]
    with st.container(key="gap"):
        event = show.chart(
            gap_heatmap(evaluations[after], edges.values, bins, **look), f"gap-{grid}", on_select="rerun"
        )
    st.caption("Orange: too sure. Blue: not sure enough. Click a cell to see its samples.")
with right:
    st.subheader("Confidence change along the margin")
    others = {id: found for id, found in evaluations.items() if id != "vanilla"}
    if others:
        changes = {id: confidence_change(evaluations["vanilla"], found) for id, found in others.items()}
        show.chart(confidence_change_plot(changes, **look), "change")
        st.caption("Against the model as it is; dotted: the change that would close the gap.")
    else:
        st.caption("Appears as soon as a method is fitted.")

points = event.selection.points
if points:
    group, cell = (int(value) for value in points[0]["customdata"][:2])
    rows = samples_in(evaluations[after], edges.values, bins, group=group, confidence_bin=cell)
    span = margin_text(edges.values[group], edges.values[group + 1], " to ", 2)
    st.subheader(f"Margin {span}, confidence {percent(cell / bins)} to {percent((cell + 1) / bins)}: {len(rows):,}")
    samples(data, rows, evaluations[before], evaluations[after])

row = board.row(data, after)
settings = row.settings if row is not None else {}
show.python(
    library.load_code()
    + f"""
from smart_core.calibrators import get
from smart_core.analysis.margin_groups import margin_edges, margin_groups, worst_group

calibrator = get("{after}", **{settings}).fit(
    data.validation.logits, data.validation.labels, features=data.validation.features, head=data.head
)
judged = sc.evaluate(calibrator, data.test, bins={bins})
groups = margin_groups(judged, {edges.code}, bins={bins})
for group in groups:
    print(group.sentence)
worst = worst_group(groups)
print("worst:", worst.sentence if worst else "none beyond chance")
"""
)
