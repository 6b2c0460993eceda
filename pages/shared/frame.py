"""The frame around every page: data set, split, metric, bins, jobs and the link, in the sidebar."""

from __future__ import annotations

from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.shared import address, library, state
from pages.shared.desk import desk
from pages.shared.jobs import Job
from pages.shared.wording import plain_text
from smart_core.evaluation import HEADLINE, METRICS
from smart_core.formatting import duration

POLL = 0.5
"""Seconds between two looks at the jobs."""

FINISHED_SHOWN = 3

LOOK = """<style>
@media (min-width: 769px) { .st-key-narrow-split { display: none !important; } }
.stMainBlockContainer { padding-top: 4.5rem; }
.st-key-other-theme { display: none; }
</style>"""
"""Where the sidebar folds away, what it says of the data stands above the page instead."""

WATCH = """<script>
if (!window.themeWatch) {
    const look = () => getComputedStyle(document.querySelector(".stApp")).backgroundColor;
    let drawn = look();
    window.themeWatch = setInterval(() => {
        if (look() === drawn) return;
        drawn = look();
        document.querySelector(".st-key-other-theme button")?.click();
    }, 500);
}
</script>"""
"""Charts are drawn for one theme, and Streamlit runs nothing when another is chosen: a hidden button does."""


def draw(page: st.Page) -> DeltaGenerator:
    """Everything in the sidebar below the menu; gives the place of the link, known once the page has run."""
    address.read(page)
    st.html(LOOK)
    st.html(WATCH, unsafe_allow_javascript=True)
    with st.sidebar:
        if not library.nothing():
            _data()
        st.selectbox(
            "Primary metric",
            HEADLINE,
            format_func=lambda name: METRICS[name].label,
            key=state.METRIC,
            persist_state="session",
            help="The metric by which methods are ranked and compared.",
        )
        st.slider(
            "Bins",
            address.FEWEST,
            address.MOST,
            key=state.BINS,
            persist_state="session",
            help=f"Bins of confidence, for every binned error. The paper's choice is {address.USUAL}.",
        )
        tray()
        place = st.container()
        st.button("Draw in the other theme", key="other-theme")
    if not library.nothing():
        _above_the_page()
        address.write()
    return place


def link(place: DeltaGenerator) -> None:
    """The address of this view. A page's own controls put themselves into it, so it is drawn after the page."""
    with place.popover("Copy link", width="stretch"):
        st.caption("Opens this view; elsewhere once the same file is loaded.")
        st.code(address.link(), language=None, wrap_lines=True)


def _data() -> None:
    names = library.titles(desk())
    st.selectbox(
        "Data set",
        list(names),
        format_func=lambda key: names[key],
        key=state.DATA,
        persist_state="session",
        help="The samples, and what you loaded on Start.",
    )
    st.markdown(f"{_sizes()}  \n{library.current().classes:,} classes")
    if _by_hand():
        st.caption(_by_hand())


def _above_the_page() -> None:
    with st.container(key="narrow-split"):
        st.caption("  \n".join(line for line in (f"{plain_text(library.title())}: {_sizes()}", _by_hand()) if line))


def _sizes() -> str:
    data = library.current()
    return f"fitted on **{len(data.validation):,}**, judged on **{len(data.test):,}**"


def _by_hand() -> str:
    split = desk().splits.get(library.current_key())
    return "" if split is None else f"split by hand: {split.fraction:.0%} for validation, seed {split.seed}"


def tray() -> None:
    """The session's jobs. While one is active it looks again by itself, and runs the page when there is news."""
    jobs = desk().tray.jobs
    if not jobs:
        return
    # the page that is about to run shows what there is by now: that is no news
    st.session_state[NEWS] = _news()
    st.fragment(_jobs, run_every=POLL if any(job.active for job in jobs) else None)()


def _jobs() -> None:
    jobs = desk().tray.jobs
    active = [job for job in jobs if job.active]
    shown = active + [job for job in jobs if not job.active][:FINISHED_SHOWN]
    with st.container(key="tray"):
        for number, job in enumerate(shown):
            _job(job, f"job-{number}", shortcut="Esc" if number == 0 else None)
    news = _news()
    if st.session_state.get(NEWS, news) != news:
        st.session_state[NEWS] = news
        st.rerun()


def _news() -> tuple[Any, ...]:
    """Changes when a job ends or another result lies on the desk: then the page is run anew, once."""
    here = desk()
    return tuple(job.state for job in here.tray.jobs), here.rows.version, here.studies.version


NEWS = "news"


def _job(job: Job, key: str, shortcut: str | None) -> None:
    title = plain_text(job.title)
    if job.active:
        left = job.seconds_left()
        st.markdown(f"**{title}**" + (f", {duration(left)} left" if left is not None else ""))
        st.progress(min(max(job.fraction, 0.0), 1.0), text=plain_text(job.words))
        st.button(
            "Cancelling" if job.cancel.is_set() else "Cancel",
            key=f"{key}-cancel",
            on_click=job.cancel.set,
            shortcut=shortcut,
            help="What is finished by now is kept.",
            disabled=job.cancel.is_set(),
        )
    elif job.state == "failed":
        st.error(f"**{title}**: {plain_text(job.reason)}")
    else:
        mark = "✓" if job.state == "done" else "✕ cancelled:"
        st.caption(f"{mark} {title} ({duration(job.seconds())})")
