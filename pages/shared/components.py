"""Small parts of every page: escaped text, empty states, the Python code of a view, seeds and lists of numbers."""

from __future__ import annotations

import re
from typing import Any

import streamlit as st

from pages.shared import datasets, urls

IN_URL: dict[str, Any] = {"bind": "query-params", "persist_state": "session"}
"""Arguments of a widget whose value is in the URL and is kept when the page is left."""

MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~$:&^])|^(\s*(?:[-+]|\d+(?=[.)])))")
"""Characters that Markdown would interpret, anywhere or at the beginning of a text."""


def plain_text(text: str) -> str:
    """Escape a name from a file or a user, so that Markdown shows it literally and on one line."""
    return MARKDOWN.sub(lambda found: f"\\{found[0]}" if found[1] else f"{found[0]}\u200b", " ".join(text.split()))


def python_code(code: str) -> None:
    """Show the Python that computes what the page shows; the lines that load the data set come first."""
    with st.expander("Show the Python for this view"):
        st.code(f"{datasets.load_code()}{code.rstrip()}\n", language="python")


def empty_state(text: str, action: str, key: str, *, shortcut: str | None = None, takes: str = "") -> bool:
    """Say why there is nothing to see yet and offer one action, which takes so long; return whether it was clicked."""
    with st.container(border=True, key=f"empty-{key}"):
        st.markdown(text)
        with st.container(horizontal=True, vertical_alignment="center"):
            clicked = st.button(action, type="primary", key=key, shortcut=shortcut)
            if takes:
                st.caption(takes, width="content")
    return clicked


def parse_numbers(text: str) -> list[float]:
    """Return the numbers in a text, separated by commas or semicolons; raise `ValueError` for anything else."""
    return [float(part) for part in text.replace(";", ",").split(",") if part.strip()]


def seeds_input(
    key: str, default: int, help: str = "How many times each method with random initial weights is fitted."
) -> int:
    """Ask for the number of seeds."""
    return st.number_input("Seeds", 1, urls.MAX_SEEDS, default, key=key, **IN_URL, width=130, help=help)
