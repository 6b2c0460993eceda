"""Diagnose: is the model's confidence trustworthy?"""

from __future__ import annotations

import streamlit as st

from pages.shared import cache, charts, datasets, navigation, session
from pages.shared.components import plain_text, python_code
from smart_core.evaluation import HEADLINE, METRICS, metric_value
from smart_core.figures import (
    Curve,
    confidence_histogram,
    margin_histogram,
    reliability_diagram,
    smooth_reliability,
)
from smart_core.formatting import percent
from smart_core.metrics import reliability

navigation.enter()

UNCALIBRATED = "uncalibrated model"

bins = session.bins()
data = datasets.current()
evaluation = cache.uncalibrated(data)
diagnosis, band = cache.diagnosis(evaluation, bins), cache.reliability_band(evaluation, bins)
interval, floor = diagnosis.interval, diagnosis.floor
look = charts.look(data)

st.title("Diagnose")
st.markdown("Can you trust the confidence of the uncalibrated model?")
st.markdown(f"#### {diagnosis.words}")
for notice in data.notices:
    st.info(plain_text(notice.text))

with st.container(horizontal=True, gap="large"):
    st.metric("Accuracy", percent(diagnosis.accuracy), width="content")
    st.metric("Mean confidence", percent(diagnosis.confidence), width="content")
    st.metric(
        f"ECE, {bins} bins",
        percent(diagnosis.ece),
        delta=f"{percent(interval.low)} – {percent(interval.high)}",
        delta_color="off",
        delta_arrow="off",
        help=f"Below the value: its 95\u00a0% interval, {interval.of}.",
        width="content",
    )
    st.metric(
        "Noise floor",
        percent(floor.mean),
        delta=f"95 % of test sets below {percent(floor.q95)}",
        delta_color="off",
        delta_arrow="off",
        help="The ECE that a perfectly calibrated model with these confidences has by chance.",
        width="content",
    )

left, right = st.columns(2)
with left:
    st.subheader("Reliability")
    table = reliability(evaluation.confidence, evaluation.correct, bins)
    curve = Curve(table, "vanilla", UNCALIBRATED, band.low, band.high)
    charts.show(reliability_diagram([curve], **look), "reliability")
    st.caption(
        f"{len(data.test):,} test samples. Shaded: 95\u00a0% bootstrap band of each bin's accuracy. "
        "Below the diagonal, the model is overconfident."
    )
with right:
    st.subheader("Reliability without bins")
    curves = {"vanilla": (evaluation.confidence, evaluation.correct)}
    charts.show(smooth_reliability(curves, labels={"vanilla": UNCALIBRATED}, **look), "smooth")
    st.caption("Accuracy smoothed over confidence. The kernel's bandwidth equals the calibration error (SmoothECE).")

left, right = st.columns(2)
with left:
    st.subheader("Confidence")
    charts.show(confidence_histogram(evaluation, bins, **look), "confidence-histogram")
with right:
    st.subheader("Margin")
    charts.show(margin_histogram(evaluation, **look), "margin-histogram")
    st.caption("The largest logit minus the second largest: the input of SMART.")

details = st.expander("All metrics with intervals and noise floors", key="every-metric-box", on_change="rerun")
if details.open:
    found = cache.headline(data, bins)
    rows = [
        {
            "metric": METRICS[name].label,
            "value": metric_value(name, found.mean(name)),
            "95 % interval": " – ".join(metric_value(name, end) for end in found.ends(name)),
            "noise floor (95 %)": metric_value(name, found.floor_q95(name)) if name in found.floor else "",
            "meaning": METRICS[name].help,
        }
        for name in HEADLINE
    ]
    details.dataframe(rows, hide_index=True, key="every-metric")

python_code(
    f"""
model = sc.Vanilla().fit(data.validation.logits, data.validation.labels)
evaluation = sc.evaluate(model, data.test, bins={bins})
interval = sc.metrics.interval("ece", evaluation, bins={bins})
floor = sc.metrics.noise_floor("ece", evaluation, bins={bins})
print(evaluation.metric("ece", {bins}), (interval.low, interval.high), floor.q95)
"""
)
