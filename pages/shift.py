"""Shift: does the repair survive when the inputs change?"""

from __future__ import annotations

from collections.abc import Iterable

import streamlit as st

import smart_core as sc
from pages.shared import charts, datasets, estimates, navigation, resume, session, studies
from pages.shared.components import IN_URL, empty_state, plain_text, python_code, seeds_input
from pages.shared.glossary import note, say
from pages.shared.verdicts import shift_verdict
from smart_core import LogitSet
from smart_core.calibrators import method_named, methods
from smart_core.evaluation import METRICS
from smart_core.experiments.running import seeds_for, unavailable
from smart_core.experiments.shift import DEFAULT_METHODS
from smart_core.figures import reduction_dots, shift_heatmap
from smart_core.progress import Run

navigation.enter()

KIND = "shift"


def offer_groups(same_classes: Iterable[str]) -> None:
    """Offer to open a sample with groups: the corrupted version of the selected sample, if there is one."""
    samples, corrupted = datasets.samples(), f"{datasets.current_key()}_corrupted"
    candidates = [key for key in (corrupted, *same_classes, *samples) if key in samples and key.endswith("_corrupted")]
    if not candidates:
        return
    text = "This data set has no groups. To add them, include an array `test_group` with one group name per test sample"
    if candidates[0] == corrupted:
        text += ". The same network was also run on corrupted images."
    else:
        text += ", or open a bundled sample that has groups."
    if empty_state(text, f"Open {samples[candidates[0]].title}", "open-corrupted"):
        datasets.select(candidates[0])
        st.rerun()


def start(data: LogitSet, others: dict[str, LogitSet], settings: studies.Settings, estimate: float) -> None:
    """Start the study; each finished method is published, and those of a run that was interrupted are kept."""
    known = studies.unfinished(data, KIND, settings)

    def compute(run: Run, publish: studies.Publish) -> None:
        publish(
            sc.shift(
                data,
                settings["methods"],
                settings["seeds"],
                by=settings["by"],
                others=others,
                bins=settings["bins"],
                progress=run.progress,
                cancel=run.cancel,
                on_row=lambda table, row: publish(table),
                known=known,
            )
        )

    studies.start(data, KIND, "Shift", compute, settings, estimate)


def other_sets(keys: Iterable[str]) -> dict[str, LogitSet]:
    """Return the chosen other data sets by their titles; one that is no longer there is left out."""
    titles = datasets.titles()
    return {titles[key]: datasets.get(key) for key in keys if key in titles}


bins, metric = session.bins(), session.metric()
data = datasets.current()
st.title("Shift")
say("Does the repair survive when the inputs change?")

grouped = bool(data.test.columns)
others_known = {key: title for key, title in datasets.titles().items() if key != datasets.current_key()}
same_classes = {key: title for key, title in others_known.items() if datasets.classes(key) == data.classes}
if not grouped:
    offer_groups(same_classes)

usable = [id for id in methods() if id != "vanilla" and unavailable(id, data) is None]
if (picked := [id for id in session.newly_selected("shift") if id in usable]) and "shift-methods" in st.session_state:
    st.session_state["shift-methods"] = picked
with st.container(border=True):
    chosen = st.multiselect(
        "Methods",
        usable,
        default=[id for id in session.selected() if id in usable] or [id for id in DEFAULT_METHODS if id in usable],
        format_func=lambda id: method_named(id).label,
        key="shift-methods",
        **IN_URL,
        help="Each is fitted once per seed and evaluated on every shift. The defaults are those of the paper's figure.",
    )
    by = "group"
    if grouped:
        by = st.selectbox(
            "Group by",
            list(data.test.columns),
            format_func=plain_text,
            key="shift-by",
            persist_state="session",
            help="A column of the file. Numbers with many values are cut into intervals of equally many samples.",
        )
    others = st.multiselect(
        "Other data sets",
        list(same_classes),
        format_func=lambda key: same_classes[key],
        key="shift-others",
        **IN_URL,
        help="Data sets with as many classes as this one. Their test part is used.",
    )
    seeds = seeds_input(
        "shift-seeds", 3, "How many times each method with random initial weights is fitted. The paper: 5."
    )
    settings = {"methods": chosen, "seeds": seeds, "bins": bins, "others": others, "by": by}
    incomplete = not chosen or not (grouped or others)
    running = studies.running(data, KIND)
    disabled = incomplete or running
    sizes = [len(data.test)] * grouped + [len(datasets.get(key).test) for key in others]
    numbers = {id: len(seeds_for(id, seeds)) for id in ("vanilla", *chosen)}
    seconds = sum(estimates.fits(data, id, number, targets=sizes) for id, number in numbers.items())
    resume.study(KIND, lambda earlier: start(data, other_sets(earlier["others"]), earlier, seconds))
    if st.button("Evaluate under shift", type="primary", key="run-shift", shortcut="Ctrl+Enter", disabled=disabled):
        start(data, other_sets(others), settings, seconds)
        st.rerun()
    if incomplete:
        note("Choose at least one method and, as this data set has no groups, another data set.")
    else:
        number = sum(numbers.values()) - 1  # the uncalibrated model is not fitted
        note(estimates.text(number, seconds))

study = studies.find(data, KIND, settings)
if study is None and running:
    st.info("Running. Each method appears when it has finished.")
if study is not None:
    look = charts.look(data)
    with studies.grey_if_stale(study, data, KIND, settings):
        st.markdown(f"##### {shift_verdict(study.result, metric)}")
        if not METRICS[metric].higher_is_better:
            st.subheader("Error reduction")
            charts.show(reduction_dots(study.result, metric, **look), "reduction")
            note(
                "Relative to the uncalibrated model on the same samples: 100% removes all error, below 0 the "
                "method makes it worse. Means over seeds; small groups are noisy, so near ties are not a ranking."
            )
        st.subheader(f"{METRICS[metric].label} by method and shift")
        charts.show(shift_heatmap(study.result, metric, **look), "shift-heatmap")

loaded = ", ".join(f"{same_classes[key]!r}: {datasets.load_call(key)}" for key in others)
python_code(
    f"""
others = {{{loaded}}}
result = sc.shift(data, {chosen}, seeds={seeds}, by={by!r}, others=others, bins={bins}, metric="{metric}")
print(result.to_frame()[["method", "target", "{metric}"]])
"""
)
