"""The view of the playground: simulate data with a known temperature law, and see how well methods recover it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import streamlit as st

from pages.shared import charts, estimates, resume, studies
from pages.shared.components import IN_URL, plain_text
from pages.shared.theory.symbols import meaning
from pages.shared.verdicts import playground_verdict
from smart_core import LogitSet
from smart_core.calibrators import methods
from smart_core.data.simulate import LAWS, Law, simulate_set
from smart_core.figures.theme import style
from smart_core.figures.theory_playground import recovery_chart, true_error_chart
from smart_core.progress import Run
from smart_core.theory.playground import (
    DEFAULT_METHODS,
    TEST_ROWS,
    Playground,
    identifiable,
    knot_law,
    law_at,
    playground,
    sizes_below,
    unfitted,
)

KIND = "playground"
KNOTS = (0.0, 3.0, 6.0, 10.0, 16.0)
DRAWN = "drawn"
LAW_LABELS = {
    "constant": "constant",
    "linear": "linear",
    "resnet": "rising, then flat",
    "u_shaped": "U-shaped",
    DRAWN: "custom",
}
PER_SAMPLE, PER_CONFIDENCE = "Per sample", "Per confidence"


@lru_cache(maxsize=1)
def simulator() -> LogitSet:
    """Return a data set under whose hash the playground's studies are kept: they do not depend on the selected one."""
    return simulate_set(2, 2, classes=2)


def law_of(settings: studies.Settings) -> Law:
    """Return the chosen law, or the custom one through the knots."""
    return knot_law(KNOTS, settings["knots"]) if settings["law"] == DRAWN else LAWS[settings["law"]]


def start(settings: studies.Settings, estimate: float) -> None:
    """Start the simulation; each finished cell is published, and those of a run that was interrupted are kept."""

    known = studies.unfinished(simulator(), KIND, settings)

    def compute(run: Run, publish: studies.Publish) -> None:
        publish(
            playground(
                law_of(settings),
                settings["rows"],
                settings["classes"],
                settings["methods"],
                settings["seeds"],
                progress=run.progress,
                cancel=run.cancel,
                on_cell=publish,
                known=known,
            )
        )

    studies.start(simulator(), KIND, "Playground", compute, settings, estimate)


def resume_simulation(tabs: str, own: str) -> None:
    """Start an interrupted simulation again if the user has asked to, and open its tab."""
    if resume.asked(KIND):
        st.session_state[tabs] = own
    resume.study(KIND, lambda earlier: start(earlier, estimate(earlier)))


def estimate(settings: studies.Settings) -> float:
    """Return the estimated seconds of a simulation."""
    sizes = sizes_below(settings["rows"])
    return estimates.simulated(settings["methods"], sizes, settings["classes"], settings["seeds"], TEST_ROWS)


def controls() -> studies.Settings:
    """Ask for the settings of the simulation."""
    with st.container(horizontal=True):
        law = st.selectbox(
            "Law T*(m)",
            [*LAWS, DRAWN],
            list(LAWS).index("u_shaped"),
            LAW_LABELS.__getitem__,
            key="theory-law",
            **IN_URL,
            width=200,
        )
        rows = st.select_slider(
            "Validation samples", (250, 500, 1000, 2000, 4000, 8000, 16000), 4000, key="theory-n", **IN_URL, width=240
        )
        classes = st.select_slider("Classes", (2, 3, 5, 10, 20, 50, 100), 10, key="theory-k", **IN_URL, width=200)
        seeds = st.slider("Seeds", 1, 5, 2, key="theory-seeds", **IN_URL, width=140)
    # simulated data has neither features nor a head
    usable = [id for id, method in methods().items() if method.missing({"features": False, "head": False}) is None]
    wanted = st.multiselect(
        "Methods",
        usable,
        DEFAULT_METHODS,
        format_func=lambda id: style(id).label,
        key="theory-methods",
        persist_state="session",
    )
    settings: studies.Settings = {"law": law, "rows": rows, "classes": classes, "seeds": seeds, "methods": wanted}
    if law == DRAWN:
        default = np.round(law_at("u_shaped", np.array(KNOTS)), 1)
        with st.container(horizontal=True):
            settings["knots"] = [
                st.slider(
                    f"T at margin {m:g}", 0.2, 6.0, float(t), 0.1, key=f"knot-{m:g}", persist_state="session", width=150
                )
                for m, t in zip(KNOTS, default, strict=True)
            ]
    return settings


