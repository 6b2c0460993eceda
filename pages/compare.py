"""Compare: which calibrator repairs it, and is the repair real or noise?"""

from __future__ import annotations

import streamlit as st

from pages.shared import board, checklist, downloads, library, routing, settings_form, show, state
from pages.shared.desk import Row, desk
from pages.shared.jobs import Job
from pages.shared.leaderboard import OTHER_BINS, STALE, greyed, height, leaderboard
from pages.shared.wording import comparison_verdict, plain_text
from smart_core import LogitSet
from smart_core.calibrators import methods
from smart_core.evaluation import HEADLINE, METRICS
from smart_core.experiments import Comparison, paper
from smart_core.figures import Curve, leaderboard_plot, reliability_diagram
from smart_core.formatting import join_words, metric_value
from smart_core.metrics import reliability

routing.enter()

MOST_CURVES = 6

BRACKETED = (
    "Bracketed: 95 % interval of the population value. A plug-in calibration error is biased upwards, so near the "
    "noise floor it may lie above its interval."
)

HELP = {
    "Verdict": "By the primary metric. Tied: the paired test cannot tell the method from the best.",
    "± seeds": "Standard deviation over seeds.",
    "95 % interval": "Of the population value, over test samples. Measured errors are biased upwards: near the floor "
    "the value may lie above its interval.",
    "floor": "95 % of test sets of a perfectly calibrated model with these confidences show less.",
    "top-1": "Whether the prediction stays the one with the largest logit.",
    "seconds": "Of one fit, mean over seeds.",
}
"""Column of the leaderboard -> how to read it."""


def controls(data: LogitSet, rows: dict[str, Row], bins: int) -> int:
    """What to fit, and with which settings; gives the number of seeds."""
    labels = {id: method.label for id, method in methods().items()}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        recommended = st.button(
            "Fit the recommended set",
            type="primary",
            key="fit-recommended",
            shortcut="Ctrl+Enter",
            help="One of each family, all quick: " + ", ".join(labels[id] for id in board.RECOMMENDED) + ".",
        )
        seeds = st.number_input(
            "Seeds",
            1,
            board.MOST_SEEDS,
            board.SEEDS,
            key=state.SEEDS,
            bind="query-params",
            persist_state="session",
            width=130,
            help="Methods that start at random are fitted once a seed. The paper uses 5.",
        )
    with st.expander("Choose methods"):
        chosen = checklist.draw(data, rows, board.RECOMMENDED)
        with st.container(horizontal=True):
            selected = st.button("Fit selected", key="fit-selected", disabled=not chosen)
            everything = st.button(f"Fit all {len(labels)}", key="fit-all")
    changed = [labels[id] for id in labels if board.chosen_settings(id)]
    with st.expander("Settings" + (f" (changed: {', '.join(changed)})" if changed else "")):
        about = st.selectbox(
            "Settings of",
            list(labels),
            index=list(labels).index("smart"),
            format_func=labels.__getitem__,
            key="settings-of",
            persist_state="session",
            width=260,
        )
        st.caption(methods()[about].summary)
        settings_form.draw(about)
    # a method that cannot run gets its row too, which says why
    wanted = list(labels) if everything else list(board.RECOMMENDED) if recommended else chosen if selected else []
    if wanted:
        board.fit(data, wanted, seeds=seeds, bins=bins)
        st.rerun()
    return seeds


def old_rows(rows: dict[str, Row], seeds: int, bins: int) -> dict[str, str]:
    """The methods whose rows were made otherwise than asked for now -> what is to be done."""
    return {
        id: STALE if board.needs_fit(row, seeds=seeds) else OTHER_BINS
        for id, row in rows.items()
        if board.stale(row, seeds=seeds, bins=bins)
    }


def says_progress(job: Job | None, latest: Job | None) -> None:
    """How far the fits are, or that they were stopped; the bar itself is in the sidebar."""
    if job is not None:
        st.info(f"{job.steps_done} of {job.steps} methods done. Rows appear as they are finished; leave as you like.")
    elif latest is not None and latest.state == "cancelled":
        st.caption("Cancelled. Finished rows are kept, and fitting again goes on from there.")


def the_table(rows: dict[str, Row], ranked: Comparison | None, old: dict[str, str], metric: str) -> list[str]:
    """The leaderboard; gives the methods whose rows are selected."""
    table = leaderboard(rows, ranked, old, metric)
    bracketed = {METRICS[name].label: BRACKETED for name in HEADLINE if name != metric}
    with st.container(key="leaderboard"):
        event = st.dataframe(
            greyed(table),
            hide_index=True,
            column_order=[name for name in table.columns if name != "method"],
            column_config={
                "Method": st.column_config.TextColumn(pinned=True),
                **{name: st.column_config.TextColumn(help=words) for name, words in (HELP | bracketed).items()},
            },
            height=height(len(table)),
            # a selection holds places in the table: in another order they would mean other methods
            key=f"leaderboard-{'-'.join(table['method'])}",
            on_select="rerun",
            selection_mode="multi-row",
            alt=f"Leaderboard of {len(table)} methods by {METRICS[metric].label}.",
        )
    return [table["method"].iloc[number] for number in event.selection.rows]


