"""The workspaces on this server: name, share and delete the one that is open, and open or delete one's others.

The others are listed on one's own machine, and for a user who has signed in. With a token alone, users are not told
apart: a workspace is then known only by its link.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

import streamlit as st

from pages.shared import session, workspaces
from pages.shared.components import plain_text
from smart_core.cli.dashboard import startup
from smart_core.errors import WorkspaceError
from smart_core.export.workspaces import Entry
from smart_core.export.workspaces.store import LONGEST_NAME
from smart_core.formatting import bytes_text, plural

MAX_RECENT = 3
"""Workspaces that Start offers."""


def others() -> list[Entry]:
    """Return the user's other workspaces, the last used first; none where users cannot be told apart."""
    if startup.store is None or startup.access.token is not None or workspaces.is_read_only():
        return []
    own, here = workspaces.user(), session.current().id
    return [entry for entry in startup.store.entries() if entry.owner == own and entry.id != here]


def title(entry: Entry) -> str:
    """Return the name of a workspace, or the titles of its data sets if it has none."""
    if entry.name or startup.store is None:
        return entry.name
    keys = startup.store.keys(entry.id, "dataset")
    titles = [str(startup.store.tree(entry.id, "dataset", key)["title"]) for key in keys]
    return ", ".join(titles[:3]) or "samples only"


def link(name: str, id: str, page: str = "") -> str:
    """Return the URL of a workspace, or of a read-only link."""
    base = (st.context.url or "").split("?")[0]
    base = base if not page else base.rsplit("/", 1)[0] + f"/{page}"
    return f"{base}?{urlencode({name: id})}"


def draw_sharing() -> None:
    """Draw the read-only link of the workspace, and the buttons that make and withdraw it."""
    here = session.current()
    if here.original is not None:
        return
    shared = workspaces.link_of(here)
    if shared is None:
        text = "Shows these results without the right to change them."
        st.button("Create read-only link", key="share", help=text, on_click=_share)
        return
    st.caption("Read-only: shows the results, without the right to change them or to download the raw logits.")
    st.code(link(workspaces.SHARED, shared), language=None, wrap_lines=True)
    st.button("Revoke read-only link", key="unshare", on_click=_withdraw)


@contextmanager
def _errors_as_toasts() -> Iterator[None]:
    """Say in one sentence why a click did nothing: `navigation.guarded` does not cover callbacks."""
    try:
        yield
    except WorkspaceError as error:
        st.toast(plain_text(str(error)))


def _share() -> None:
    with _errors_as_toasts():
        workspaces.share(session.current())


def _withdraw() -> None:
    with _errors_as_toasts():
        workspaces.withdraw(session.current())


def _age(entry: Entry) -> str:
    """Write the time since a workspace was used in the largest unit that fits: `3 days`."""
    seconds = time.time() - entry.used
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            return plural(int(seconds // size), unit)
    return "less than a minute"


def draw_recent() -> None:
    """Offer to continue in an earlier workspace, on Start of a new one."""
    here, known = session.current(), others()[:MAX_RECENT]
    if not known or here.datasets or here.rows:
        return
    with st.container(horizontal=True, vertical_alignment="center", key="recent"):
        st.markdown("**Continue where you left off:**", width="content")
        for entry in known:
            words = f"{plain_text(title(entry))} ({bytes_text(entry.bytes)}, used {_age(entry)} ago)"
            st.link_button(words, link(workspaces.PARAMETER, entry.id), type="tertiary")


def draw() -> None:
    """Draw the section of Export: this workspace, the limits of the server, and the user's other workspaces."""
    here, store = session.current(), startup.store
    if here.original is not None:
        return
    entry = None if store is None else store.find(here.id)
    if store is None:
        st.caption(
            "Workspaces are kept in memory only: they are lost when the server stops, or shortly after their last tab "
            "is closed."
        )
    elif entry is None:
        st.caption("This workspace is saved once you load data or run a fit.")
    else:
        limit = store.limits.workspace
        size = bytes_text(entry.bytes) + ("" if limit is None else f" of {bytes_text(limit)}")
        st.caption(f"Saved on the server, {size}. Anyone with the link in the address bar can open it.")
        name = st.text_input("Name of this workspace", entry.name, LONGEST_NAME, key="workspace-name", width=400)
        if name.strip() != entry.name:
            store.rename(here.id, name)
            st.rerun()
    _delete_button(here.id, "Delete this workspace", "this")
    listed = others()
    if not listed:
        return
    with st.expander(f"{plural(len(listed), 'other workspace')} on this server"):
        for number, other in enumerate(listed):
            with st.container(horizontal=True, vertical_alignment="center"):
                st.markdown(
                    f"{plain_text(title(other))}  \n{bytes_text(other.bytes)}, used {_age(other)} ago", width="stretch"
                )
                st.link_button("Open", link(workspaces.PARAMETER, other.id, "start"))
                _delete_button(other.id, "Delete", str(number))


def _delete_button(id: str, label: str, key: str) -> None:
    with st.popover(label, key=f"delete-{key}"):
        st.markdown("This permanently deletes its data sets, fits and studies, for everyone who has the link.")
        st.button("Delete permanently", key=f"delete-{key}-yes", type="primary", on_click=_delete, args=(id,))


def _delete(id: str) -> None:
    with _errors_as_toasts():
        workspaces.delete(id)
        if id == session.current().id:
            st.query_params.pop(workspaces.PARAMETER, None)
        st.toast("The workspace was deleted.")
