"""Start: open a sample or bring a file, see at once what was found and whether its confidence can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from pages.shared import address, cached, intake, library, reading, routing, show, state, uploads
from pages.shared.desk import LARGEST_SEED, SETS_KEPT, SHARES, Split, desk
from pages.shared.wording import plain_text, verdict
from smart_core.data import ArrayInfo, Document
from smart_core.data.logitset import Cure
from smart_core.errors import LogitFileError
from smart_core.metrics import ece

routing.enter()

# session keys
READING = "start-reading"  # what came of the files last handed in
ASKED = "start-asked"  # files, and the options with which they are to be read again
KEY = "start-key"  # files, and the data set that they became
PICKED = "start-picked"  # the files of the server's folder, where they were asked for last

ROLES_ASKED = 40


def waiting() -> None:
    """A link, or a page loaded anew, that waits for its file."""
    if desk().wanted is None:
        return
    with st.container(border=True, key="waiting"):
        st.markdown(
            f"This view is of a file that is not here (fingerprint **{plain_text(desk().wanted[:12])}**): a reload "
            "ends a session. Drop the file again, or the workspace you saved, and the view opens."
        )
        st.button("Never mind", key="start-never-mind", on_click=address.forget)


def in_view() -> None:
    """The verdict on the data set in view, and the way on."""
    data, bins = library.current(), st.session_state[state.BINS]
    judged = cached.uncalibrated(data)
    floor = cached.ece_noise(data, bins).floor.q95
    error = ece(judged.confidence, judged.correct, bins)
    sentence = verdict(error, floor, float(np.mean(judged.confidence)), float(np.mean(judged.correct)), len(judged))
    with st.container(border=True, key="in-view"):
        st.markdown(f"**{plain_text(library.title())}**. {sentence}")
        gone = st.session_state.pop(library.PUT_AWAY, None)
        if gone is not None:
            st.warning(
                f"{plain_text(gone)} was put away to make room: a session keeps {SETS_KEPT} data sets of its own. "
                "Give its file again to have it back."
            )
        if st.button("Diagnose it", type="primary", key="start-diagnose"):
            routing.go("pages/diagnose.py")


def handed_in() -> uploads.Handed:
    """The files that lie in the drop zones, or were chosen from the server's folder after that."""
    apart = st.toggle(
        "Validation and test in files of their own",
        key="start-apart",
        help="Otherwise the names of the files and of their arrays tell which is which.",
    )
    settled = {"accept_multiple_files": True, "on_change": st.session_state.pop, "args": (PICKED, None)}
    if apart:
        left, right = st.columns(2)
        with left:
            validation = st.file_uploader("Validation: fitted on", key="start-val", **settled)
        with right:
            test = st.file_uploader("Test: judged on", key="start-test", **settled)
        if bool(validation) != bool(test):
            st.caption(f"Now the {'test' if validation else 'validation'} file.")
        files = uploads.dropped(val=validation, test=test) if validation and test else uploads.Handed()
    else:
        whole = st.file_uploader(
            "A bundle, or a logit file with its label file",
            key="start-files",
            help="npz, npy, pt, safetensors, csv, tsv, parquet, feather, mat, or the pickle of published logits. "
            "No file can run code. The formats are on the Guide page.",
            **settled,
        )
        files = uploads.dropped(whole=whole)
    return from_server() or files


def from_server() -> uploads.Handed | None:
    """Files too large to drop, from the folder that the server's owner has opened."""
    folder = uploads.server_folder()
    if folder is None:
        return None
    with st.expander("From the server's folder", expanded=PICKED in st.session_state):
        listed = uploads.server_files(folder)
        names = st.multiselect("Files", listed, key="start-server", placeholder="One bundle, or logits and labels")
        if st.button("Load", key="start-load", disabled=not names):
            st.session_state[PICKED] = list(names)
        if PICKED not in st.session_state:
            return None
        try:
            return uploads.chosen(folder, st.session_state[PICKED])
        except LogitFileError as error:
            del st.session_state[PICKED]
            st.error(plain_text(str(error)))
            return None


