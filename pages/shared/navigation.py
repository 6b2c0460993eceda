"""The menu of pages, and how a page is run.

Streamlit has its own menu for a folder named `pages`: if the first request to a fresh server is the URL of a page, it
runs that page's file without dashboard.py. Therefore dashboard.py sets a flag before it runs a page, and a page that
finds no flag declares the menu itself and reruns, this time through dashboard.py.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import NoReturn

import streamlit as st

from pages.shared import datasets, loading, reruns, session, uploads, urls
from pages.shared.components import plain_text
from smart_core.errors import SmartError

HOME = "pages/start.py"

PAGES = {
    "": {HOME: "Start", "pages/diagnose.py": "Diagnose", "pages/compare.py": "Compare"},
    "Analysis": {
        "pages/margin_groups.py": "Margin groups",
        "pages/temperature.py": "Temperature curve",
        "pages/hardness.py": "Hardness",
    },
    "Studies": {
        "pages/sensitivity.py": "Sensitivity",
        "pages/ablation.py": "Ablation",
        "pages/shift.py": "Shift",
        "pages/benchmark.py": "Benchmark",
        "pages/theory.py": "Theory",
    },
    "Export and help": {"pages/export.py": "Export", "pages/guide.py": "Guide"},
}
"""Section of the menu -> file of each page -> its title."""

NEEDS_LOGITS = ("margin_groups", "temperature", "hardness", "sensitivity", "ablation", "theory")
"""Pages about margins and temperatures, which confidences without logits do not have."""
NEEDS_WHOLE_ROWS = ("temperature", "hardness", "ablation", "theory")
"""Pages that read the logits of all classes, which reduced sets do not have."""
CLOSED = {"confidence": NEEDS_LOGITS, "reduced": NEEDS_WHOLE_ROWS}
"""Kind of a data set -> the pages that it cannot be shown on."""

WITH_UPLOADS = ("start", "export")
"""Pages with an upload field."""

TITLES = {file: title for pages in PAGES.values() for file, title in pages.items()}
ORDER = list(TITLES)


def menu() -> st.Page:
    """Draw the menu and return the selected page.

    A default page has no URL but `/`, which makes a poor permalink, so `/` redirects to the URL of the home page. It
    does so before any widget is drawn: a query parameter that is bound to a widget cannot be passed on.
    """
    sections = {name: [st.Page(file, title=title) for file, title in pages.items()] for name, pages in PAGES.items()}
    sections[""].insert(0, st.Page(_redirect, title="Home", default=True, visibility="hidden"))
    page = st.navigation(sections, position="top")
    if page not in sections[""]:  # Streamlit marks a page only inside the menu of its section, which is closed
        marked = {f"{name}: **{page.title}**" if page in pages else name: pages for name, pages in sections.items()}
        page = st.navigation(marked, position="top")
    if page.url_path == "":
        st.switch_page(HOME, query_params=urls.all_parameters())
    return page


def _redirect() -> None:
    """Stand in for a page at `/`; `menu` redirects before it would run."""


def run(page: st.Page) -> None:
    """Run a page below the header that dashboard.py has drawn."""
    if datasets.empty() and page.url_path != "start":
        go(HOME)
    if page.url_path != "start":
        st.session_state.pop(session.DOCUMENT, None)
    reruns.keep_answers()
    reruns.keep_downloads()
    uploads.limit_uploads(keep=page.url_path in WITH_UPLOADS)
    st.session_state[session.ROUTED] = True
    closed = CLOSED.get("" if datasets.empty() else datasets.current().kind, ())
    with guarded(page):
        if page.url_path not in closed:
            page.run()
        elif closed is NEEDS_LOGITS:
            _say_needs(page, "logits", "confidences alone. Compare and Diagnose work with them.")
        else:
            others = "Compare, Diagnose, Margin groups and Sensitivity work with them."
            _say_needs(page, "the logits of all classes", f"reduced rows. {others}")
    _next_button(page, closed)


def _say_needs(page: st.Page, what: str, has: str) -> None:
    st.title(page.title)
    st.info(f"{page.title} needs {what}; {plain_text(datasets.current_title())} holds {has}")


@contextmanager
def guarded(page: st.Page) -> Iterator[None]:
    """Show an error in the block as one sentence."""
    try:
        yield
    except SmartError as error:
        st.error(plain_text(error.sentence(loading.fix_text)))
    except Exception as error:
        # the exceptions with which Streamlit reruns and stops a script do not derive from Exception
        logging.getLogger("smart").exception("the page %s failed", page.title)
        st.error(
            f"Unexpected error on this page ({type(error).__name__}). Your data sets and fits are safe: choose another "
            "data set or page, or save the workspace on Export. Details are in the server's log."
        )


def enter() -> None:
    """Rerun through dashboard.py if it was bypassed; every page calls this first."""
    if not st.session_state.pop(session.ROUTED, False):
        menu()
        st.rerun()


def go(file: str) -> NoReturn:
    """Open another page. `st.switch_page` without a query fails on a page with widgets that are bound to the URL."""
    st.switch_page(file, query_params={})


def _next_button(page: st.Page, closed: Collection[str]) -> None:
    """Draw the button that opens the next page of the menu that the data set can be shown on."""
    paths = [file.removeprefix("pages/").removesuffix(".py") for file in ORDER]
    if page.url_path not in paths:
        return
    following = [*ORDER[paths.index(page.url_path) + 1 :], HOME]
    file = next(file for file in following if file.removeprefix("pages/").removesuffix(".py") not in closed)
    st.divider()
    if st.button(f"Next: {TITLES[file]} →", key="next-page", shortcut="Alt+Right", type="tertiary"):
        go(file)
