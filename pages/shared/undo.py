"""Undo what replaced results: a refit, a restored workspace, or a data set that was read again or removed.

A snapshot refers to the session's objects and copies none of them, so it costs memory only for what was replaced.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from pages.shared import components, session

MAX_STEPS = 5
PARTS = ("datasets", "splits", "rows", "settings", "studies")
"""Attributes of `Session` that a snapshot has."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The content of a session before something was replaced."""

    label: str
    """The action that is undone: `refit of 3 methods`."""
    parts: dict[str, dict[str, Any]]
    selected: str | None
    """Key of the data set that was selected."""


def remember(label: str) -> None:
    """Take a snapshot; call this before something is replaced."""
    here = session.current()
    parts = {part: dict(getattr(here, part)) for part in PARTS}
    steps: list[Snapshot] = st.session_state.setdefault(session.UNDO, [])
    steps.append(Snapshot(label, parts, st.session_state.get(session.DATA)))
    del steps[:-MAX_STEPS]


def forget() -> None:
    """Drop the latest snapshot: nothing was replaced after all."""
    st.session_state[session.UNDO].pop()


def draw() -> None:
    """Draw the button that undoes the latest replacement, if there is one."""
    steps: list[Snapshot] = st.session_state.get(session.UNDO, [])
    if steps:
        st.button(
            "Undo",
            key="undo",
            icon=":material/undo:",
            help=f"Undo the {components.plain_text(steps[-1].label)}.",
            on_click=_undo,
        )


def _undo() -> None:
    """Return to the latest snapshot. Every job of the workspace is cancelled: it could replace results again."""
    here, before = session.current(), st.session_state[session.UNDO].pop()
    for job in here.jobs:
        job.cancel.set()
    for part, content in before.parts.items():
        _restore(getattr(here, part), content)
    if before.selected in before.parts["datasets"] or before.selected not in here.datasets:
        st.session_state[session.NEXT_DATASET] = before.selected
    st.toast(f"Undone: {components.plain_text(before.label)}.")


def _restore(current: MutableMapping[str, Any], before: dict[str, Any]) -> None:
    """Give a part of the session its earlier content."""
    for key in [key for key in current if key not in before]:
        del current[key]
    for key, value in before.items():
        if current.get(key) is not value:
            current[key] = value
