"""Diagnose: can this model's confidence be trusted?"""

from __future__ import annotations

import numpy as np
import streamlit as st

from pages.shared import cached, library, routing, show, state
from pages.shared.wording import plain_text, verdict
from smart_core.evaluation import HEADLINE, METRICS
from smart_core.figures import (
    Curve,
    confidence_histogram,
    margin_histogram,
    reliability_diagram,
    smooth_reliability,
)
from smart_core.formatting import metric_value, percent
from smart_core.metrics import ece, reliability

routing.enter()

bins: int = st.session_state[state.BINS]
data = library.current()
judged = cached.uncalibrated(data)
noise = cached.ece_noise(data, bins)
interval, floor = noise.interval, noise.floor
error = ece(judged.confidence, judged.correct, bins)
confidence, accuracy = float(np.mean(judged.confidence)), float(np.mean(judged.correct))
look = {"dark": show.dark(), "uirevision": data.content_hash}

st.title("Diagnose")
st.markdown("Can the model's confidence be trusted as it is?")
st.markdown(f"#### {verdict(error, floor.q95, confidence, accuracy, len(judged))}")
for notice in data.notices:
    st.info(plain_text(notice.text))

with st.container(horizontal=True, gap="large"):
    st.metric("Accuracy", percent(accuracy), width="content")
    st.metric("Mean confidence", percent(confidence), width="content")
    st.metric(
        f"ECE, {bins} bins",
        percent(error),
        delta=f"{percent(interval.low)} – {percent(interval.high)}",
        delta_color="off",
        delta_arrow="off",
        help=f"Below it, the 95 % interval: {interval.of}.",
        width="content",
    )
    st.metric(
        "Noise floor",
        percent(floor.mean),
        delta=f"95 % of sets below {percent(floor.q95)}",
        delta_color="off",
        delta_arrow="off",
        help="The ECE that a perfectly calibrated model with these confidences would show by chance.",
        width="content",
    )

left, right = st.columns(2)
with left:
    st.subheader("Reliability")
    table = reliability(judged.confidence, judged.correct, bins)
    curve = Curve(table, "vanilla", "model as it is", noise.band.low, noise.band.high)
    show.chart(reliability_diagram([curve], **look), "reliability")
    st.caption(
        f"{len(data.test):,} test samples. Shaded: 95 % bootstrap band of each bin's accuracy. "
        "Below the diagonal the model is too confident."
    )
with right:
    st.subheader("Without bins")
    show.chart(
        smooth_reliability(
            {"vanilla": (judged.confidence, judged.correct)}, labels={"vanilla": "model as it is"}, **look
        ),
        "smooth",
    )
    st.caption("Accuracy smoothed over confidence; the width of the kernel is the error itself (SmoothECE).")

left, right = st.columns(2)
with left:
    st.subheader("Confidence")
    show.chart(confidence_histogram(judged, bins, **look), "confidence-histogram")
with right:
    st.subheader("Margin")
    show.chart(margin_histogram(judged, **look), "margin-histogram")
    st.caption("Largest minus second largest logit: what SMART reads.")

details = st.expander("Every metric, with interval and floor", key="every-metric-box", on_change="rerun")
if details.open:
    figures = cached.headline(data, bins)
    rows = []
    for name in HEADLINE:
        ends = figures.intervals[name]
        rows.append(
            {
                "metric": METRICS[name].label,
                "value": metric_value(name, figures.values[name]),
                "95 % interval": f"{metric_value(name, ends.low)} – {metric_value(name, ends.high)}",
                "floor, 95 % of sets below": (
                    metric_value(name, figures.floors[name].q95) if name in figures.floors else ""
                ),
                "what it is": METRICS[name].help,
            }
        )
    details.dataframe(rows, hide_index=True, key="every-metric")

show.python(
    library.load_code()
    + f"""
model = sc.Vanilla().fit(data.validation.logits, data.validation.labels)
judged = sc.evaluate(model, data.test, bins={bins})
interval = sc.metrics.interval("ece", judged.confidence, judged.correct, bins={bins})
floor = sc.metrics.noise_floor("ece", judged.confidence, bins={bins})
print(judged.metric("ece", {bins}), (interval.low, interval.high), floor.q95)
"""
)
