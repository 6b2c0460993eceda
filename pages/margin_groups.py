"""Margin groups: at which margins is the confidence wrong, and what do calibrators change there?"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import streamlit as st

from pages.shared import cache, charts, chosen_on_test, datasets, estimates, leaderboard, navigation, session, tables
from pages.shared.components import IN_URL, empty_state, parse_numbers, plain_text, python_code
from pages.shared.glossary import note, say
from pages.shared.urls import DEFAULT_SEEDS
from pages.shared.verdicts import margin_group_verdict
from smart_core import Evaluation
from smart_core.analysis.margin_groups import (
    GROUPS,
    margin_edges,
    margin_text,
    samples_in,
)
from smart_core.calibrators import method_named
from smart_core.errors import CalibrationError
from smart_core.figures import confidence_change_plot, gap_heatmap, margin_group_grid
from smart_core.formatting import percent, plural

navigation.enter()

MAX_EDGES = 20
FITTED_HERE = ("ts", "smart")


class Edges(NamedTuple):
    """Increasing margins between groups, and the Python that computes them from `evaluation.margin`."""

    values: list[float]
    code: str


def choose_edges(evaluation: Evaluation) -> Edges:
    """Ask for a number of groups of equal size, or for custom edges."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        number = st.slider("Groups", 2, 12, GROUPS, key="groups", **IN_URL, width=260, help="Groups of equal size.")
        custom = st.text_input(
            "Custom edges",
            key="edges",
            **IN_URL,
            placeholder="1.8, 2.9, 5",
            width=260,
            help="Increasing margins, separated by commas. The paper shows 1.78–2.90, 4.00–4.99 and 6.76–8.68.",
        )
    if custom.strip():
        try:
            parts = parse_numbers(custom)
            if len(parts) > MAX_EDGES:
                raise CalibrationError(f"{len(parts)} edges are too many; give at most {MAX_EDGES}.")
            values = margin_edges(evaluation.margin, edges=parts)
            return Edges(values.tolist(), f"margin_edges(evaluation.margin, edges={parts})")
        except ValueError:
            st.warning("Custom edges are numbers separated by commas, like 1.8, 2.9, 5. The slider is used instead.")
        except CalibrationError as error:
            st.warning(f"{error} The slider is used instead.")
    return Edges(cache.margin_edges(evaluation, number), f"margin_edges(evaluation.margin, {number})")


def choose_methods(labels: dict[str, str], fitting: bool) -> tuple[str, str]:
    """Ask for the two methods to compare. While the first fits run, the second is the latest that has finished."""
    ids = list(labels)
    changed = [id for id in session.newly_selected("margin-groups") if id in ids and id != "vanilla"]
    if changed and "after" in st.session_state:
        st.session_state["after"] = changed[0]
    wanted = [id for id in (*session.selected(), "smart", ids[-1]) if id in ids and id != "vanilla"]
    latest = wanted[0] if wanted else ids[-1]
    if len(ids) == 1 or (fitting and "after" not in st.session_state):
        return ids[0], latest
    common: dict[str, Any] = {"format_func": labels.__getitem__, **IN_URL, "width": 200}
    with st.container(horizontal=True):
        before = st.selectbox("Before", ids, key="before", **common)
        after = st.selectbox("After", ids, index=ids.index(latest), key="after", **common)
    return before, after


def list_cell(event: Any) -> None:
    """Explain the colours, and list the samples of the clicked cell."""
    note("Orange: overconfident. Blue: underconfident. Click a cell to list its samples.")
    if event.selection.points:
        group, cell = (int(value) for value in event.selection.points[0]["customdata"][:2])
        rows = samples_in(evaluations[after], edges.values, bins, group=group, confidence_bin=cell)
        span = margin_text(edges.values[group], edges.values[group + 1])
        share = f"{percent(cell / bins)} to {percent((cell + 1) / bins)}"
        st.markdown(f"**Margin {span}, confidence {share}: {plural(len(rows), 'sample')}**")
        tables.samples(data, rows, evaluations[before], evaluations[after])


