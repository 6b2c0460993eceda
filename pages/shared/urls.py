"""The view in the URL: data set, read options, split, metric and bins.

Widgets that one page alone draws are bound to the URL by Streamlit (`bind="query-params"`). A link opens the same view
in another session once the same file is loaded there: the key of a data set is a hash of its content.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlencode

import streamlit as st

from pages.shared import datasets, loading, session, workspaces
from pages.shared.session import Split
from smart_core.evaluation import HEADLINE

DATA, READ, SPLIT, METRIC, BINS = "data", "read", "split", "metric", "bins"
NAMES = (DATA, READ, SPLIT, METRIC, BINS)
"""The query parameters that this module reads and writes."""

SEEDS = "seeds"
"""In saved views only: on Compare, the widget itself is bound to the URL."""

MIN_BINS, DEFAULT_BINS, MAX_BINS = 5, 15, 50
DEFAULT_SEEDS, MAX_SEEDS = 5, 20

LONGEST_VALUE = 20_000
"""Most characters of a query parameter; longer ones are ignored."""

LAG = 3.0
"""Seconds for which a busy browser may still send the URL as it was before the last change."""


@dataclass(frozen=True)
class Link:
    """A view that was requested before its file was loaded."""

    page: str
    """URL path of the page: `compare`."""
    query: dict[str, str]
    """The query parameters of this module."""
    page_query: dict[str, list[str]]
    """The query parameters of the page's own widgets; a multiselect has several values."""

    @property
    def options(self) -> loading.Options:
        """The options to read the file with."""
        return loading.from_url(self.query.get(READ, ""))


def read(page: st.Page) -> None:
    """Apply the URL, and the view that the last run asked for, before the sidebar is drawn.

    The session's own state wins where the URL contains what `write` put there, now or a moment ago: the browser sends
    its URL with every interaction, even before it has received the last change. A link to a data set that is not loaded
    leads to Start; once its file is uploaded there, the view opens.
    """
    if workspaces.enter():
        datasets.add_from_command_line()
        if DATA not in st.query_params:
            st.session_state.setdefault(session.NEXT_VIEW, workspaces.last_view())
    known = datasets.titles()
    written: dict[str, str] = st.session_state.get(session.URL_WRITTEN, {})
    given = st.query_params.to_dict().items()
    query = {name: value for name, value in given if name in NAMES and len(value) <= LONGEST_VALUE}
    ours = {*written.items(), *_recently_replaced()}
    requested = {name: value for name, value in query.items() if (name, value) not in ours}
    next_view: dict[str, str] = st.session_state.pop(session.NEXT_VIEW, {})
    requested |= next_view if next_view.get(DATA) in known else {}
    _set_controls({**({} if session.METRIC in st.session_state else written), **requested})
    if DATA in requested and requested[DATA] in known:
        st.session_state[session.DATA] = requested[DATA]
        _set_split(requested[DATA], query | requested)
    elif DATA in requested:
        st.session_state[session.URL_WRITTEN] = {**written, DATA: requested[DATA]}
        # the link's workspace is left out as well: its file will be loaded into the one of this window
        general = (*NAMES, workspaces.PARAMETER, workspaces.SHARED)
        page_query = {name: values for name, values in all_parameters().items() if name not in general}
        _await_file(requested[DATA], Link(page.url_path, query, page_query))
    selected = st.session_state.pop(session.NEXT_DATASET, None)
    if selected in known:
        st.session_state[session.DATA] = selected
    if st.session_state.get(session.DATA) not in known:
        st.session_state[session.DATA] = written[DATA] if written.get(DATA) in known else datasets.default_key()
    awaited = awaited_key()
    if awaited is not None and awaited in known:
        _open_awaited(awaited, page)


def write() -> None:
    """Write the view into the URL, after the sidebar is drawn. Defaults are left out."""
    key = datasets.current_key()
    own, split = session.current().datasets.get(key), session.current().splits.get(key)
    view = {
        DATA: key,
        READ: loading.to_url(own.options) if own is not None else "",
        SPLIT: f"{split.fraction:g}-{split.seed}" if split is not None else "",
        METRIC: session.metric(),
        BINS: str(session.bins()),
    }
    defaults = {READ: "", SPLIT: "", METRIC: HEADLINE[0], BINS: str(DEFAULT_BINS)}
    for name, value in view.items():
        if value == defaults.get(name):
            st.query_params.pop(name, None)
        elif st.query_params.get(name) != value:
            st.query_params[name] = value
    name, other = workspaces.PARAMETER, workspaces.SHARED
    if workspaces.is_read_only():
        name, other = other, name
    st.query_params.pop(other, None)
    if st.query_params.get(name) != session.current().id:
        st.query_params[name] = session.current().id
    workspaces.note_view(view)
    before = st.session_state.get(session.URL_WRITTEN, view)
    if before != view:
        st.session_state.setdefault(session.URL_REPLACED, []).append((time.monotonic(), before))
    st.session_state[session.URL_WRITTEN] = view


