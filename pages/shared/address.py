"""The view in the address: data set, how its file was read, split, metric and bins.

What belongs to one page holds its own places in the address. A link opened elsewhere gives the same view where the same
file is loaded: the key of a data set is a fingerprint of its content.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlencode

import streamlit as st

from pages.shared import board, library, reading, state
from pages.shared.desk import Split, desk
from smart_core.evaluation import HEADLINE

DATA, READ, SPLIT, METRIC, BINS = "data", "read", "split", "metric", "bins"
NAMES = (DATA, READ, SPLIT, METRIC, BINS)
"""The places that this module keeps."""

SEEDS = "seeds"
"""In a saved view only: the control on Compare keeps its own place in the address."""

FEWEST, USUAL, MOST = 5, 15, 50
"""Bins of confidence."""

LAG = 3.0
"""Seconds within which a busy browser may still send the address as it was before the last change."""


@dataclass(frozen=True)
class Link:
    """A view that was asked for before its file was here."""

    page: str
    """Path of the page in the address: `compare`."""
    query: dict[str, str]
    """What this module keeps in the address."""
    own: dict[str, list[str]]
    """What the page's controls keep there; a choice of several is one name with several values."""

    @property
    def options(self) -> reading.Options:
        """How the file is to be read."""
        return reading.unpacked(self.query.get(READ, ""))


def read(page: st.Page) -> None:
    """Before the sidebar is drawn: take over what the address asks for, and what a page wished in its last run.

    The session's own state counts where the address says what this module last wrote there, or what stood there a
    moment ago: the browser sends its address with every touch, also before the last change has reached it. A link to a
    data set that is not here leads to Start, where its file can be given; once it is, the view opens.
    """
    library.open_given()
    here, known = desk(), library.titles(desk())
    written: dict[str, str] = st.session_state.get(state.WRITTEN, {})
    query = {name: value for name, value in st.query_params.to_dict().items() if name in NAMES}
    ours = {*written.items(), *_replaced_lately()}
    asked = {name: value for name, value in query.items() if (name, value) not in ours}
    wished: dict[str, str] = st.session_state.pop(state.WISHED, {})
    asked |= wished if wished.get(DATA) in known else {}
    _take_over_controls({**({} if state.METRIC in st.session_state else written), **asked})
    if DATA in asked and asked[DATA] in known:
        st.session_state[state.DATA] = asked[DATA]
        _take_over_split(asked[DATA], query | asked)
    elif DATA in asked:
        st.session_state[state.WRITTEN] = {**written, DATA: asked[DATA]}
        own = {name: values for name, values in everything().items() if name not in NAMES}
        _wait_for(asked[DATA], Link(page.url_path, query, own))
    wish = st.session_state.pop(library.NEXT, None)
    if wish in known:
        st.session_state[state.DATA] = wish
    if st.session_state.get(state.DATA) not in known:
        st.session_state[state.DATA] = written[DATA] if written.get(DATA) in known else library.first()
    if here.wanted in known:
        _open(here.wanted)


def write() -> None:
    """After the sidebar is drawn: the address says what is in view. What is usual is left out."""
    key = library.current_key()
    own, split = desk().sets.get(key), desk().splits.get(key)
    view = {
        DATA: key,
        READ: reading.packed(own.options) if own is not None else "",
        SPLIT: f"{split.fraction:g}-{split.seed}" if split is not None else "",
        METRIC: st.session_state[state.METRIC],
        BINS: str(st.session_state[state.BINS]),
    }
    usual = {READ: "", SPLIT: "", METRIC: HEADLINE[0], BINS: str(USUAL)}
    for name, value in view.items():
        if value == usual.get(name):
            st.query_params.pop(name, None)
        elif st.query_params.get(name) != value:
            st.query_params[name] = value
    before = st.session_state.get(state.WRITTEN, view)
    if before != view:
        st.session_state.setdefault(state.REPLACED, []).append((time.monotonic(), before))
    st.session_state[state.WRITTEN] = view


def _replaced_lately() -> set[tuple[str, str]]:
    """Names and values that this module wrote and has since overwritten, too recently for every browser to know."""
    now = time.monotonic()
    kept = [(when, view) for when, view in st.session_state.get(state.REPLACED, []) if now - when < LAG]
    st.session_state[state.REPLACED] = kept
    return {item for _, view in kept for item in view.items()}


def view() -> dict[str, str]:
    """What is in view, by the names of the address, and the seeds without which Compare would judge other rows."""
    return {**st.session_state[state.WRITTEN], SEEDS: str(st.session_state.get(state.SEEDS, board.SEEDS))}


def show(view: dict[str, str]) -> None:
    """Open a view as if its link had been opened here, from the next run on."""
    st.session_state[state.WISHED] = {name: value for name, value in view.items() if name in (*NAMES, SEEDS)}


def link() -> str:
    """The whole address of the view."""
    base = (st.context.url or "").split("?")[0]
    query = urlencode(everything(), doseq=True)
    return f"{base}?{query}" if query else base


def everything() -> dict[str, list[str]]:
    """Name -> all its values in the address."""
    return {name: st.query_params.get_all(name) for name in st.query_params}


def wanted() -> Link | None:
    """The view that waits for its file."""
    found: Link | None = st.session_state.get(state.LINK)
    return found if desk().wanted is not None else None


def forget() -> None:
    """No longer wait for it."""
    desk().wanted = None
    st.session_state.pop(state.LINK, None)


def _wait_for(key: str, link: Link) -> None:
    """Remember the view, and go where its file can be given."""
    desk().wanted = key
    st.session_state[state.LINK] = link
    if link.page != "start":
        st.switch_page("pages/start.py", query_params={})


def _open(key: str) -> None:
    """The view whose file has come."""
    waiting = wanted()
    forget()
    st.session_state[state.DATA] = key
    if waiting is None:
        return
    _take_over_split(key, waiting.query)
    if waiting.page != "start":
        st.switch_page(f"pages/{waiting.page}.py", query_params=waiting.own)


def _take_over_controls(asked: dict[str, str]) -> None:
    """Metric, bins and seeds; what is not one leaves them as they are."""
    if asked.get(METRIC) in HEADLINE:
        st.session_state[state.METRIC] = asked[METRIC]
    if asked.get(BINS) in map(str, range(FEWEST, MOST + 1)):  # a number may have more digits than `int` takes
        st.session_state[state.BINS] = int(asked[BINS])
    if asked.get(SEEDS) in map(str, range(1, board.MOST_SEEDS + 1)):
        st.session_state[state.SEEDS] = int(asked[SEEDS])
    st.session_state.setdefault(state.METRIC, HEADLINE[0])
    st.session_state.setdefault(state.BINS, USUAL)


def _take_over_split(key: str, query: dict[str, str]) -> None:
    """`0.3-7` is 30 % for validation with seed 7; what the controls on Start could not say is not a split."""
    fraction, _, seed = query.get(SPLIT, "").partition("-")
    with suppress(ValueError):
        desk().splits[key] = Split.asked(fraction, seed)
