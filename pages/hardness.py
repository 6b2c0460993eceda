"""Hardness: is the margin a measure of how hard a sample is?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import streamlit as st

from pages.shared import library, measured, routing, show, studies
from pages.shared.desk import desk
from smart_core import LogitSet
from smart_core.analysis.hardness import Hardness
from smart_core.attacks import carlini_wagner_l2
from smart_core.figures import hardness_scatter
from smart_core.indicators import INDICATORS
from smart_core.progress import Run

routing.enter()

KIND = "attack"
NAMES = [name for name in INDICATORS if name != "all_logits"]
CHUNK = 40
"""Images attacked between two looks at the chart."""
HERE, FILE = "attacked here", "of the file"

BRING = """
smart attack --model my_package:make_model --weights weights.safetensors \\
    --images test_images.npz --bundle logits.npz --out-bundle logits_with_distances.npz
"""


def begin(data: LogitSet, count: int) -> None:
    """Attack the first test images of the digits' network, some at a time."""

    def compute(run: Run, publish: studies.Publish) -> None:
        from sample_logits import digits

        model, images = digits.trained(), digits.images("test")[:count]
        found = np.full(len(data.test), np.nan)
        attacked = np.zeros(len(data.test), dtype=bool)
        for start in range(0, count, CHUNK):
            stop = min(start + CHUNK, count)
            found[start:stop] = carlini_wagner_l2(model, images[start:stop], run=chunk_of(run, start, stop, count)).l2
            attacked[start:stop] = True
            publish((found, attacked))

    studies.start(data, KIND, f"Attack {count} digits", compute, {"images": count})


def chunk_of(run: Run, start: int, stop: int, count: int) -> Run:
    """The line of one chunk, whose words say which of all the images it is about."""
    part = run.part(start / count, stop / count)
    tell = run.progress
    if tell is not None:
        part.progress = lambda fraction, words: tell(fraction, f"Images {start + 1} to {stop} of {count}: {words}")
    return part


def verdict(found: Hardness) -> str:
    """How strongly the indicator follows the distance."""
    r, label = found.correlation, INDICATORS[found.indicator].label.lower()
    if not np.isfinite(r.pearson):
        return "Too few distances for a correlation."
    numbers = (
        f"Pearson's r is {r.pearson:.2f} ({r.pearson_low:.2f} to {r.pearson_high:.2f}), Spearman's {r.spearman:.2f} "
        f"({r.spearman_low:.2f} to {r.spearman_high:.2f}), over {r.used:,} samples."
    )
    if not r.pearson_low * r.pearson_high > 0:
        return f"No clear relation between the {label} and the distance to another prediction: {numbers}"
    how = "rises" if r.pearson > 0 else "falls"
    return f"The distance to another prediction {how} with the {label}: {numbers}"


def live(data: LogitSet) -> tuple[Any, Any] | None:
    """The digits' network attacked here and now: distances so far and which were attacked, if these are to be drawn."""
    busy = studies.running(data, KIND)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        count = st.slider(
            "Images to attack",
            CHUNK,
            len(data.test),
            120,
            step=CHUNK,
            key="attack-count",
            persist_state="session",
            width=260,
            help="The digits' network is small enough to be attacked here. What is found by a cancel is kept.",
        )
        if st.button("Attack now", type="primary", key="run-attack", shortcut="Ctrl+Enter", disabled=busy):
            begin(data, count)
            st.rerun()
        study = studies.found(data, KIND)
        if study is None:
            if busy:
                st.caption(f"The first {CHUNK} appear in a moment.")
            return None
        choice = st.segmented_control(
            "Distances", [HERE, FILE], default=HERE, required=True, key="attack-source", persist_state="session"
        )
    if choice == FILE:
        return None
    found, attacked = study.result
    done, failed = int(attacked.sum()), int((attacked & np.isnan(found)).sum())
    st.caption(f"{done:,} images attacked here, {failed:,} without success.")
    return found, attacked


def example() -> str | None:
    """A sample that brings distances."""
    return next((name for name in library.samples() if library.base(name).test.cw_l2 is not None), None)


data = library.current()
st.title("Hardness")
st.markdown(
    "Does the margin tell how hard a sample is? The Carlini-Wagner attack measures it: the smallest change of an image "
    "that changes the prediction. A small distance means a hard sample."
)
source, attacked = data, None
if library.current_key() == "digits" and "digits" not in desk().splits:
    mine = live(data)
    if mine is not None:
        found, attacked = mine
        source = data.with_parts(test=replace(data.test, cw_l2=found))
if source.test.cw_l2 is None or not np.isfinite(source.test.cw_l2).any():
    st.markdown(
        "This set has no distances. An attack needs the network itself, so it runs where your model is and brings back "
        "only the array `test_cw_l2`: one distance a test sample, missing where an attack failed. Load the file that "
        "it writes on Start."
    )
    st.code(BRING.strip("\n"), language="sh", wrap_lines=True)
    other = example()
    if other and show.empty("A sample with distances is at hand.", f"Open {library.samples()[other].title}", "open"):
        library.look_at(other)
        st.rerun()
else:
    indicator = st.selectbox(
        "Against",
        NAMES,
        format_func=lambda name: INDICATORS[name].label,
        key="hardness-indicator",
        bind="query-params",
        persist_state="session",
        width=200,
        help="The indicator that is held against the distance. The paper's choice is the margin.",
    )
    result = measured.distances(source, indicator, attacked)
    st.markdown(f"##### {verdict(result)}")
    show.chart(hardness_scatter(result, dark=show.dark(), uirevision=f"{data.content_hash} {indicator}"), "hardness")
    missing = f" Not drawn: {result.missing}." if result.missing else ""
    st.caption(
        "In brackets: 95\u00a0% intervals over resampled samples. The paper reports r = 0.68 between margin and "
        f"distance on CIFAR-10.{missing} A failed attack is missing, never 0."
    )

indicator = st.session_state.get("hardness-indicator", "margin")
if source is not data:
    distances = f"""
import sys
from dataclasses import replace
from smart_core.attacks import carlini_wagner_l2
from smart_core.data.samples import APP

sys.path.append(str(APP))  # the folder of the samples and their networks
from sample_logits import digits

test = data.test.subset(range({int(attacked.sum())}))
distances = carlini_wagner_l2(digits.trained(), digits.images("test")[:{int(attacked.sum())}]).l2
test = replace(test, cw_l2=distances)
"""
else:
    distances = "test = data.test\n"
show.python(
    f"""{library.load_code()}{distances}
from smart_core.analysis.hardness import hardness

if test.cw_l2 is not None:
    print(hardness(test, "{indicator}").correlation)
"""
)
