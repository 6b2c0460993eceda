"""The view of the playground: a simulator with a law of one's own, and what the methods find of it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import streamlit as st

from pages.shared import show, studies
from pages.shared.wording import plain_text
from smart_core import LogitSet
from smart_core.calibrators import methods
from smart_core.data.simulate import LAWS, Law, simulate_set
from smart_core.figures.theme import style
from smart_core.figures.theory_playground import recovery_chart, true_error_chart
from smart_core.formatting import percent
from smart_core.progress import Run
from smart_core.theory.playground import (
    DEFAULT_METHODS,
    Playground,
    identifiable,
    knot_law,
    law_at,
    playground,
    unfitted,
)

KIND = "playground"
KNOTS = (0.0, 3.0, 6.0, 10.0, 16.0)
DRAWN = "drawn"
LAW_WORDS = {
    "constant": "constant",
    "linear": "rising line",
    "resnet": "rising, then level",
    "u_shaped": "U-shaped",
    DRAWN: "drawn by you",
}
OWN, GIVEN = "Each row's own truth", "Given the confidence"
KEEP: dict[str, Any] = {"bind": "query-params", "persist_state": "session"}


@lru_cache(maxsize=1)
def simulator() -> LogitSet:
    """Where the playground's studies lie on the desk: they belong to no data set in view."""
    return simulate_set(2, 2, classes=2)


def law_of(asked: dict[str, Any]) -> Law:
    """The law that the settings name, or the one through the knots."""
    return knot_law(KNOTS, asked["knots"]) if asked["law"] == DRAWN else LAWS[asked["law"]]


def begin(asked: dict[str, Any]) -> None:
    """Start the simulation."""

    def compute(run: Run, publish: studies.Publish) -> None:
        publish(
            playground(
                law_of(asked),
                asked["rows"],
                asked["classes"],
                asked["methods"],
                asked["seeds"],
                progress=run.progress,
                cancel=run.cancel,
                on_cell=publish,
            )
        )

    studies.start(simulator(), KIND, "Playground", compute, asked)


def playground_sentence(result: Playground, conditional: bool) -> str:
    """Who is nearest to the truth at the largest size."""
    last = result.mean(conditional)[:, -1]
    known = [i for i in range(len(result.methods)) if np.isfinite(last[i])]
    if not known:
        return "No fit is finished yet."
    best = min(known, key=lambda i: last[i])
    size = result.sizes[-1]
    words = (
        f"Fitted on {size:,} rows, {style(result.methods[best]).label} is nearest to the truth: off by "
        f"{percent(last[best], 2)}"
    )
    off = result.recovery(size)
    if np.isfinite(off):
        words += f"; SMART's temperature is off by {percent(off)} on average"
    return f"{words}."


def playground_controls() -> dict[str, Any]:
    """The simulator's settings."""
    with st.container(horizontal=True):
        law = st.selectbox(
            "Law T*(m)",
            [*LAWS, DRAWN],
            list(LAWS).index("u_shaped"),
            LAW_WORDS.get,
            key="theory-law",
            **KEEP,
            width=200,
        )
        rows = st.select_slider(
            "Validation rows", (250, 500, 1000, 2000, 4000, 8000, 16000), 4000, key="theory-n", **KEEP, width=240
        )
        classes = st.select_slider("Classes", (2, 3, 5, 10, 20, 50, 100), 10, key="theory-k", **KEEP, width=200)
        seeds = st.slider("Seeds", 1, 5, 2, key="theory-seeds", **KEEP, width=140)
    free = [id for id, method in methods().items() if method.missing({"features": False, "head": False}) is None]
    wanted = st.multiselect(
        "Methods",
        free,
        DEFAULT_METHODS,
        format_func=lambda id: style(id).label,
        key="theory-methods",
        persist_state="session",
    )
    asked: dict[str, Any] = {"law": law, "rows": rows, "classes": classes, "seeds": seeds, "methods": wanted}
    if law == DRAWN:
        start = np.round(law_at("u_shaped", np.array(KNOTS)), 1)
        with st.container(horizontal=True):
            asked["knots"] = [
                st.slider(
                    f"T at margin {m:g}", 0.2, 6.0, float(t), 0.1, key=f"knot-{m:g}", persist_state="session", width=150
                )
                for m, t in zip(KNOTS, start, strict=True)
            ]
    return asked


def view(data: LogitSet, look: dict[str, Any]) -> str:
    st.markdown(
        "Simulated rows whose labels are drawn from softmax(z / T*(m)): each row's true confidence is known. What does "
        "SMART find of the law, and how far is every method from the truth?"
    )
    asked = playground_controls()
    if not identifiable(law_of(asked)):
        st.warning(
            "m / T*(m) does not rise everywhere: rows of different margins share a true confidence, and a calibration "
            "error cannot tell which temperature belongs to which. SMART need not find this law."
        )
    busy = studies.running(simulator(), KIND)
    unready = busy or not asked["methods"]
    if st.button("Run", type="primary", key="run-playground", shortcut="Ctrl+Enter", disabled=unready):
        begin(asked)
        st.rerun()
    st.caption(
        "Seconds for the default; more with rows, classes, seeds and slower methods. Cancel keeps what is there."
    )
    study = studies.found(simulator(), KIND, asked)
    if study is None:
        if busy:
            st.info("Running: the first figures appear in a moment.")
        st.markdown("**The law**")
        show.chart(recovery_chart(unfitted(law_of(asked), asked["classes"]), **look), "law")
    else:
        playground_result(study, asked, look)
    law = f'"{asked["law"]}"' if asked["law"] != DRAWN else f"knot_law({KNOTS}, {asked['knots']})"
    return f"""
from smart_core.theory.playground import knot_law, playground

result = playground({law}, {asked["rows"]}, {asked["classes"]}, {asked["methods"]}, seeds={asked["seeds"]})
print(result.methods, result.sizes)
print(result.mean(), result.recovery({asked["rows"]}))
"""


def playground_result(study: studies.Study, asked: dict[str, Any], look: dict[str, Any]) -> None:
    """Curve and errors, as far as they are there."""
    result: Playground = study.result
    with studies.shown(study, simulator(), KIND, asked):
        kind = st.segmented_control(
            "Error", [OWN, GIVEN], default=OWN, required=True, key="theory-error", persist_state="session"
        )
        st.markdown(f"##### {playground_sentence(result, kind == GIVEN)}")
        left, right = st.columns(2)
        with left:
            st.markdown("**The law and what SMART found**")
            sizes = [size for size in result.sizes if size in result.smart]
            size = (
                st.segmented_control(
                    "Fitted on", sizes, default=sizes[-1], format_func="{:,}".format, required=True, key=f"size-{sizes}"
                )
                if len(sizes) > 1
                else None
            )
            show.chart(recovery_chart(result, size, **look), "recovery")
        with right:
            st.markdown("**True error as validation grows**")
            show.chart(true_error_chart(result, conditional=kind == GIVEN, **look), "true-error")
        for id, reason in result.reasons.items():
            st.caption(f"{style(id).label}: {plain_text(reason)}")
        st.caption(
            "Each row's own truth: the mean of |p − q*|. Given the confidence: the mean of |p − E[q* | p]|, what the "
            "ECE estimates. Bars: range over seeds, each with its own validation rows; 10,000 test rows, no "
            "label noise. At large margins the confidence is near 1 whatever T is, so T is loosely known there."
        )
