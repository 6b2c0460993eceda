"""Jobs that a stopped server has interrupted: offer to resume them. What they had finished is kept.

A job that can be resumed is noted in the workspace while it runs, with the data set and the settings that it was
started with. A note without a job is of one that was interrupted. Fits resume at once; a study resumes on
its own page, which knows how to start it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import streamlit as st

from pages.shared import datasets, leaderboard, navigation, session, studies
from pages.shared.components import plain_text
from pages.shared.jobs import process_name

PAGES = {
    "sensitivity": "pages/sensitivity.py",
    **dict.fromkeys(("objectives", "indicators", "efficiency", "traces"), "pages/ablation.py"),
    "shift": "pages/shift.py",
    "attack": "pages/hardness.py",
    studies.ON_INDICATOR: "pages/temperature.py",
    "benchmark": "pages/benchmark.py",
    "playground": "pages/theory.py",
}
"""Beginning of the kind of a study -> the page that resumes it."""


def interrupted() -> dict[str, dict[str, Any]]:
    """Return the notes of jobs that were interrupted, by their keys."""
    here = session.current()
    notes = {key: here.unfinished.get(key) for key in here.unfinished}
    return {
        key: note
        for key, note in notes.items()
        if note is not None and here.jobs.active(note["kind"], note["hash"]) is None and not _runs(note["process"])
    }


def _runs(process: str) -> bool:
    """Return whether another server, which uses the same folder, still runs."""
    if os.name != "posix" or process == process_name():
        return False
    number = int(str(process).split()[0])
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return process_name(number) == process


def draw() -> None:
    """Draw a note for each interrupted job, with a button to resume it."""
    for number, (key, note) in enumerate(interrupted().items()):
        with st.container(border=True, key=f"interrupted-{number}"):
            st.markdown(
                f"**{plain_text(note['title'])}** was interrupted when the server stopped. What it finished is kept."
            )
            with st.container(horizontal=True):
                if st.button("Resume", key=f"resume-{number}", type="primary"):
                    _resume(key, note)
                st.button("Dismiss", key=f"dismiss-{number}", on_click=_dismiss, args=(key,))


def _dismiss(key: str) -> None:
    session.current().unfinished.pop(key, None)


def _resume(key: str, note: dict[str, Any]) -> None:
    here, settings = session.current(), note["settings"]
    here.unfinished.pop(key, None)
    if note["data"] not in datasets.titles():
        st.toast("Its data set is no longer in the workspace.")
        return
    datasets.select(note["data"])
    if note["kind"] == leaderboard.KIND:
        data = datasets.get(note["data"])
        seeds, bins = settings["seeds"], settings["bins"]
        done = leaderboard.fresh(data, seeds=seeds, bins=bins)
        leaderboard.fit(data, [id for id in settings["methods"] if id not in done], seeds=seeds, bins=bins)
        st.rerun()
    st.session_state[session.RESUME] = (note["kind"], settings)
    navigation.go(next(page for start, page in PAGES.items() if note["kind"].startswith(start)))


def asked_kind() -> str:
    """Return the kind of the study that the user has asked to resume; empty if there is none."""
    kind: str = st.session_state.get(session.RESUME, ("", {}))[0]
    return kind


def asked(kind: str) -> bool:
    """Return whether the user has asked to resume the study of a page."""
    return asked_kind() == kind


def study(kind: str, start: Callable[[studies.Settings], None]) -> None:
    """Start the study of a page again if the user has asked to resume it."""
    if asked(kind):
        _, settings = st.session_state.pop(session.RESUME)
        start(settings)
        st.rerun()