def _recently_replaced() -> set[tuple[str, str]]:
    """Return the parameters that `write` has overwritten too recently for every browser to know."""
    now = time.monotonic()
    recent = [(when, view) for when, view in st.session_state.get(session.URL_REPLACED, []) if now - when < LAG]
    st.session_state[session.URL_REPLACED] = recent
    return {item for _, view in recent for item in view.items()}


def current_view() -> dict[str, str]:
    """Return the view as a workspace saves it: the parameters of the URL, and the number of seeds on Compare."""
    return {**st.session_state[session.URL_WRITTEN], SEEDS: str(st.session_state.get(session.SEEDS, DEFAULT_SEEDS))}


def open_view(view: dict[str, str]) -> None:
    """Open a saved view at the next run, as if its link had been opened."""
    st.session_state[session.NEXT_VIEW] = {name: value for name, value in view.items() if name in (*NAMES, SEEDS)}


def link() -> str:
    """Return the URL of the view."""
    base = (st.context.url or "").split("?")[0]
    query = urlencode(all_parameters(), doseq=True)
    return f"{base}?{query}" if query else base


def all_parameters() -> dict[str, list[str]]:
    """Return every query parameter with all its values."""
    return {name: st.query_params.get_all(name) for name in st.query_params}


def pending_link() -> Link | None:
    """Return the view that waits for its file."""
    link: Link | None = st.session_state.get(session.PENDING_LINK)
    return link if awaited_key() is not None else None


def awaited_key() -> str | None:
    """Return the key of the data set that the view waits for."""
    key: str | None = st.session_state.get(session.AWAITED)
    return key


def dismiss_link() -> None:
    """Stop waiting for the file."""
    for name in (session.AWAITED, session.PENDING_LINK):
        st.session_state.pop(name, None)


def _await_file(key: str, link: Link) -> None:
    """Remember the view, and go to Start, where its file can be uploaded.

    A run of Start may still have the query of the link that led there: that is not a link to Start.
    """
    if key == awaited_key() and link.page == "start":
        return
    st.session_state[session.AWAITED] = key
    st.session_state[session.PENDING_LINK] = link
    if link.page != "start":
        st.switch_page("pages/start.py", query_params={})


def _open_awaited(key: str, page: st.Page) -> None:
    """Open the view whose file has been loaded.

    The link is kept until a run on its page: a change of the page is lost where the browser, at the same moment, asks
    for another run of the page that it still shows.
    """
    link = pending_link()
    st.session_state[session.DATA] = key
    if link is not None:
        _set_split(key, link.query)
        if link.page not in ("start", page.url_path):
            st.switch_page(f"pages/{link.page}.py", query_params=link.page_query)
    dismiss_link()


def _set_controls(query: dict[str, str]) -> None:
    """Set metric, bins and seeds; invalid values are ignored."""
    if query.get(METRIC) in HEADLINE:
        st.session_state[session.METRIC] = query[METRIC]
    if query.get(BINS, "") in map(str, range(MIN_BINS, MAX_BINS + 1)):  # `int` refuses a number of too many digits
        st.session_state[session.BINS] = int(query[BINS])
    if query.get(SEEDS, "") in map(str, range(1, MAX_SEEDS + 1)):
        st.session_state[session.SEEDS] = int(query[SEEDS])
    st.session_state.setdefault(session.METRIC, HEADLINE[0])
    st.session_state.setdefault(session.BINS, DEFAULT_BINS)


def _set_split(key: str, query: dict[str, str]) -> None:
    """Set the split: `0.3-7` is 30% for validation with seed 7. What the controls on Start do not offer is ignored."""
    fraction, _, seed = query.get(SPLIT, "").partition("-")
    with suppress(ValueError):
        session.current().splits[key] = Split.parse(fraction, seed)
