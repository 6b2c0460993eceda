"""Hardness: does the margin measure how hard a sample is?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import streamlit as st

from pages.shared import cache, charts, datasets, estimates, leaderboard, navigation, resume, session, studies, tables
from pages.shared.components import IN_URL, empty_state, python_code
from pages.shared.glossary import note, say
from pages.shared.verdicts import hardness_verdict
from smart_core import LogitSet
from smart_core.attacks import carlini_wagner_l2
from smart_core.figures import hardness_scatter
from smart_core.fitting.indicators import INDICATORS
from smart_core.formatting import plural
from smart_core.progress import Run

navigation.enter()

KIND = "attack"
NAMES = [name for name in INDICATORS if name != "all_logits"]
CHUNK = 40
"""Images that are attacked between two updates of the chart."""
SECONDS_PER_IMAGE = 0.12
"""Duration of the attack on one digit, on one core of the reference machine."""
STEPS_TO_TIME_EXPONENT = 1.6
"""Share of a chunk's time = (share of its search steps)^1.6, because early values of c need few iterations."""
HERE, FILE = "computed here", "from the file"

COMMAND = """
smart attack --model my_package:make_model --weights weights.safetensors \\
    --images test_images.npz --bundle logits.npz --out-bundle logits_with_distances.npz
"""


def attack_seconds(count: int) -> float:
    """Return the estimated seconds of an attack on this many images."""
    return estimates.here(SECONDS_PER_IMAGE * count)


def start_attack(data: LogitSet, count: int) -> None:
    """Attack the first test images of the digits network, a chunk at a time; chunks attacked before are kept."""
    known = studies.unfinished(data, KIND, {"images": count})
    if known is not None and known[1][:count].all():
        known = None  # a finished attack is asked for again

    def compute(run: Run, publish: studies.Publish) -> None:
        from sample_logits import digits

        model, images = digits.trained(), digits.images("test")[:count]
        found = np.full(len(data.test), np.nan) if known is None else known[0].copy()
        attacked = np.zeros(len(data.test), dtype=bool) if known is None else known[1].copy()
        for start in range(0, count, CHUNK):
            stop = min(start + CHUNK, count)
            if attacked[start:stop].all():
                continue
            found[start:stop] = carlini_wagner_l2(model, images[start:stop], run=chunk_run(run, start, stop, count)).l2
            attacked[start:stop] = True
            publish((found, attacked))

    studies.start(data, KIND, f"Attack {count} digits", compute, {"images": count}, attack_seconds(count))


def chunk_run(run: Run, start: int, stop: int, count: int) -> Run:
    """Return the part of a run that is one chunk; its messages name the images, and its progress is that of time."""

    def report(fraction: float, text: str) -> None:
        done = start + (stop - start) * fraction**STEPS_TO_TIME_EXPONENT
        run.tick(done / count, f"Images {start + 1} to {stop} of {count}: {text}")

    return Run(report, run.cancel)


def attack_controls(data: LogitSet) -> tuple[Any, Any] | None:
    """Offer an attack on the digits network; return the distances so far and which images were attacked."""
    resume.study(KIND, lambda earlier: start_attack(data, earlier["images"]))
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
            help="The digits network is small enough to be attacked here. Cancelling keeps the distances found so far.",
        )
        if st.button("Attack now", type="primary", key="run-attack", shortcut="Ctrl+Enter", disabled=busy):
            start_attack(data, count)
            st.rerun()
        note(estimates.about(attack_seconds(count)), width="content")
        study = studies.find(data, KIND)
        if study is None:
            if busy:
                note(f"The first {CHUNK} will appear here.")
            return None
        source = st.segmented_control(
            "Distances", [HERE, FILE], default=HERE, required=True, key="attack-source", persist_state="session"
        )
    if source == FILE:
        return None
    found, attacked = study.result
    done, failed = int(attacked.sum()), int((attacked & np.isnan(found)).sum())
    note(f"{done:,} images attacked here, {failed:,} without success.")
    return found, attacked


def sample_with_distances() -> str | None:
    """Return a sample that has distances."""
    return next((name for name in datasets.samples() if datasets.as_loaded(name).test.cw_l2 is not None), None)


def list_selected(event: Any) -> None:
    """List the samples in the box that was drawn."""
    picked = {int(np.ravel(point["customdata"])[0]) for point in event.selection.points if "customdata" in point}
    if not picked:
        note("Drag a box over the points to list their samples.")
        return
    rows, model = np.array(sorted(picked)), cache.uncalibrated(data)
    smart = leaderboard.fitted(data).get("smart")
    st.markdown(f"**{plural(len(rows), 'selected sample')}**")
    distances = {"C&W L2 distance": np.asarray(source.test.cw_l2)}
    tables.samples(data, rows, model, model if smart is None else smart.evaluations[0], distances)


data = datasets.current()
st.title("Hardness")
say("Does the margin predict how hard a sample is, as measured by its C&W distance?")
source, attacked = data, None
if datasets.current_key() == "digits" and "digits" not in session.current().splits:
    result = attack_controls(data)
    if result is not None:
        distances, attacked = result
        source = data.with_parts(test=replace(data.test, cw_l2=distances))
indicator = "margin"
if source.test.cw_l2 is None or not np.isfinite(source.test.cw_l2).any():
    st.markdown(
        "This data set has no distances. Computing them needs the model, so run this command where your model is. It "
        "writes a copy of your file with the array `test_cw_l2`, one distance per test sample. Then load it on Start."
    )
    st.code(COMMAND.strip("\n"), language="sh", wrap_lines=True)
    other = sample_with_distances()
    if other is not None:
        title = datasets.samples()[other].title
        if empty_state("Or look at a sample that has distances.", f"Open {title}", "open"):
            datasets.select(other)
            st.rerun()
else:
    indicator = st.selectbox(
        "Indicator",
        NAMES,
        format_func=lambda name: INDICATORS[name].label,
        key="hardness-indicator",
        **IN_URL,
        width=200,
        help="The indicator to correlate with the distance. The paper uses the margin.",
    )
    hardness = cache.hardness(source, indicator, attacked)
    st.markdown(f"##### {hardness_verdict(hardness)}")
    chart = hardness_scatter(hardness, **charts.look(data, indicator))
    chart.figure.update_layout(dragmode="select")
    charts.show(chart, "hardness", on_select="rerun", selection_mode="box", below=list_selected)
    missing = f" Not drawn: {hardness.missing}." if hardness.missing else ""
    note(
        "In parentheses: 95% bootstrap intervals. The paper reports r = 0.68 between margin and distance on "
        f"CIFAR-10.{missing} A failed attack has no distance; it does not count as 0."
    )

if attacked is not None:
    distances_code = f"""
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
    distances_code = "test = data.test\n"
python_code(
    f"""{distances_code}
from smart_core.analysis.hardness import hardness

if test.cw_l2 is not None:
    print(hardness(test, "{indicator}").correlation)
"""
)
