"""The upload fields of Start: files from the browser, a folder, or the server's own folder."""

from __future__ import annotations

from typing import Any

import streamlit as st

from pages.shared import uploads
from pages.shared.components import plain_text
from pages.shared.glossary import note
from pages.shared.session import SERVER_FILES
from pages.shared.uploads import UploadedFiles
from smart_core.data.formats import READABLE
from smart_core.errors import LogitFileError
from smart_core.formatting import bytes_text


def choose_files() -> UploadedFiles:
    """Ask for files: uploads, or files of the server's folder if they were chosen after that."""
    apart = bool(st.session_state.get("start-apart"))
    common: dict[str, Any] = {
        "accept_multiple_files": True,
        "on_change": st.session_state.pop,
        "args": (SERVER_FILES, None),
    }
    if apart:
        left, right = st.columns(2)
        with left:
            validation = st.file_uploader("Validation files (to fit on)", key="start-val", **common)
        with right:
            test = st.file_uploader("Test files (to evaluate on)", key="start-test", **common)
        if bool(validation) != bool(test):
            note(f"Now add the {'test' if validation else 'validation'} file.")
        files = uploads.from_browser(val=validation, test=test) if validation and test else UploadedFiles()
    else:
        whole = st.file_uploader(
            "Your data: one file with logits and labels, or a logit file and its label file",
            key="start-files",
            help=f"{READABLE}; text may be compressed (gz, bz2, xz, zst). Numbered files are joined. "
            "Opening a file never runs code from it. The Guide describes the formats.",
            **common,
        )
        files = uploads.from_browser(whole=whole) if whole else UploadedFiles()
    left, right = st.columns(2, vertical_alignment="center")
    if not apart and not len(files):
        with left:
            files = choose_folder(common)
    with right:
        st.toggle(
            "Separate validation and test files",
            key="start-apart",
            help="If off, validation and test are told apart by the names of files and arrays.",
        )
    if uploads.dropped("start-val", "start-test", "start-files", "start-folder"):
        own, whole = bytes_text(uploads.MAX_UPLOADED), bytes_text(uploads.MAX_UPLOADED_IN_ALL)
        st.warning(
            f"Upload limit reached ({own} per session, {whole} in total). One of your files was discarded; remove it "
            "from the list."
        )
    return choose_server_files() or files


def choose_folder(common: dict[str, Any]) -> UploadedFiles:
    """Ask for a folder: pieces of arrays or tables, a zarr store, results of lm-evaluation-harness."""
    with st.expander("A folder of files", expanded=bool(st.session_state.get("start-folder"))):
        return uploads.from_folder(
            st.file_uploader(
                "A folder with the pieces of one set, or with a folder per model",
                key="start-folder",
                help="Such as predictions_0.pt with batch_indices_0.pt, part-*.parquet, a zarr store, or the samples "
                "that lm-evaluation-harness logs.",
                **common | {"accept_multiple_files": "directory"},
            )
        )


def choose_server_files() -> UploadedFiles | None:
    """Ask for files of the server's folder, which may be too large to upload."""
    folder = uploads.server_folder()
    if folder is None:
        return None
    with st.expander("Files on the server", expanded=SERVER_FILES in st.session_state):
        listed = uploads.server_files(folder)
        names = st.multiselect("Files", listed, key="start-server", placeholder="One bundle, or logits and labels")
        pattern = st.text_input(
            "Path or pattern",
            key="start-pattern",
            placeholder="tokens.parquet, or shards/*",
            help="Path relative to the server's data folder. All files that match a pattern are opened as shards of "
            "one data set. Shards, files over 1 GB and large reduced sets are read in place, not loaded into memory.",
        ).strip()
        if st.button("Load", key="start-load", disabled=not names and not pattern):
            st.session_state[SERVER_FILES] = [*names, *([pattern] if pattern else [])]
        if SERVER_FILES not in st.session_state:
            return None
        try:
            return uploads.from_server(folder, st.session_state[SERVER_FILES])
        except LogitFileError as error:
            del st.session_state[SERVER_FILES]
            st.error(plain_text(str(error)))
            return None