def below_the_table(data: LogitSet, old: dict[str, str], ranked: Comparison | None, seeds: int, bins: int) -> None:
    """How to read the intervals; bring greyed rows up to date; take the ranked ones away."""
    st.caption(
        "Intervals are of the value on endless data. Noise adds to a measured calibration error, so one near the noise "
        "floor may lie above its interval."
    )
    with st.container(horizontal=True):
        if old:
            again = "Refit stale rows" if STALE in old.values() else f"Judge again with {bins} bins"
            words = "Fits that are still as asked for are kept; with other bins they are only judged again."
            if st.button(again, key="refit", help=words):
                board.fit(data, [id for id in methods() if id in old], seeds=seeds, bins=bins)
                st.rerun()
        if ranked is not None:
            frame = ranked.to_frame().reset_index()
            st.download_button(
                "Download the table as CSV",
                data=lambda: downloads.csv_bytes(frame),
                file_name=f"{downloads.stem(library.title(), 'leaderboard')}.csv",
                mime="text/csv",
                key="leaderboard-csv",
                on_click="ignore",
            )


def says_notices(rows: dict[str, Row]) -> None:
    """What the fits had to say of themselves."""
    said = [f"{methods()[id].label}: {notice}" for id, row in rows.items() for notice in row.result.notices]
    if said:
        with st.expander(f"Notices of the fits ({len(said)})"):
            for words in said:
                st.caption(plain_text(words))


def overlay(data: LogitSet, ranked: Comparison, picked: list[str], bins: int) -> None:
    """Reliability curves over each other: of the selected rows that are ranked, else of the best and the usual ones."""
    usual = dict.fromkeys(("vanilla", "ts", "smart", ranked.best))
    ids = [id for id in picked if id in ranked.results] or [id for id in usual if id in ranked.results]
    curves = []
    for id in ids[:MOST_CURVES]:
        judged = ranked.results[id].evaluations[0]
        curves.append(Curve(reliability(judged.confidence, judged.correct, bins), id))
    show.chart(reliability_diagram(curves, dark=show.dark(), uirevision=data.content_hash), "overlay")
    words = f"{len(data.test):,} test samples, first seed of each method. "
    words += f"Drawn: {join_words([methods()[id].label for id in ids[:MOST_CURVES]])}. "
    if len(ids) > MOST_CURVES:
        words += f"Of the rows selected in the table the first {MOST_CURVES} are drawn."
    elif any(id not in ranked.results for id in picked):
        words += "A selected row in grey has no curve until it is brought up to date."
    else:
        words += "Select rows of the table to draw others."
    st.caption(words)


def papers_row(metric: str) -> None:
    """What the paper reports for one of its models, beside what was found here."""
    with st.expander("The paper's own figures"):
        models = [model for model in paper.models() if paper.rows(**model._asdict(), metric=metric)]
        if not models:
            st.caption(f"The paper reports no {METRICS[metric].label}.")
            return
        model = st.selectbox(
            "Data set and model", models, format_func=" / ".join, key="paper-model", persist_state="session", width=360
        )
        found = paper.rows(**model._asdict(), metric=metric)
        for table in dict.fromkeys(value.table for value in found):
            st.caption(f"Table {plain_text(table)}, as printed")
            shown = [
                {
                    "method": methods()[value.method].label if value.method in methods() else value.method,
                    "variant": value.variant,
                    METRICS[metric].label: metric_value(metric, value.value),
                }
                for value in found
                if value.table == table
            ]
            st.dataframe(shown, hide_index=True, key=f"paper-{table}", width="content")


bins: int = st.session_state[state.BINS]
metric: str = st.session_state[state.METRIC]
data = library.current()
rows = board.rows(data)

st.title("Compare")
st.markdown("Every method is fitted on validation and judged on test. Which one repairs the confidence, beyond noise?")
verdict = st.container()
seeds = controls(data, rows, bins)
job = desk().tray.active("compare", data.content_hash)
says_progress(job, desk().tray.latest("compare", data.content_hash))
if not rows and job is None:
    st.caption("Nothing is fitted yet: the button above takes well under a minute on most files.")
if rows:
    old = old_rows(rows, seeds, bins)
    fresh = board.fresh(data, seeds=seeds, bins=bins)
    ranked = board.comparison(data, fresh, metric, bins, test=job is None) if fresh else None
    settled = ranked if job is None or (ranked is not None and ranked.tied) else None
    if settled is not None:
        verdict.markdown(f"#### {comparison_verdict(settled)}")
    picked = the_table(rows, settled, old, metric)
    below_the_table(data, old, settled, seeds, bins)
    says_notices(rows)
    if ranked is not None:
        left, right = st.columns(2)
        with left:
            view = {"dark": show.dark(), "uirevision": f"{data.content_hash} {metric}"}
            show.chart(leaderboard_plot(ranked, metric, **view), "leaderboard-plot")
        with right:
            overlay(data, ranked, picked, bins)
papers_row(metric)
wanted = [id for id in rows if rows[id].result.available] or list(board.RECOMMENDED)
settings = {id: board.chosen_settings(id) for id in wanted if board.chosen_settings(id)}
show.python(
    library.load_code()
    + f"""
result = sc.compare(data, methods={wanted}, seeds={seeds}, bins={bins}, metric="{metric}", settings={settings})
print(result.to_frame())
print("best:", result.best, "tied with it:", [id for id, tied in result.tied.items() if tied])
"""
)