bins, data = session.bins(), datasets.current()
st.title("Margin groups")
say("At which margins is the confidence wrong, and what do calibrators change there?")

fitted = leaderboard.fitted(data)
evaluations = {"vanilla": cache.uncalibrated(data)}
evaluations |= {id: result.evaluations[0] for id, result in fitted.items() if id != "vanilla"}
labels = {id: method_named(id).label for id in evaluations}
edges = choose_edges(evaluations["vanilla"])
fitting = leaderboard.active_job(data) is not None
before, after = choose_methods(labels, fitting)
look = charts.look(data)

chosen_on_test.warn(data)
groups = {id: cache.margin_groups(data, evaluations[id], edges.values, bins) for id in dict.fromkeys((before, after))}
for id, found in groups.items():
    st.markdown(f"##### {plain_text(margin_group_verdict(found, labels[id]))}")
stale = [labels[id] for id, row in leaderboard.rows(data).items() if id in fitted and leaderboard.is_stale(row)]
if stale:
    st.warning(f"Settings changed: refit on Compare. Still fitted with the earlier ones: {', '.join(stale)}.")
if fitting:
    st.info("Fitting. Finished methods appear here.")
elif len(evaluations) == 1:
    text = "Nothing is fitted yet. Fit two methods to see what they change."
    takes = estimates.rows_text(data, FITTED_HERE, DEFAULT_SEEDS)
    if empty_state(text, "Fit TS and SMART", "fit-two", shortcut="Ctrl+Enter", takes=takes):
        leaderboard.fit(data, FITTED_HERE, bins=bins)
        st.rerun()

second = evaluations[after] if after != before else None
grid = margin_group_grid(
    evaluations[before], second, edges.values, bins, methods=(before, after), groups=list(groups.values()), **look
)
charts.show(grid, "margin-groups")
details = st.expander(f"The groups as a table: {labels[after]}", key="group-box", on_change="rerun")
if details.open:
    with details:
        tables.margin_groups(cache.group_intervals(data, evaluations[after], edges.values, bins))

left, right = st.columns(2)
with left:
    st.subheader(f"Gap by margin and confidence: {labels[after]}")
    # a selected cell is stored by its position, which means other samples in another grid
    key = hashlib.sha256(f"{data.content_hash} {after} {edges.values} {bins}".encode()).hexdigest()[:12]
    with st.container(key="gap"):
        heatmap = gap_heatmap(evaluations[after], edges.values, bins, **look)
        charts.show(heatmap, f"gap-{key}", on_select="rerun", below=list_cell)
with right:
    st.subheader("Confidence change by margin")
    if fitted.keys() - {"vanilla"}:
        model = evaluations["vanilla"]
        chosen = session.selected() or ("ts", before, after)
        drawn = [id for id in evaluations if id != "vanilla" and id in chosen]
        changes = {id: cache.confidence_change(model, evaluations[id]) for id in drawn or [after]}
        charts.show(confidence_change_plot(changes, **look), "change")
        note(
            "Change from the uncalibrated model. Dotted: the change that would close the gap. Rows selected on "
            "Compare are drawn here."
        )
    else:
        note("Appears when a method is fitted.")

row = leaderboard.row(data, after)
python_code(
    f"""
from smart_core.calibrators import get, method_named
from smart_core.analysis.margin_groups import margin_edges, margin_groups, worst_group

calibrator = get("{after}", **{row.settings if row is not None else {}}).fit(
    data.validation.logits, data.validation.labels, features=data.validation.features, head=data.head
)
evaluation = sc.evaluate(calibrator, data.test, bins={bins})
groups = margin_groups(evaluation, {edges.code}, bins={bins})
for group in groups:
    print(group.sentence)
worst = worst_group(groups)
print("worst:", worst.sentence if worst else "none beyond chance")
"""
)
