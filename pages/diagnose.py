"""Diagnose: is the model's confidence trustworthy?"""

from __future__ import annotations

from typing import Any

import streamlit as st

from pages.shared import cache, charts, datasets, model_pairs, navigation, session, slices
from pages.shared.components import plain_text, python_code
from pages.shared.glossary import note, say
from smart_core.evaluation import FURTHER, HEADLINE, MEASURED_AND_TRUE, METRICS, TRUE_RANGE, metric_range, metric_value
from smart_core.figures import (
    Curve,
    confidence_histogram,
    reliability_diagram,
)
from smart_core.formatting import percent

navigation.enter()

UNCALIBRATED = "uncalibrated model"

bins = session.bins()
data = datasets.current()
evaluation = cache.uncalibrated(data)
diagnosis, band = cache.diagnosis(evaluation, bins), cache.reliability_band(evaluation, bins)
interval, floor = diagnosis.interval, diagnosis.floor
look = charts.look(data)

st.title("Diagnose")
say("Can you trust the confidence of the uncalibrated model?")
st.markdown(f"#### {diagnosis.words}")
for notice in data.notices:
    st.info(plain_text(notice.text))

with st.container(horizontal=True, gap="medium"):
    st.metric("Accuracy", percent(diagnosis.accuracy), width="content")
    st.metric("Mean confidence", percent(diagnosis.confidence), width="content")
    common: dict[str, Any] = {"help": MEASURED_AND_TRUE, "width": "content"}
    st.metric(f"ECE, measured, {bins} bins", metric_value("ece", diagnosis.ece), **common)
    st.metric("Noise floor", metric_value("ece", floor.q95), **common)
    st.metric(f"ECE, {TRUE_RANGE}", metric_range("ece", interval.low, interval.high), **common)

left, right = st.columns(2)
with left:
    st.subheader("Reliability")
    table = evaluation.reliability(bins)
    curve = Curve(table, "vanilla", UNCALIBRATED, band.low, band.high)
    charts.show(reliability_diagram([curve], **look), "reliability")
    note(
        f"{len(data.test):,} test samples. Shaded: 95% bootstrap band of each bin's accuracy. "
        "Below the diagonal, the model is overconfident."
    )
with right:
    st.subheader("Reliability without bins")
    charts.show(cache.smooth_reliability(evaluation, "vanilla", UNCALIBRATED, look), "smooth")
    note("Accuracy smoothed over confidence, by a kernel as wide as the calibration error (SmoothECE) but at most 5%.")

left, right = st.columns(2)
with left:
    st.subheader("Confidence")
    charts.show(confidence_histogram(evaluation, bins, **look), "confidence-histogram")
with right:
    st.subheader("Margin")
    if evaluation.margin is None:
        note("The margin needs logits; this data set holds confidences alone.")
    else:
        charts.show(cache.margin_histogram(evaluation, look), "margin-histogram")
        note("The largest logit minus the second largest: the input of SMART.")

model_pairs.offer()
slices.draw(data, evaluation, bins)

details = st.expander("All metrics", key="every-metric-box", on_change="rerun")
if details.open:
    found = cache.headline(data, bins)
    rows = [
        {
            "metric": METRICS[name].label,
            "measured": metric_value(name, found.mean(name)),
            "noise floor": metric_value(name, found.floor_q95(name)) if name in found.floor else "",
            TRUE_RANGE: metric_range(name, *found.ends(name)),
            "meaning": METRICS[name].help,
        }
        for name in HEADLINE
    ]
    rows += [
        {"metric": item.label, "measured": metric_value(name, found.mean(name)), "meaning": f"{item.help} No interval."}
        for name, item in FURTHER.items()
    ]
    columns = {name: st.column_config.TextColumn(help=MEASURED_AND_TRUE) for name in list(rows[0])[1:4]}
    details.dataframe(rows, hide_index=True, column_config=columns, key="every-metric")

python_code(
    f"""
model = sc.Vanilla().fit_part(data.validation)
evaluation = sc.evaluate(model, data.test, bins={bins})
interval = sc.metrics.interval("ece", evaluation, bins={bins})
floor = sc.metrics.noise_floor("ece", evaluation, bins={bins})
print(evaluation.metric("ece", {bins}), (interval.low, interval.high), floor.q95)
"""
)