def taken_in(files: uploads.Handed) -> reading.Reading | None:
    """The data set or error of the files; they are read again, not parsed again, when the options change."""
    if not len(files):
        st.session_state.pop(state.DOCUMENT, None)
        return None
    last: reading.Reading | None = st.session_state.get(READING)
    mark, asked = st.session_state.get(ASKED, (None, None))
    again = asked if mark == files.mark else None
    if last is not None and last.mark == files.mark and again in (None, last.options):
        return last
    with st.spinner("Reading the files"):
        fresh = first_reading(files) if again is None else reading.read(files, again, document)
    st.session_state[READING] = fresh
    if fresh.data is not None:
        mark, earlier = st.session_state.get(KEY, (None, None))
        call = reading.call(files, fresh.options)
        replaces = earlier if mark == files.mark else None
        key = library.add(fresh.data, fresh.data.name, call, fresh.options, replaces)
        st.session_state[KEY] = (files.mark, key)
        st.rerun()
    return fresh


def document(files: uploads.Handed) -> Document:
    """The files, parsed once and kept while this page is open."""
    mark, parsed = st.session_state.pop(state.DOCUMENT, (None, None))
    if mark != files.mark:
        parsed = reading.opened(files)
    st.session_state[state.DOCUMENT] = (files.mark, parsed)
    return parsed


def first_reading(files: uploads.Handed) -> reading.Reading:
    """With the options of a link that waits for these files, if they give its data set, else without options."""
    link = address.wanted()
    if link is not None and link.options:
        found = reading.read(files, link.options, document)
        if found.data is not None and library.key_of(found.data) == desk().wanted:
            return found
    return reading.read(files, {}, document)


def read_again(mark: tuple[str, ...], options: reading.Options) -> None:
    """Ask for another reading of the same files, from the next run on."""
    st.session_state[ASKED] = (mark, options)


def refused(found: reading.Reading) -> None:
    """The error of files that cannot be used, and the ways to fix it."""
    if found.error is not None:
        st.error(plain_text(found.error.sentence(reading.on_the_page)))
    if not library.nothing():
        st.caption(f"Nothing was lost: {plain_text(library.title())} stays in view.")
    cure_buttons(found, found.cures)
    if found.options:
        st.button("Read it as before", key="start-as-before", on_click=read_again, args=(found.mark, {}))
    if found.arrays:
        listing(found.arrays)
        by_hand(found, expanded=True)


def listing(arrays: list[ArrayInfo]) -> None:
    """What the files hold."""
    several = len({info.file for info in arrays}) > 1
    rows = [
        {
            **({"file": info.file} if several else {}),
            "array": info.key or "(the only one)",
            "shape": " × ".join(f"{size:,}" for size in info.shape),
            "type": info.dtype,
            "role": info.role,
        }
        for info in arrays
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True, key="start-arrays", alt="The arrays and the role of each.")


def by_hand(found: reading.Reading, expanded: bool = False) -> None:
    """Give each array its role."""
    before = {place: role for role, place in found.options.get("roles", {}).items()}
    choices = ["", *reading.roles()]
    with st.expander("Say by hand which array is what", expanded=expanded), st.form("start-roles", border=False):
        chosen = {}
        for number, info in enumerate(found.arrays[:ROLES_ASKED]):
            place = reading.place(info)
            role = before.get(place, "")
            chosen[place] = st.selectbox(
                plain_text(f"{info.file} {info.key} ({' × '.join(map(str, info.shape))} {info.dtype})"),
                choices,
                index=choices.index(role) if role in choices else 0,
                format_func=lambda role, info=info: role or f"as understood: {info.role}",
                key=f"start-role-{number}",
            )
        if st.form_submit_button("Read it so", key="start-roles-go"):
            try:
                roles = reading.by_role(found.arrays, chosen)
            except LogitFileError as error:
                st.error(plain_text(str(error)))
                return
            others = {name: value for name, value in found.options.items() if name != "roles"}
            read_again(found.mark, {**others, **({"roles": roles} if roles else {})})
            st.rerun()


