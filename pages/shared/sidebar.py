"""The sidebar of every page: data set, split, primary metric, bins, jobs and the link to the view."""

from __future__ import annotations

from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.shared import datasets, resume, session, urls, workspace_list, workspaces
from pages.shared.components import plain_text
from pages.shared.jobs import Job
from smart_core.cli.dashboard import startup
from smart_core.evaluation import HEADLINE, METRICS
from smart_core.formatting import duration

POLL_SECONDS = 0.5
"""Time between two looks at the active jobs."""

IDLE_SECONDS = 3.0
"""Time between two looks at a workspace without jobs: another window may change it or start one."""

MAX_FINISHED = 3
"""Finished jobs that are shown."""


def draw(page: st.Page) -> DeltaGenerator:
    """Draw the sidebar, and return the place of the link, which is known only after the page has run."""
    urls.read(page)
    with st.sidebar:
        if not datasets.empty():
            _data_set()
        st.selectbox(
            "Primary metric",
            _metrics(),
            format_func=lambda name: METRICS[name].label,
            key=session.METRIC,
            persist_state="session",
            help="Methods are ranked and compared by this metric.",
        )
        st.slider(
            "Bins",
            urls.MIN_BINS,
            urls.MAX_BINS,
            key=session.BINS,
            persist_state="session",
            help=f"Number of confidence bins of every binned metric. The paper uses {urls.DEFAULT_BINS}.",
        )
        _jobs()
        place = st.container()
        if startup.access.login and st.user.is_logged_in:
            st.caption(f"Signed in as {plain_text(str(st.user.get('name') or st.user.get('email') or st.user.sub))}")
            st.button("Sign out", key="sign-out", on_click=st.logout, type="tertiary")
    if not datasets.empty():
        urls.write()
    return place


def sizes() -> str:
    """Return the sizes of validation and test and the custom split, for screens on which the sidebar is collapsed."""
    data, split = datasets.current(), _custom_split()
    text = f"fitted on **{len(data.validation):,}**, tested on **{len(data.test):,}** samples"
    return f"{text}  \n{split}" if split else text


def _metrics() -> list[str]:
    """Return the metrics to rank by: without the logits of all classes there are no classwise ones."""
    alone = not datasets.empty() and datasets.current().kind != "logits"
    names = [name for name in HEADLINE if not (alone and METRICS[name].classwise)]
    if st.session_state.get(session.METRIC, names[0]) not in names:
        st.session_state[session.METRIC] = names[0]
    return names


def draw_link(place: DeltaGenerator) -> None:
    """Draw the link to the view. The page's own widgets are in the URL too, so this comes after the page."""
    with place.popover("Copy link", width="stretch"):
        rights = "" if workspaces.is_read_only() else " Anyone with the link can edit this workspace."
        st.caption(f"Opens this workspace and this view.{rights}")
        st.code(urls.link(), language=None, wrap_lines=True)
        workspace_list.draw_sharing()


def _data_set() -> None:
    names = datasets.titles()
    st.selectbox(
        "Data set",
        list(names),
        format_func=lambda key: names[key],
        key=session.DATA,
        persist_state="session",
        help="The bundled samples, and what you loaded on Start.",
    )
    data = datasets.current()
    sizes = f"fitted on **{len(data.validation):,}** samples  \ntested on **{len(data.test):,}** samples"
    st.markdown(f"{sizes}  \n{data.what}")
    if _custom_split():
        st.caption(_custom_split())


def _custom_split() -> str:
    split = session.current().splits.get(datasets.current_key())
    return "" if split is None else f"custom split: {split.fraction:.0%} for validation, seed {split.seed}"


def _jobs() -> None:
    """Draw the jobs of the workspace; look again regularly, and rerun the page when there is something new."""
    # the page that is about to run shows everything that is there by now; a job that ends after this line is seen later
    seen, page_runs = _progress(), True

    def look() -> None:
        _job_list()
        if not page_runs and _progress() != seen:  # before the page has run, a rerun would lose the click it is for
            st.rerun()

    active = session.current().jobs.active() is not None
    st.fragment(look, run_every=POLL_SECONDS if active else IDLE_SECONDS)()
    page_runs = False


def _job_list() -> None:
    _messages()
    resume.draw()
    jobs = list(session.current().jobs)
    shown = [job for job in jobs if job.active] + [job for job in jobs if not job.active][:MAX_FINISHED]
    if shown:
        if startup.dask is not None:
            st.markdown(f"[Dask's dashboard]({startup.dask})")
        with st.container(key="jobs"):
            for number, job in enumerate(shown):
                _job(job, f"job-{number}", shortcut="Esc" if number == 0 else None)


def _messages() -> None:
    """Say what is wrong with the workspace: not on this server, or not saved."""
    if st.session_state.get(session.LOST):
        with st.container(border=True, key="lost"):
            st.markdown(
                "The workspace of this link is not on this server: it was deleted, has expired, or was never saved. "
                "This is a new one."
            )
            st.button("Dismiss", key="dismiss-lost", on_click=st.session_state.pop, args=(session.LOST, None))
    if workspaces.is_read_only():
        st.info("Read-only view: you cannot make changes.")
    if st.session_state.pop(session.REFUSED, False):
        st.toast("This link is read-only: nothing was changed.")
    for sentence in workspaces.faults(session.current()):
        st.warning(plain_text(sentence))


def _progress() -> tuple[Any, ...]:
    """Return a value that changes when a job begins or ends, or anything in the workspace changes."""
    here = session.current()
    return tuple(job.state for job in here.jobs), here.version, here.deleted


def _job(job: Job, key: str, shortcut: str | None) -> None:
    title = plain_text(job.title)
    if job.active:
        left = job.remaining()
        late = job.estimate is not None and job.elapsed() > job.estimate
        note = f", {duration(left)} left" if left is not None else ", longer than estimated" if late else ""
        st.markdown(f"**{title}**{note}")
        st.progress(min(max(job.fraction, 0.0), 1.0), text=plain_text(job.message))
        st.button(
            "Cancelling" if job.cancel.is_set() else "Cancel",
            key=f"{key}-cancel",
            on_click=job.cancel.set,
            shortcut=shortcut,
            help="Finished results are kept.",
            disabled=job.cancel.is_set() or workspaces.is_read_only(),
        )
    elif job.state == "failed":
        st.error(f"**{title}**: {plain_text(job.error)}")
    else:
        mark = "✓" if job.state == "done" else "✕ cancelled:"
        st.caption(f"{mark} {title} ({duration(job.elapsed())})")
