"""The workspace of a window: found by the id in its URL, shared with the other windows, saved on the server.

`smart dashboard` opens a store; under `streamlit run`, and with `--ephemeral`, workspaces are in memory and end with
their last window. In both cases a reloaded page and a second window find the same `Session` object.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from weakref import WeakValueDictionary

import streamlit as st

from pages.shared import saved_items, session
from pages.shared.jobs import ReadOnlyJobList
from pages.shared.session import Session
from smart_core.cli.dashboard import startup
from smart_core.errors import WorkspaceError
from smart_core.export.workspaces import BoundedDict, ReadOnlyDict, StoredDict
from smart_core.export.workspaces.store import is_id, new_id

PARAMETER = "workspace"
"""The query parameter that names the workspace."""

SHARED = "shared"
"""The query parameter that names a read-only link."""

VIEW = "view"
"""Among the choices of a workspace: the view that it was last left with, by query parameter."""

_open: WeakValueDictionary[str, Session] = WeakValueDictionary()
_links: dict[str, str] = {}
"""Read-only link -> workspace, where workspaces are in memory."""
_lock = threading.Lock()


def enter() -> bool:
    """Find the workspace of this window at the start of a run, and return whether the window is new to it."""
    here: Session | None = st.session_state.get(session.SESSION)
    id, link = st.query_params.get(PARAMETER, ""), st.query_params.get(SHARED, "")
    if here is not None and _still_valid(here) and (id or link) in ("", here.id):
        if startup.store is not None:
            with suppress(WorkspaceError):  # on a full disk, or while another process writes: it can still be viewed
                startup.store.touch((here.original or here).id)
        return False
    if here is not None:
        st.session_state.clear()
    found = find(id) if id else None
    if found is None and link:
        found = find_shared(link)
    st.session_state[session.SESSION] = found or begin()
    if (id or link) and found is None:
        st.session_state[session.LOST] = True
    return True


def _still_valid(here: Session) -> bool:
    """Return whether a window may stay open: its workspace was not deleted, and its read-only link not withdrawn."""
    if here.original is None:
        return not here.deleted
    return not here.original.deleted and _workspace_of(here.id) == here.original.id


def user() -> str | None:
    """Return who has signed in; None on a server without a login."""
    if not startup.access.login or not st.user.is_logged_in:
        return None
    return str(st.user.get("sub") or st.user.get("email"))


def find(id: str) -> Session | None:
    """Return the workspace with this id: the one that other windows use, or else from the disk.

    Where users sign in, a workspace opens for its owner only; others need its read-only link.
    """
    if not is_id(id):
        return None
    with _lock:
        here = _open.get(id)
        entry = None if startup.store is None else startup.store.find(id)
        if entry is not None and entry.owner != user():
            return None
        if here is None and startup.store is not None and entry is not None:
            here = _open[id] = saved_items.session_of(startup.store, id, entry.owner)
        return None if here is not None and here.owner != user() else here


def find_shared(link: str) -> Session | None:
    """Return a workspace as its read-only link shows it."""
    id = _workspace_of(link) if is_id(link) else None
    if id is None:
        return None
    with _lock:
        here = _open.get(id)
        entry = None if startup.store is None else startup.store.find(id)
        if here is None and startup.store is not None and entry is not None:
            here = _open[id] = saved_items.session_of(startup.store, id, entry.owner)
    return None if here is None else read_only(here, link)


def _workspace_of(link: str) -> str | None:
    return _links.get(link) if startup.store is None else startup.store.shared(link)


def read_only(here: Session, link: str) -> Session:
    """Return a view of a workspace that cannot change it: whatever a page or a client does, it is refused here."""
    view = Session(id=link, original=here)
    for name, part in vars(here).items():
        if isinstance(part, BoundedDict) and name != "rankings":  # a cache
            setattr(view, name, ReadOnlyDict(part, _refuse))
    view.jobs = ReadOnlyJobList(here.jobs, _refuse)
    return view


def _refuse() -> None:
    st.session_state[session.REFUSED] = True


def is_read_only() -> bool:
    """Return whether this window has a read-only link."""
    return session.current().original is not None


def share(here: Session) -> str:
    """Return the id of the read-only link of a workspace."""
    if startup.store is not None:
        return startup.store.share(here.id)
    link = link_of(here) or new_id()
    _links[link] = here.id
    return link


def withdraw(here: Session) -> None:
    """Make the read-only link of a workspace invalid."""
    if startup.store is not None:
        startup.store.unshare(here.id)
    for link in [link for link, id in _links.items() if id == here.id]:
        del _links[link]


def link_of(here: Session) -> str | None:
    """Return the id of the read-only link of a workspace, if there is one."""
    if startup.store is not None:
        entry = startup.store.find(here.id)
        return None if entry is None else entry.shared
    return next((link for link, id in _links.items() if id == here.id), None)


def begin() -> Session:
    """Return a new workspace. It is on the disk as soon as anything is in it."""
    here = Session(owner=user())
    if startup.store is not None:
        here = saved_items.session_of(startup.store, here.id, here.owner)
    with _lock:
        _open[here.id] = here
    return here


def delete(id: str) -> None:
    """Delete a workspace: its jobs are cancelled, its windows begin a new one, and nothing is left on the disk."""
    if startup.store is not None:
        startup.store.delete(id)
    with _lock:
        here = _open.pop(id, None)
    if here is not None:
        here.deleted = True
        for link in [link for link, shown in _links.items() if shown == id]:
            del _links[link]
        for job in here.jobs:
            job.cancel.set()


def faults(here: Session) -> list[str]:
    """Return why parts of a workspace are not saved or cannot be read, each sentence once."""
    held = [each for each in vars(here.original or here).values() if isinstance(each, StoredDict)]
    return list(dict.fromkeys(sentence for each in held for sentence in each.faults.values()))


def is_saved() -> bool:
    """Return whether the workspace of this window is on the disk, or would be in memory only anyway."""
    return startup.store is None or startup.store.find(session.current().id) is not None


def note_view(view: Mapping[str, str]) -> None:
    """Save the view of a workspace that has been saved before, so that its link alone opens it again."""
    here = session.current()
    if here.original is None and here.choices.get(VIEW) != view and is_saved():
        here.choices[VIEW] = dict(view)


def last_view() -> dict[str, str]:
    """Return the view that the workspace was last left with."""
    view: dict[str, str] = session.current().choices.get(VIEW, {})
    return view
