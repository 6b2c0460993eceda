"""Compare: which calibrator repairs the confidence, and is the repair real or noise?"""

from __future__ import annotations

import streamlit as st

from pages.shared import (
    charts,
    chosen_on_test,
    datasets,
    downloads,
    estimates,
    forms,
    leaderboard,
    model_pairs,
    navigation,
    probability_interval,
    recommendation,
    session,
    urls,
)
from pages.shared.chain_form import chain_form
from pages.shared.components import plain_text, python_code, seeds_input
from pages.shared.glossary import note, say
from pages.shared.jobs import Job
from pages.shared.leaderboard_table import OTHER_BINS, STALE, draw_leaderboard
from pages.shared.session import LeaderboardRow
from pages.shared.verdicts import comparison_verdict
from smart_core import LogitSet
from smart_core.calibrators import method_named, methods
from smart_core.evaluation import METRICS, metric_value
from smart_core.experiments import Comparison, paper
from smart_core.figures import Curve, leaderboard_plot, reliability_diagram
from smart_core.formatting import join_words

navigation.enter()

MAX_CURVES = 6


def controls(data: LogitSet, rows: dict[str, LeaderboardRow], bins: int) -> int:
    """Draw the Fit buttons, the list of methods and their settings; return the number of seeds."""
    labels = {id: method.label for id, method in methods().items()}
    quick = leaderboard.recommended_set(data, st.session_state.get(session.SEEDS, urls.DEFAULT_SEEDS))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        recommended = st.button(
            "Fit the recommended set",
            type="primary",
            key="fit-recommended",
            shortcut="Ctrl+Enter",
            help=f"The quickest methods of every family for this data set: {', '.join(labels[id] for id in quick)}.",
        )
        seeds = seeds_input(session.SEEDS, urls.DEFAULT_SEEDS)
        note(f"{len(quick)} methods, {estimates.rows_text(data, quick, seeds)}", width="content")
    with st.expander("Choose methods"):
        chosen = forms.method_checklist(data, rows, quick)
        with st.container(horizontal=True):
            selected = st.button("Fit selected", key="fit-selected", disabled=not chosen)
            everything = st.button(f"Fit all {len(labels)}", key="fit-all")
        some, every = (estimates.rows_text(data, ids, seeds) for ids in (chosen, list(labels)))
        note(f"Selected: {some or 'none'}. All: {every}.")
        chain = chain_form(data)
    forms.settings_expander([*labels, *(id for id in rows if id not in labels)])  # chains have settings too
    # a method that cannot run gets a row too, with the reason
    chosen = chosen if selected else [chain] if chain else []
    wanted = list(labels) if everything else quick if recommended else chosen
    if wanted:
        leaderboard.fit(data, wanted, seeds=seeds, bins=bins)
        st.rerun()
    return seeds


def show_progress(job: Job | None, latest: Job | None) -> None:
    """Say how many fits are done, or that they were cancelled; the progress bar is in the sidebar."""
    if job is not None:
        st.info(f"{job.steps_done} of {len(job.steps)} methods fitted. You can leave this page; the fits continue.")
    elif latest is not None and latest.state == "cancelled":
        note("Cancelled. Finished rows are kept; fit again to continue.")


def below_table(data: LogitSet, stale: dict[str, str], ranking: Comparison | None, seeds: int, bins: int) -> None:
    """Draw the buttons that update stale rows and download the table."""
    with st.container(horizontal=True):
        if stale:
            label = "Refit stale rows" if STALE in stale.values() else f"Re-evaluate with {bins} bins"
            if st.button(label, key="refit", help="Fits whose settings have not changed are reused."):
                leaderboard.fit(data, list(stale), seeds=seeds, bins=bins)
                st.rerun()
        if ranking is not None:
            frame = ranking.to_frame().reset_index()
            name = f"{downloads.file_stem(datasets.current_title(), 'leaderboard')}.csv"
            downloads.button("Download the table as CSV", lambda: downloads.csv_bytes(frame), name, "leaderboard-csv")


def show_notices(rows: dict[str, LeaderboardRow]) -> None:
    """List the notices of the fits."""
    texts = [f"{method_named(id).label}: {notice}" for id, row in rows.items() for notice in row.result.notices]
    if texts:
        with st.expander(f"Notices of the fits ({len(texts)})"):
            for text in texts:
                note(plain_text(text))