def cure_buttons(found: reading.Reading, cures: Sequence[Cure], first: int = 0) -> None:
    """A button for each other way to read the files."""
    for number, cure in enumerate(cures, first):
        options = {**found.options, cure.option: cure.value}
        st.button(cure.label, key=f"start-cure-{number}", on_click=read_again, args=(found.mark, options))


def understood(found: reading.Reading) -> None:
    """What is in the files just given, what was decided for the user, and how to decide otherwise."""
    for number, notice in enumerate(found.data.notices if found.data is not None else ()):
        st.info(plain_text(notice.text))
        cure = reading.cure(notice)
        cure_buttons(found, [cure] if cure is not None else [], number)
    if found.options:
        told = ", ".join(f"{name}={value}" for name, value in found.options.items())
        st.caption(f"Read with {plain_text(told)}.")
        st.button("Leave it to be understood", key="start-understand", on_click=read_again, args=(found.mark, {}))
    listing(found.arrays)
    by_hand(found)


def in_memory() -> None:
    """The arrays of a data set whose file is not at hand."""
    key = library.current_key()
    data = library.base(key)
    for notice in data.notices:
        st.info(plain_text(notice.text))
    if key in desk().sets and any(reading.cure(notice) for notice in data.notices):
        st.caption("To have it read differently, give the file again.")
    arrays = data.arrays()
    listing([ArrayInfo("", name, array.shape, type_name(array.dtype), name) for name, array in arrays])


def type_name(dtype: np.dtype[Any]) -> str:
    """NumPy's name of a type, where a reader would know it."""
    return "text" if dtype.kind == "U" else str(dtype)


def split_anew() -> None:
    """Another division into validation and test, by share and seed."""
    key = library.current_key()
    split = desk().splits.get(key)
    names = [f"start-{name}-{key}" for name in ("by-hand", "share", "seed")]

    def ask() -> None:
        by_hand, share, seed = (st.session_state[name] for name in names)
        library.split_by_hand(key, Split(share / 100, int(seed)) if by_hand else None)

    with st.container(border=True, key="split"):
        st.toggle("Split by hand", split is not None, key=names[0], on_change=ask)
        st.caption(
            "Validation and test are pooled and divided anew, each class in proportion. Fits belong to their split: "
            "those of another one wait until you return to it."
        )
        share = round(100 * split.fraction) if split is not None else 50
        off = split is None
        st.slider("Share for validation, in %", *SHARES, share, 5, key=names[1], on_change=ask, disabled=off)
        seed = split.seed if split else 0
        st.number_input("Seed of the split", 0, LARGEST_SEED, seed, key=names[2], on_change=ask, disabled=off)


def samples() -> None:
    """One click a sample."""
    here = library.current_key()
    with st.container(horizontal=True, key="samples"):
        for name, sample in library.samples().items():
            with st.container(border=True, width=255, height="stretch", key=f"sample-{name}"):
                st.markdown(f"**{sample.title}**")
                st.caption(f"{sample.about}  \n{library.sample_size(name)}")
                st.button(
                    f"Open {sample.title}",
                    key=f"open-{name}",
                    on_click=library.look_at,
                    args=(name,),
                    disabled=name == here,
                )


st.title("Start")
st.markdown("Can this classifier's confidence be trusted? Bring its logits and labels, or open a sample.")
waiting()
if library.nothing():
    st.info("There is no data set yet: give a file, and its verdict appears here.")
else:
    in_view()
st.subheader("Your file")
files = taken_in(handed_in())
at_hand = files is not None and files.data is not None and library.key_of(files.data) == library.current_key()
if files is not None and files.error is not None:
    refused(files)
elif files is not None and at_hand:
    understood(files)
with st.expander("Go on where you stopped"):
    intake.workspace("start-restore")
if library.nothing():
    st.stop()
st.subheader("Samples")
samples()
st.subheader("Validation and test")
split_anew()
if not at_hand:
    with st.expander("What is in view"):
        in_memory()
bins = st.session_state[state.BINS]
show.python(
    library.load_code()
    + f"""
print(data, *data.notices, sep="\\n")
model = sc.Vanilla().fit(data.validation.logits, data.validation.labels)
print("ECE", sc.evaluate(model, data.test, bins={bins}).metric("ece", {bins}))
"""
)
