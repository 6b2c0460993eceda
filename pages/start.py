"""Start: open a sample or upload a file, and see at once whether its confidence is trustworthy."""

from __future__ import annotations

from typing import Any

import streamlit as st

from pages.shared import (
    before_after,
    datasets,
    file_review,
    loading,
    navigation,
    session,
    sources,
    uploads,
    urls,
    workspace,
    workspace_list,
)
from pages.shared.components import plain_text, python_code
from pages.shared.glossary import note, say
from pages.shared.session import MAX_SPLIT_SEED, SERVER_FILES, SPLIT_PERCENT, Split
from pages.shared.uploads import UploadedFiles
from smart_core.data import ArrayInfo
from smart_core.data.formats import READABLE
from smart_core.errors import LogitFileError
from smart_core.formatting import bytes_text

navigation.enter()


def pending_link() -> None:
    """Say that a link, or a reloaded page, waits for its file."""
    key = urls.awaited_key()
    if key is None:
        return
    with st.container(border=True, key="waiting"):
        st.markdown(
            f"This link needs a file that is not in this workspace (fingerprint **{plain_text(key[:12])}**). Upload "
            "the file, or a saved workspace, to open the view."
        )
        st.button("Dismiss", key="start-never-mind", on_click=urls.dismiss_link)


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
            "Your file: one bundle, or a logit file with its label file",
            key="start-files",
            help=f"{READABLE}; text also compressed (gz, bz2, xz, zst). Numbered files are joined. "
            "Files cannot run code. The formats are described on the Guide page.",
            **common,
        )
        files = uploads.from_browser(whole=whole) if whole else choose_folder(common)
    st.toggle(
        "Separate validation and test files",
        key="start-apart",
        help="If off, the names of the files and arrays tell validation from test.",
    )
    if uploads.dropped("start-val", "start-test", "start-files", "start-folder"):
        limit = bytes_text(uploads.MAX_UPLOADED)
        st.warning(f"The server keeps {limit} of uploads per session and has dropped your oldest file; remove it here.")
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
        if st.button("Load", key="start-load", disabled=not names):
            st.session_state[SERVER_FILES] = list(names)
        if SERVER_FILES not in st.session_state:
            return None
        try:
            return uploads.from_server(folder, st.session_state[SERVER_FILES])
        except LogitFileError as error:
            del st.session_state[SERVER_FILES]
            st.error(plain_text(str(error)))
            return None


def show_contents() -> None:
    """List the notices and arrays of a data set whose files are not in the upload field."""
    key = datasets.current_key()
    data = datasets.as_loaded(key)
    for notice in data.notices:
        st.info(plain_text(notice.text))
    if key in session.current().datasets and any(loading.button_fix(notice) for notice in data.notices):
        note("To read it differently, upload the file again.")
    types = {name: "text" if array.dtype.kind == "U" else str(array.dtype) for name, array in data.arrays()}
    file_review.show_arrays([ArrayInfo("", name, array.shape, types[name], name) for name, array in data.arrays()])


def split_controls() -> None:
    """Ask for a custom split: validation share and seed."""
    key = datasets.current_key()
    split = session.current().splits.get(key)
    keys = [f"start-{name}-{key}" for name in ("by-hand", "share", "seed")]

    def apply() -> None:
        custom, share, seed = (st.session_state[name] for name in keys)
        if custom:
            session.current().splits[key] = Split(share / 100, int(seed))
        else:
            session.current().splits.pop(key, None)

    off = split is None
    share, seed = (50, 0) if split is None else (round(100 * split.fraction), split.seed)
    with st.container(border=True, key="split"):
        st.toggle("Custom split", not off, key=keys[0], on_change=apply)
        note("Pools validation and test and splits them again, stratified by class. Each split keeps its own fits.")
        st.slider("Validation share in %", *SPLIT_PERCENT, share, 5, key=keys[1], on_change=apply, disabled=off)
        st.number_input("Seed of the split", 0, MAX_SPLIT_SEED, seed, key=keys[2], on_change=apply, disabled=off)


def sample_cards() -> None:
    """Draw a card with a button for each sample."""
    with st.container(horizontal=True, key="samples"):
        for name, sample in datasets.samples().items():
            with st.container(border=True, width=255, height="stretch", key=f"sample-{name}"):
                st.markdown(f"**{sample.title}**")
                note(f"{sample.about}  \n{datasets.sample_size(name)}")
                selected = name == datasets.current_key()
                label = f"Open {sample.title}"
                st.button(label, key=f"open-{name}", on_click=datasets.select, args=(name,), disabled=selected)


st.title("Start")
say("See whether a classifier's confidence can be trusted, and repair it without retraining.")
pending_link()
workspace_list.draw_recent()
result = file_review.read(choose_files())
if result is not None and result.error is not None:
    file_review.show_error(result)
if datasets.empty():
    st.info("There is no data set yet. Open a file to see its verdict here.")
    st.stop()
before_after.draw(datasets.current(), session.bins())
data_set = result.data if result is not None else None
if result is not None and data_set is not None and datasets.key_of(data_set) == datasets.current_key():
    st.subheader("What was read")
    file_review.show_data_set(result)
else:
    with st.expander("Contents of the data set"):
        show_contents()
st.subheader("Samples")
sample_cards()
st.subheader("Validation and test")
split_controls()
with st.expander("Make a file of your predictions"):
    sources.draw()
with st.expander("Restore a saved workspace"):
    workspace.draw_restore("start-restore")
bins = session.bins()
python_code(
    f"""
print(data, *data.notices, sep="\\n")
model = sc.Vanilla().fit_part(data.validation)
print("ECE", sc.evaluate(model, data.test, bins={bins}).metric("ece", {bins}))
"""
)
