"""The menu of pages, and the way back to it.

Streamlit treats a folder named `pages` as a menu of its own: where the first request to a fresh server is for
a page's address, that page's file runs without dashboard.py. So dashboard.py leaves a flag for the page it
runs, and a page that finds none declares the menu itself and starts over, this time through dashboard.py.
"""

from __future__ import annotations

import streamlit as st

from pages.shared import state

FIRST = "pages/diagnose.py"


def menu() -> st.Page:
    """The chosen page.

    A default page has no address but `/`, which makes a poor permalink, so `/` leads on to the first page's
    own. It does so before any widget is drawn: a query parameter that a widget holds cannot be passed on.
    """
    page = st.navigation(
        [
            st.Page(_door, title="Start", default=True, visibility="hidden"),
            st.Page(FIRST, title="Diagnose"),
        ]
    )
    if page.url_path == "":
        st.switch_page(FIRST, query_params=st.query_params.to_dict())
    return page


def _door() -> None:
    """What lies at `/`: nothing to see."""


def run(page: st.Page) -> None:
    """Run a page, inside the frame that dashboard.py has drawn."""
    st.session_state[state.ROUTED] = True
    page.run()


def enter() -> None:
    """The first line of every page: go through dashboard.py when it was passed by."""
    if not st.session_state.pop(state.ROUTED, False):
        menu()
        st.rerun()
