"""The head of every page: the product's mark, the data set's name, and the buttons that open a file and undo."""

from __future__ import annotations

import streamlit as st

from pages.shared import charts, datasets, session, sidebar, undo
from pages.shared.components import plain_text
from smart_core.data.saved import LONGEST_NAME

PRODUCT = "SMART calibration"

MARK = """<rect width="24" height="24" rx="5" fill="#C2410C"/>
<path d="M4 20 20 4" stroke="#FFF" stroke-opacity=".55" stroke-width="1.6" stroke-dasharray="2.6 2.2"/>
<path d="M4 20C11 19 16 15 20 4" stroke="#FFF" stroke-width="2.4" fill="none" stroke-linecap="round"/>"""
"""A reliability diagram: the diagonal, and the curve of an overconfident model below it."""

TEXT = {False: "#1F2430", True: "#E8EAED"}
"""Dark theme or not -> the theme's text colour, for the product's name."""
LIGHT = "<style>:root { --smart-text: #1F2430; --smart-muted: #5B6270; }</style>"
DARK = "<style>:root { --smart-text: #E8EAED; --smart-muted: #A9B1BD; }</style>"
"""The colours that `CSS` uses; Streamlit's own grey of captions has too little contrast."""

CSS = """<style>
.stMainBlockContainer { padding-top: 4rem; }
.st-key-page-head { border-bottom: 1px solid rgba(128, 128, 128, 0.25); padding-bottom: 0.35rem; }
.stMainBlockContainer h1 { padding: 0; }
.st-key-other-theme { display: none; }
[data-testid="stCaptionContainer"], .stButton kbd { color: var(--smart-muted); opacity: 1 !important; }
.stButton button[kind="primary"] kbd { color: #FFF; }
[data-testid="stSliderThumbValue"] p, button[data-variant="segmented_control"][data-selected="true"] p {
    color: var(--smart-text);
}
a[href^="guide?topic="] { color: inherit; text-decoration: underline dotted; text-underline-offset: 0.2em; }
.katex-display { overflow: visible !important; }
[data-testid="stTopNavSection"]:has(strong) { background-color: rgba(128, 128, 128, 0.18); }
body.file-dragged::after {
    content: "Drop to open"; position: fixed; inset: 0.75rem; z-index: 1000000; pointer-events: none;
    display: grid; place-items: center; font: 600 1.6rem sans-serif; color: #FFF;
    background: rgba(154, 52, 18, 0.85); border: 3px dashed #FFF; border-radius: 0.75rem;
}
@media (min-width: 769px) { .st-key-narrow-split { display: none !important; } }
</style>"""
"""On a narrow screen the sidebar is collapsed, and a line above the page has the sizes of the parts instead."""

DROP_ANYWHERE = """<script>
if (!window.dropAnywhere) {
    window.dropAnywhere = true;
    const fields = ["start-files", "start-val"].map(key => `.st-key-${key} input[type=file]`).join();
    const field = () => document.querySelector(fields);
    const later = (use, tries = 600) => {
        const found = field();
        if (found) use(found);
        else if (tries) setTimeout(() => later(use, tries - 1), 50);
    };
    const open = () => document.querySelector(".st-key-open-file button");
    const hasFiles = event => [...(event.dataTransfer?.types ?? [])].includes("Files");
    const inField = event => event.target.closest?.("[data-testid=stFileUploader]");
    document.addEventListener("click", event => {
        // the browser lets a page open its file dialog only shortly after a click
        if (event.isTrusted && event.target.closest?.(".st-key-open-file button")) later(found => found.click());
    }, true);
    document.addEventListener("dragover", event => {
        if (!hasFiles(event) || inField(event)) return document.body.classList.remove("file-dragged");
        event.preventDefault();
        document.body.classList.add("file-dragged");
    });
    document.addEventListener("dragleave", event => {
        if (!event.relatedTarget) document.body.classList.remove("file-dragged");
    });
    document.addEventListener("drop", event => {
        document.body.classList.remove("file-dragged");
        if (!hasFiles(event) || inField(event)) return;
        event.preventDefault();
        const files = event.dataTransfer.files;
        if (!field()) open()?.click();
        later(found => {
            found.files = files;
            found.dispatchEvent(new Event("change", { bubbles: true }));
        });
    });
}
</script>"""
"""A file dropped anywhere goes to the upload field of Start, and the button that leads there opens the file dialog."""


WATCH_THEME = """<script>
if (!window.themeWatch) {
    const background = () => getComputedStyle(document.querySelector(".stApp")).backgroundColor;
    let drawn = background();
    window.themeWatch = setInterval(() => {
        if (background() === drawn) return;
        drawn = background();
        document.querySelector(".st-key-other-theme button")?.click();
    }, 500);
}
</script>"""
"""Charts are drawn for one theme, and Streamlit does not rerun when the theme changes: a hidden button does."""


def draw_brand() -> None:
    """Draw the mark and the name of the product in the upper left corner."""
    look = f'font-family="sans-serif" font-size="16" font-weight="600" fill="{TEXT[charts.is_dark()]}"'
    st.logo(_svg(205, f'{MARK}<text x="32" y="17.5" {look}>{PRODUCT}</text>'), icon_image=_svg(24, MARK))


def _svg(width: int, content: str) -> str:
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="24">{content}</svg>'


def draw() -> bool:
    """Draw the line above a page's title; return whether a file is to be opened, on Start."""
    with st.sidebar:  # on the page, each would leave a gap
        if charts.is_dark():
            st.html(DARK)
        else:
            st.html(LIGHT)
        st.html(CSS)
        st.html(DROP_ANYWHERE, unsafe_allow_javascript=True)
        st.html(WATCH_THEME, unsafe_allow_javascript=True)
        st.button("Redraw for the other theme", key="other-theme")
    with st.container(horizontal=True, vertical_alignment="center", key="page-head"):
        if not datasets.empty():
            _name()
        st.space("stretch")
        undo.draw()
        clicked = st.button(
            "Open file", key="open-file", icon=":material/folder_open:", help="Or drop a file anywhere on the page."
        )
    if not datasets.empty():
        with st.container(key="narrow-split"):
            st.caption(sidebar.sizes())
    return clicked


def _name() -> None:
    """Draw the name of the data set, with a badge if it is a sample and a field to rename it if it is not."""
    key, title = datasets.current_key(), datasets.current_title()
    own = session.current().datasets.get(key)
    st.markdown(f"**{plain_text(title)}**" + ("" if own else " :gray-badge[sample]"), width="content")
    if own:
        with st.popover("Rename", type="tertiary", key="rename"):
            new = st.text_input("Name of the data set", title, LONGEST_NAME, key=f"rename-{key}-{title}")
            if new.strip() and new.strip() != title:
                datasets.rename(key, new)
                st.rerun()
