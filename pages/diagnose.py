"""Diagnose: can this model's confidence be trusted?"""

from __future__ import annotations

import numpy as np
import streamlit as st

from pages.shared import cached, routing, state
from pages.shared.wording import percent, verdict
from smart_core.figures import Curve, reliability_diagram
from smart_core.metrics import ece, reliability

routing.enter()

bins = st.session_state[state.BINS]
data = cached.sample("digits")
judged = cached.uncalibrated(data)
noise = cached.ece_noise(data, bins)
interval, floor = noise.interval, noise.floor
error = ece(judged.confidence, judged.correct, bins)
confidence, accuracy = float(np.mean(judged.confidence)), float(np.mean(judged.correct))

st.title("Diagnose")
st.markdown(f"#### {verdict(error, floor.q95, confidence, accuracy, len(judged))}")
for notice in data.notices:
    st.info(notice.text)

with st.container(horizontal=True, gap="large"):
    st.metric("Accuracy", percent(accuracy), width="content")
    st.metric("Mean confidence", percent(confidence), width="content")
    st.metric(
        f"ECE, {bins} bins",
        percent(error),
        delta=f"{percent(interval.low)} – {percent(interval.high)}",
        delta_color="off",
        delta_arrow="off",
        help=f"Below it, the {interval.level:.0%} interval: {interval.of}.",
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

table = reliability(judged.confidence, judged.correct, bins)
st.plotly_chart(
    reliability_diagram(
        [Curve(table, "vanilla", "model as it is", noise.band.low, noise.band.high)],
        dark=st.context.theme.type == "dark",
        uirevision=data.content_hash,
    ),
    theme=None,
    key="reliability",
    config={"displaylogo": False},
    alt="Reliability diagram: accuracy against confidence in bins, with the number of samples in each bin.",
)
st.caption(
    f"Fitted on {len(data.validation):,} samples, judged on {len(data.test):,}. Shaded: 95 % bootstrap band "
    "of each bin's accuracy. Below the diagonal the model is too confident."
)
