"""Read the files given on Start, show what is in them, and offer other ways to read them.

The parsed files and the result of reading them are kept in `st.session_state`, so that a rerun reads nothing again and
other options parse nothing again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd
import streamlit as st

from pages.shared import datasets, loading, session, urls
from pages.shared.components import plain_text
from pages.shared.glossary import note
from pages.shared.loading import ReadResult
from pages.shared.uploads import UploadedFiles
from smart_core import LogitSet
from smart_core.data import ArrayInfo, Document
from smart_core.data.logitset import Cure
from smart_core.errors import LogitFileError

MAX_ROLES = 40
"""Arrays whose role can be chosen."""


def read(files: UploadedFiles) -> ReadResult | None:
    """Read the files and add their data set to the session; return the data set or the error."""
    if not len(files):
        st.session_state.pop(session.DOCUMENT, None)
        return None
    last: ReadResult | None = st.session_state.get(session.READ_RESULT)
    ids, options = st.session_state.get(session.READ_OPTIONS, (None, None))
    chosen = options if ids == files.ids else None
    if last is not None and last.file_ids == files.ids and chosen in (None, last.options):
        return last
    with st.spinner("Reading the files"):
        result = _first_read(files) if chosen is None else loading.read(files, chosen, _document)
    st.session_state[session.READ_RESULT] = result
    if result.data is not None:
        read, earlier = st.session_state.get(session.READ_KEY, (None, None))
        now = (files.ids, result.options.get("group"))  # another experiment is another data set
        paths = tuple(str(file) for file in files.whole if isinstance(file, Path))
        key = datasets.add(result.data, files.names, result.options, earlier if read == now else None, paths)
        st.session_state[session.READ_KEY] = (now, key)
        st.rerun()
    return result


def _document(files: UploadedFiles) -> Document:
    """Return the parsed files; they are parsed once and kept while Start is open."""
    ids, document = st.session_state.pop(session.DOCUMENT, (None, None))
    if ids != files.ids:
        document = loading.parse(files)
    st.session_state[session.DOCUMENT] = (files.ids, document)
    return document


def _first_read(files: UploadedFiles) -> ReadResult:
    """Read new files: with the options of a link that waits for them if that gives its data set, else without."""
    link = urls.pending_link()
    if link is not None and link.options:
        result = loading.read(files, link.options, _document)
        if result.data is not None and datasets.key_of(result.data) == urls.awaited_key():
            return result
    return loading.read(files, {}, _document)


def _read_again(file_ids: tuple[str, ...], options: loading.Options) -> None:
    """Read the same files with other options at the next run."""
    st.session_state[session.READ_OPTIONS] = (file_ids, options)


def show_error(result: ReadResult) -> None:
    """Show why the files cannot be used, and the ways to fix it."""
    if result.error is not None:
        show = st.info if result.asks_for_group else st.error
        show(plain_text(result.error.sentence(loading.fix_text)))
    _group_picker(result)
    if not datasets.empty():
        st.caption(f"{plain_text(datasets.current_title())} is still selected.")
    _fix_buttons(result, result.fixes)
    if result.options:
        st.button("Undo", key="start-as-before", on_click=_read_again, args=(result.file_ids, {}))
    if result.arrays:
        show_arrays(result.arrays)
        _role_form(result, expanded=True)


def show_data_set(result: ReadResult) -> None:
    """Show what was found in the files, which choices were made automatically, and how to change them."""
    _group_picker(result)
    for number, notice in enumerate(result.data.notices if result.data is not None else ()):
        st.info(plain_text(notice.text))
        fix = loading.button_fix(notice)
        _fix_buttons(result, [fix] if fix is not None else [], number)
    if result.options:
        used = ", ".join(f"{name}={value}" for name, value in result.options.items())
        st.caption(f"Read with {plain_text(used)}.")
        st.button("Detect automatically", key="start-understand", on_click=_read_again, args=(result.file_ids, {}))
    if result.data is not None and not result.data.test.in_memory:
        say_in_place(result.data)
        return
    show_arrays(result.arrays)
    _role_form(result)


def say_in_place(data: LogitSet) -> None:
    """Say what stays in the files of a data set, and what a saved workspace has of it."""
    rows = len(data.validation) + len(data.test)
    note(f"The logits of {rows:,} rows stay in the files; a saved workspace has their paths, the fits and the results.")


def _group_picker(result: ReadResult) -> None:
    """Ask which of several experiments to read; each becomes a data set of its own."""
    if not result.groups:
        return
    others = {name: value for name, value in result.options.items() if name not in ("group", "roles")}

    def choose() -> None:
        if group := st.session_state["start-group"]:
            _read_again(result.file_ids, {**others, "group": group})

    chosen = result.options.get("group")
    st.selectbox(
        "Experiment",
        result.groups,
        index=result.groups.index(chosen) if chosen in result.groups else None,
        placeholder=f"Choose one of {len(result.groups):,}",
        key="start-group",
        on_change=choose,
        help="The file or folder holds several experiments. Each that you choose becomes a data set of its own.",
    )


def show_arrays(arrays: list[ArrayInfo]) -> None:
    """List the arrays with their roles."""
    several = len({info.file for info in arrays}) > 1
    rows = [
        {
            **({"file": info.file} if several else {}),
            "array": info.key or "(unnamed)",
            "shape": " × ".join(f"{size:,}" for size in info.shape),
            "type": info.dtype,
            "role": info.role,
        }
        for info in arrays
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True, key="start-arrays", alt="The arrays and their roles.")


def _role_form(result: ReadResult, expanded: bool = False) -> None:
    """Ask for the role of each array."""
    before = {place: role for role, place in result.options.get("roles", {}).items()}
    choices = ["", *loading.role_choices()]
    with st.expander("Choose the role of each array", expanded=expanded), st.form("start-roles", border=False):
        chosen: dict[str, str] = {}
        for number, info in enumerate(result.arrays[:MAX_ROLES]):
            array = loading.array_id(info)
            role = before.get(array, "")
            chosen[array] = st.selectbox(
                plain_text(f"{info.file} {info.key} ({' × '.join(map(str, info.shape))} {info.dtype})"),
                choices,
                index=choices.index(role) if role in choices else 0,
                format_func=partial(_role_label, info.role),
                key=f"start-role-{number}",
            )
        if st.form_submit_button("Read with these roles", key="start-roles-go"):
            try:
                roles = loading.roles_option(result.arrays, chosen)
            except LogitFileError as error:
                st.error(plain_text(str(error)))
                return
            others = {name: value for name, value in result.options.items() if name != "roles"}
            _read_again(result.file_ids, {**others, **({"roles": roles} if roles else {})})
            st.rerun()


def _role_label(automatic: str, role: str) -> str:
    return role or f"automatic: {automatic}"


def _fix_buttons(result: ReadResult, fixes: Sequence[Cure], first: int = 0) -> None:
    """Draw a button for each other way to read the files."""
    for number, fix in enumerate(fixes, first):
        options = {**result.options, fix.option: fix.value}
        st.button(fix.label, key=f"start-cure-{number}", on_click=_read_again, args=(result.file_ids, options))
