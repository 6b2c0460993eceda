"""The menu of pages, and the way back to it.

Streamlit treats a folder named `pages` as a menu of its own: where the first request to a fresh server is for
a page's address, that page's file runs without dashboard.py. So dashboard.py leaves a flag for the page it
runs, and a page that finds none declares the menu itself and starts over, this time through dashboard.py.
"""

from __future__ import annotations

import logging
from typing import NoReturn

import streamlit as st

from pages.shared import address, library, state
from pages.shared.wording import plain_text
from smart_core.errors import SmartError

FIRST = "pages/diagnose.py"

PAGES = {
    "": {"pages/start.py": "Start", FIRST: "Diagnose", "pages/compare.py": "Compare"},
    "Look closer": {
        "pages/margin_groups.py": "Margin groups",
        "pages/temperature.py": "Temperature curve",
        "pages/hardness.py": "Hardness",
    },
    "Studies": {
        "pages/sensitivity.py": "Sensitivity",
        "pages/ablation.py": "Ablation",
        "pages/shift.py": "Shift",
        "pages/theory.py": "Theory",
    },
    "Take away": {"pages/export.py": "Export", "pages/guide.py": "Guide"},
}
"""Section of the menu -> file of each page -> its title."""

ORDER = [file for section in PAGES.values() for file in section]


def menu() -> st.Page:
    """The chosen page.

    A default page has no address but `/`, which makes a poor permalink, so `/` leads on to the first page's
    own. It does so before any widget is drawn: a query parameter that a widget holds cannot be passed on.
    """
    sections = {name: [st.Page(file, title=title) for file, title in pages.items()] for name, pages in PAGES.items()}
    sections[""].insert(0, st.Page(_door, title="Door", default=True, visibility="hidden"))
    page = st.navigation(sections, position="top")
    if page.url_path == "":
        st.switch_page(FIRST, query_params=address.everything())
    return page


def _door() -> None:
    """What lies at `/`: nothing to see."""


def run(page: st.Page) -> None:
    """Run a page, inside the frame that dashboard.py has drawn; what goes wrong is said in a sentence."""
    if library.nothing() and page.url_path != "start":
        go("pages/start.py")
    if page.url_path != "start":
        st.session_state.pop(state.DOCUMENT, None)
    st.session_state[state.ROUTED] = True
    try:
        page.run()
    except SmartError as error:
        st.error(plain_text(str(error)))
    except Exception as error:
        # Streamlit's own signals (rerun, stop) do not derive from Exception
        logging.getLogger("smart").exception("the page %s failed", page.title)
        st.error(
            f"This page stopped at something unforeseen ({type(error).__name__}). Nothing you loaded or fitted is "
            "lost: choose another data set or page, or save the workspace on Export. The server's log has the details."
        )
    _next(page)


def enter() -> None:
    """The first line of every page: go through dashboard.py when it was passed by."""
    if not st.session_state.pop(state.ROUTED, False):
        menu()
        st.rerun()


def go(file: str) -> NoReturn:
    """Open another page. A bare `st.switch_page` refuses to leave a page whose controls stand in the address."""
    st.switch_page(file, query_params={})


def _next(page: st.Page) -> None:
    """The way on, at the end of every page and by keyboard."""
    paths = [file.removeprefix("pages/").removesuffix(".py") for file in ORDER]
    if page.url_path not in paths:
        return
    here = paths.index(page.url_path)
    file = ORDER[(here + 1) % len(ORDER)]
    title = next(pages[file] for pages in PAGES.values() if file in pages)
    st.divider()
    if st.button(f"Next: {title} →", key="next-page", shortcut="Alt+Right", type="tertiary"):
        go(file)