def view(data: LogitSet, look: dict[str, Any]) -> str:
    """Draw the view and return its Python code."""
    st.markdown(
        "How well do the methods recover a known truth? The labels are drawn from softmax(z / T*(m)), so the true "
        "confidence of each sample is known."
    )
    settings = controls()
    if not identifiable(law_of(settings)):
        st.warning(
            "m / T*(m) does not rise everywhere: samples with different margins then have the same true confidence, "
            "and a calibration error cannot tell their temperatures apart. SMART need not recover this law."
        )
    busy = studies.running(simulator(), KIND)
    disabled = busy or not settings["methods"]
    seconds = estimate(settings)
    if st.button("Run", type="primary", key="run-playground", shortcut="Ctrl+Enter", disabled=disabled):
        start(settings, seconds)
        st.rerun()
    number = len(settings["methods"]) * len(sizes_below(settings["rows"])) * settings["seeds"]
    st.caption(estimates.text(number, seconds))
    study = studies.find(simulator(), KIND, settings)
    if study is None:
        if busy:
            st.info("Running. The first results will appear here.")
        st.markdown("**The law**")
        charts.show(recovery_chart(unfitted(law_of(settings), settings["classes"]), **look), "law")
    else:
        show_result(study, settings, look)
    law = f'"{settings["law"]}"' if settings["law"] != DRAWN else f"knot_law({KNOTS}, {settings['knots']})"
    return f"""
from smart_core.theory.playground import knot_law, playground

result = playground({law}, {settings["rows"]}, {settings["classes"]}, {settings["methods"]}, seeds={settings["seeds"]})
print(result.methods, result.sizes)
print(result.mean(), result.recovery({settings["rows"]}))
"""


def show_result(study: studies.Study, settings: studies.Settings, look: dict[str, Any]) -> None:
    """Draw the recovered law and the true errors."""
    result: Playground = study.result
    with studies.grey_if_stale(study, simulator(), KIND, settings):
        kind = st.segmented_control(
            "Error",
            [PER_SAMPLE, PER_CONFIDENCE],
            default=PER_SAMPLE,
            required=True,
            key="theory-error",
            persist_state="session",
        )
        st.markdown(f"##### {playground_verdict(result, kind == PER_CONFIDENCE)}", help=meaning("p", "q*", "T", "m"))
        left, right = st.columns(2)
        with left:
            st.markdown("**The law and what SMART recovers**")
            sizes = [size for size in result.sizes if size in result.smart]
            size = (
                st.segmented_control(
                    "Fitted on", sizes, default=sizes[-1], format_func="{:,}".format, required=True, key=f"size-{sizes}"
                )
                if len(sizes) > 1
                else None
            )
            charts.show(recovery_chart(result, size, **look), "recovery")
        with right:
            st.markdown("**True error by validation size**")
            charts.show(true_error_chart(result, conditional=kind == PER_CONFIDENCE, **look), "true-error")
        for id, reason in result.reasons.items():
            st.caption(f"{style(id).label}: {plain_text(reason)}")
        st.caption(
            "Per sample: the mean of |p − q*|. Per confidence: the mean of |p − E[q* | p]|, which the ECE estimates. "
            "Bars: range over seeds, each with its own validation samples. 10,000 test samples without label noise. At "
            "large margins the confidence is close to 1 for every T, so T is poorly determined there."
        )