def overlay(data: LogitSet, ranking: Comparison, selected: list[str], bins: int) -> None:
    """Draw the reliability curves of the selected rows, or of the best method and the common baselines."""
    default = dict.fromkeys(("vanilla", "ts", "smart", ranking.best))
    ids = [id for id in selected if id in ranking.results] or [id for id in default if id in ranking.results]
    drawn = {id: ranking.results[id].evaluations[0] for id in ids[:MAX_CURVES]}
    curves = [Curve(each.reliability(bins), id) for id, each in drawn.items()]
    charts.show(reliability_diagram(curves, **charts.look(data)), "overlay")
    text = f"{len(data.test):,} test samples, first seed of each method. "
    text += f"Drawn: {join_words([method_named(id).label for id in drawn])}. "
    if len(ids) > MAX_CURVES:
        text += f"Only the first {MAX_CURVES} of the selected rows are drawn."
    elif any(id not in ranking.results for id in selected):
        text += "Stale rows have no curve until they are refitted."
    else:
        text += "Select rows of the table to draw others."
    note(text)


def paper_values(metric: str) -> None:
    """Show what the paper reports for one of its models."""
    with st.expander("Values reported in the paper"):
        models = [model for model in paper.models() if paper.rows(**model._asdict(), metric=metric)]
        if not models:
            note(f"The paper does not report {METRICS[metric].label}.")
            return
        model = st.selectbox(
            "Data set and model", models, format_func=" / ".join, key="paper-model", persist_state="session", width=360
        )
        found = paper.rows(**model._asdict(), metric=metric)
        for table in dict.fromkeys(value.table for value in found):
            note(f"{plain_text(paper.table_name(table))} of the paper")
            rows = [
                {
                    "method": method_named(value.method).label if value.method in methods() else value.method,
                    "variant": value.variant,
                    METRICS[metric].label: metric_value(metric, value.value),
                }
                for value in found
                if value.table == table
            ]
            st.dataframe(rows, hide_index=True, key=f"paper-{table}", width="content")


bins, metric = session.bins(), session.metric()
data = datasets.current()
rows = leaderboard.rows(data)

st.title("Compare")
say("Which method repairs the confidence, beyond noise?")
verdict = st.container()
seeds = controls(data, rows, bins)
job = leaderboard.active_job(data)
show_progress(job, session.current().jobs.latest(leaderboard.KIND, data.content_hash))
if rows:
    stale = {
        id: STALE if leaderboard.needs_refit(row, seeds=seeds) else OTHER_BINS
        for id, row in rows.items()
        if leaderboard.is_stale(row, seeds=seeds, bins=bins)
    }
    fresh = leaderboard.fresh(data, seeds=seeds, bins=bins)
    sorted_rows = leaderboard.ranking(data, fresh, metric, bins, test=job is None) if fresh else None
    ranking = sorted_rows if job is None or (sorted_rows is not None and sorted_rows.tied) else None
    if ranking is not None:
        with verdict:
            chosen_on_test.warn(data, seeds=seeds)
            if not recommendation.draw(ranking):
                st.markdown(f"#### {comparison_verdict(ranking)}")
    selected = draw_leaderboard(rows, ranking, stale, metric)
    if ranking is not None and len(ranking.available) > 1:
        note(comparison_verdict(ranking))
    below_table(data, stale, ranking, seeds, bins)
    show_notices(rows)
    if sorted_rows is not None:
        left, right = st.columns(2)
        with left:
            charts.show(leaderboard_plot(sorted_rows, metric, **charts.look(data, metric)), "leaderboard-plot")
        with right:
            overlay(data, sorted_rows, selected, bins)
        probability_interval.draw(data, sorted_rows)
model_pairs.offer()
paper_values(metric)
wanted = [id for id in rows if rows[id].result.available] or leaderboard.recommended_set(data, seeds)
settings = {id: leaderboard.chosen_settings(id) for id in wanted if leaderboard.chosen_settings(id)}
python_code(
    f"""
result = sc.compare(data, methods={wanted}, seeds={seeds}, bins={bins}, metric="{metric}", settings={settings})
print(result.to_frame())
print("best:", result.best, "tied with it:", [id for id, tied in result.tied.items() if tied])
"""
)
