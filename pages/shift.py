"""Shift: does the repair survive when the inputs change?"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import streamlit as st

import sample_logits
import smart_core as sc
from pages.shared import cached, library, routing, show, state, studies
from pages.shared.desk import desk
from pages.shared.wording import plain_text
from smart_core import LogitSet
from smart_core.calibrators import methods
from smart_core.evaluation import METRICS
from smart_core.experiments.running import seeds_for, unavailable
from smart_core.experiments.shift import DEFAULT_METHODS, Shift
from smart_core.figures import reduction_bars, shift_heatmap
from smart_core.formatting import join_words, metric_value
from smart_core.progress import Run

routing.enter()

KIND = "shift"
NAMED = 3
"""Shifts that a sentence names."""


def same_classes(data: LogitSet) -> dict[str, str]:
    """Key -> title of the other data sets a calibrator of this one can be applied to."""
    own = desk().sets
    names = {key: name for key, name in library.titles(desk()).items() if key != library.current_key()}
    return {
        key: name
        for key, name in names.items()
        if (own[key].data.classes if key in own else sample_classes(key, _changed(key))) == data.classes
    }


@lru_cache(maxsize=64)
def sample_classes(name: str, changed: int) -> int:
    """Classes of a bundled sample."""
    return cached.sample(name).classes


def _changed(name: str) -> int:
    return sample_logits.path(name).stat().st_mtime_ns


def begin(data: LogitSet, others: dict[str, LogitSet], made_with: dict[str, Any]) -> None:
    """Start the study; each finished method is shown at once."""

    def compute(run: Run, publish: studies.Publish) -> None:
        publish(
            sc.shift(
                data,
                made_with["methods"],
                made_with["seeds"],
                others=others,
                bins=made_with["bins"],
                progress=run.progress,
                cancel=run.cancel,
                on_row=lambda table, row: publish(table),
            )
        )

    studies.start(data, KIND, "Shift", compute, made_with)


def verdict(result: Shift, metric: str) -> str:
    """The method with the lowest error over all shifts, and where it harms.

    Errors are averaged, not their reductions: where there is little error to begin with a reduction has no lower end.
    """
    label, cells = METRICS[metric].label, result.mean(metric)
    if METRICS[metric].higher_is_better:
        return f"{label} is not an error: there is nothing to reduce. Choose another primary metric."
    rows = [i for i in range(1, len(result.rows)) if np.isfinite(cells[i]).all()]
    if not rows or not np.isfinite(cells[0]).all():
        return "No method is finished yet."
    before = metric_value(metric, float(cells[0].mean()))
    best = min(rows, key=lambda i: float(cells[i].mean()))
    name, after = methods()[result.rows[best]].label, metric_value(metric, float(cells[best].mean()))
    many = len(result.columns)
    over = f"over {many} shifts" if many > 1 else f"on {plain_text(str(result.columns[0]))}"
    if cells[best].mean() >= cells[0].mean():
        return f"No method lowers the mean {label} {over}: it is {before} as it is, and {after} with {name}."
    words = f"{name} does best: it lowers the mean {label} {over} from {before} to {after}"
    harmed = [plain_text(str(result.columns[j])) for j in np.flatnonzero(cells[best] > cells[0])]
    if not harmed:
        return f"{words}, and harms on none."
    more = [f"{len(harmed) - NAMED} more"] if len(harmed) > NAMED else []
    return f"{words}, but harms on {join_words(harmed[:NAMED] + more)}."


def call(key: str) -> str:
    """The Python that loads another set."""
    return library.load_code(key).partition("data = ")[2].strip()


bins: int = st.session_state[state.BINS]
metric: str = st.session_state[state.METRIC]
data = library.current()
st.title("Shift")
st.markdown(
    "Does the repair survive when the inputs change? Fitted on this set's validation part; judged on each group of its "
    "test part, and on other sets."
)

grouped = data.test.group is not None
corrupted = f"{library.current_key()}_corrupted"
possible = same_classes(data)
if not grouped:
    offered = corrupted if corrupted in library.samples() else next((k for k in possible if "corrupted" in k), None)
    offered = offered or next((k for k in library.samples() if k.endswith("_corrupted")), None)
    words = "This set has no groups (an array `test_group` names each sample's). "
    words += "The same network was also run on corrupted images." if offered == corrupted else "A sample with groups:"
    if offered and show.empty(words, f"Open {library.samples()[offered].title}", "open-corrupted"):
        library.look_at(offered)
        st.rerun()

usable = [id for id in methods() if id != "vanilla" and unavailable(id, data) is None]
with st.container(border=True):
    chosen = st.multiselect(
        "Methods",
        usable,
        default=[id for id in DEFAULT_METHODS if id in usable],
        format_func=lambda id: methods()[id].label,
        key="shift-methods",
        bind="query-params",
        persist_state="session",
        help="Each is fitted once a seed and judged on every shift. The default are those of the paper's figure.",
    )
    others = st.multiselect(
        "Other sets to judge on",
        list(possible),
        format_func=lambda key: possible[key],
        key="shift-others",
        bind="query-params",
        persist_state="session",
        help="Sets with as many classes as this one, by their test part.",
    )
    seeds = st.number_input(
        "Seeds",
        1,
        20,
        3,
        key="shift-seeds",
        bind="query-params",
        persist_state="session",
        width=120,
        help="Fits of each method that draws random numbers. The paper takes 5.",
    )
    made_with = {"methods": chosen, "seeds": seeds, "bins": bins, "others": others}
    nothing = not chosen or not (grouped or others)
    running = studies.running(data, KIND)
    if st.button(
        "Judge under shift", type="primary", key="run-shift", shortcut="Ctrl+Enter", disabled=nothing or running
    ):
        begin(data, {possible[key]: library.named(key) for key in others}, made_with)
        st.rerun()
    if nothing:
        st.caption("Choose at least one method, and another set where this one has no groups.")
    else:
        fits = sum(len(seeds_for(id, seeds)) for id in chosen)
        trained = sum(seeds for id in chosen if methods()[id].stochastic)
        cost = studies.estimate(fits, studies.fit_seconds(data), trained)
        st.caption(f"{cost} Cancel keeps the methods that are finished.")

study = studies.found(data, KIND, made_with)
if study is None and running:
    st.info("Running: each method appears when it is finished.")
if study is not None:
    result: Shift = study.result
    look: dict[str, Any] = {"dark": show.dark(), "uirevision": data.content_hash}
    with studies.shown(study, data, KIND, made_with):
        st.markdown(f"##### {verdict(result, metric)}")
        if not METRICS[metric].higher_is_better:
            st.subheader("Reduction of the error")
            show.chart(reduction_bars(result, metric, **look), "reduction")
            st.caption(
                "100\u00a0% would be perfect; below 0 the method does harm. Against the model as it is, on the same "
                "samples. Means over seeds; small groups carry the noise of few samples, so near ties are no ranking."
            )
        st.subheader(f"{METRICS[metric].label} by method and shift")
        show.chart(shift_heatmap(result, metric, **look), "shift-heatmap")

show.python(
    library.load_code()
    + f"""
others = {{{", ".join(f"{possible[key]!r}: {call(key)}" for key in others)}}}
result = sc.shift(data, {chosen}, seeds={seeds}, others=others, bins={bins}, metric="{metric}")
print(result.to_frame()[["method", "target", "{metric}"]])
"""
)
