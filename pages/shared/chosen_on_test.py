"""Settings of SMART that were chosen on test data, on the Sensitivity page: take them, warn of them, undo them."""

from __future__ import annotations

import streamlit as st

from pages.shared import forms, leaderboard, session
from pages.shared.session import row_key
from smart_core import LogitSet
from smart_core.calibrators import method_named

SETTINGS = ("sigma", "delta")
CELL = "sensitivity-cell"
"""Among the choices of the workspace: sigma and delta of the cell that SMART uses."""


def take(data: LogitSet, cell: tuple[float, float], seeds: int, bins: int) -> None:
    """Fit SMART with a cell's settings; its present row is kept, so that it can come back without a fit."""
    before = leaderboard.row(data, "smart")
    if before is not None and active() is None and not leaderboard.is_stale(before):
        session.current().before_cell[data.content_hash] = before
    for name, value in zip(SETTINGS, cell, strict=True):
        forms.change_setting("smart", name, value)
    session.current().choices[CELL] = cell
    leaderboard.fit(data, ["smart"], seeds=seeds, bins=bins)


def active() -> tuple[float, float] | None:
    """Return sigma and delta of the cell that SMART uses; None if there is none, or the settings were changed since."""
    cell: tuple[float, float] | None = session.current().choices.get(CELL)
    if cell is None:
        return None
    defaults = {item.name: item.default for item in method_named("smart").settings()}
    now = defaults | leaderboard.chosen_settings("smart")
    chosen = tuple(now[name] for name in SETTINGS)
    return cell if chosen == cell and any(defaults[name] != now[name] for name in SETTINGS) else None


def warn(data: LogitSet, *, seeds: int | None = None) -> None:
    """Say that SMART's settings were chosen on test data, and offer to bring the defaults back."""
    cell = active()
    if cell is None:
        return
    with st.container(border=True, key="chosen-on-test"):
        st.markdown(
            f"**SMART's settings were chosen on test data**: sigma {cell[0]:g} and delta {cell[1]:g} come from the "
            "Sensitivity page, so SMART's results here are optimistic."
        )
        if st.button("Reset to defaults", key="back-to-defaults"):
            undo(data, seeds)
            st.rerun()


def undo(data: LogitSet, seeds: int | None) -> None:
    """Set sigma and delta back and restore the row that the cell replaced; without one, fit SMART again."""
    for item in method_named("smart").settings():
        if item.name in SETTINGS:
            forms.change_setting("smart", item.name, item.default)
    session.current().choices.pop(CELL, None)
    before = session.current().before_cell.pop(data.content_hash, None)
    present = leaderboard.row(data, "smart")
    if before is not None and not leaderboard.is_stale(before):
        session.current().rows[row_key(data, "smart")] = before
    elif present is not None:
        leaderboard.fit(data, ["smart"], seeds=seeds or present.seeds, bins=session.bins())
