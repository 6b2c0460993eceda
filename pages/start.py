"""Start: open a sample or upload a file, and see at once whether its confidence is trustworthy."""

from __future__ import annotations

import streamlit as st

from pages.shared import (
    before_after,
    datasets,
    file_choice,
    file_review,
    loading,
    navigation,
    session,
    sources,
    urls,
    workspace,
    workspace_list,
)
from pages.shared.components import plain_text, python_code
from pages.shared.glossary import note, say
from pages.shared.session import MAX_SPLIT_SEED, SPLIT_PERCENT, Split
from smart_core.data import ArrayInfo

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


def show_contents() -> None:
    """List the notices and arrays of a data set whose files are not in the upload field."""
    key = datasets.current_key()
    data = datasets.as_loaded(key)
    for notice in data.notices:
        st.info(plain_text(notice.text))
    if key in session.current().datasets and any(loading.button_fix(notice) for notice in data.notices):
        note("To read it differently, upload the file again.")
    if not data.test.in_memory:
        file_review.say_in_place(data)
        return
    types = {name: "text" if array.dtype.kind == "U" else str(array.dtype) for name, array in data.arrays()}
    file_review.show_arrays([ArrayInfo("", name, array.shape, types[name], name) for name, array in data.arrays()])


def split_controls() -> None:
    """Ask for a custom split: validation share and seed."""
    key = datasets.current_key()
    split = session.current().splits.get(key)
    keys = [f"start-{name}-{key}" for name in ("by-hand", "share", "seed")]

    share, seed = (50, 0) if split is None else (round(100 * split.fraction), split.seed)

    def apply() -> None:
        if st.session_state[keys[0]]:
            chosen_share, chosen_seed = (st.session_state.get(*each) for each in ((keys[1], share), (keys[2], seed)))
            session.current().splits[key] = Split(chosen_share / 100, int(chosen_seed))
        else:
            session.current().splits.pop(key, None)

    with st.container(border=True, key="split"):
        st.toggle("Custom split", split is not None, key=keys[0], on_change=apply)
        note("Pools validation and test and splits them again, stratified by class. Each split keeps its own fits.")
        if split is not None:
            st.slider("Validation share in %", *SPLIT_PERCENT, share, 5, key=keys[1], on_change=apply)
            st.number_input("Seed of the split", 0, MAX_SPLIT_SEED, seed, key=keys[2], on_change=apply)


def sample_cards() -> None:
    """Draw a card for each sample, with a button for it and for each variant: corrupted images, other training, ..."""
    samples = datasets.samples()
    families = dict.fromkeys(samples[name].title.partition(",")[0] for name in samples)
    with st.container(horizontal=True, key="samples"):
        for family in families:
            names = [name for name, sample in samples.items() if sample.title.partition(",")[0] == family]
            names.sort(key=lambda name: samples[name].title != family)  # its variants follow
            with st.container(border=True, width=400, height="stretch", key=f"sample-{names[0]}"):
                st.markdown(f"**{family}**")
                note(f"{samples[names[0]].about}  \n{datasets.sample_size(names[0])}")
                with st.container(horizontal=True, gap="small"):
                    for name in names:
                        _open_button(name, samples[name])


def _open_button(name: str, sample: datasets.Sample) -> None:
    """Draw the button that opens a sample; that of a variant says in its tooltip what it is."""
    variant = sample.title.partition(", ")[2]
    st.button(
        f"{variant[:1].upper()}{variant[1:]}" if variant else f"Open {sample.title}",
        key=f"open-{name}",
        on_click=datasets.select,
        args=(name,),
        disabled=name == datasets.current_key(),
        help=f"{sample.about} {datasets.sample_size(name)}." if variant else None,
    )


st.title("Start")
say("See whether a classifier's confidence can be trusted, and repair it without retraining.")
with st.container():  # always there, so that a note that comes or goes does not move the upload field and end an upload
    pending_link()
    workspace_list.draw_recent()
result = file_review.read(file_choice.choose_files())
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
