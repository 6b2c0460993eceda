"""Temperature curve: which temperature does SMART give each margin?"""

from __future__ import annotations

import numpy as np
import streamlit as st

from pages.shared import (
    cache,
    charts,
    chosen_on_test,
    datasets,
    estimates,
    leaderboard,
    navigation,
    resume,
    session,
    studies,
)
from pages.shared.components import IN_URL, empty_state, plain_text, python_code
from pages.shared.glossary import note, say
from pages.shared.urls import DEFAULT_SEEDS
from pages.shared.verdicts import outside_note, temperature_verdict
from smart_core import LogitSet
from smart_core.analysis.temperature_curve import TemperatureCurve
from smart_core.calibrators import Calibrator, TemperatureCalibrator
from smart_core.experiments.running import fit_method
from smart_core.figures import temperature_chart
from smart_core.fitting.indicators import INDICATORS
from smart_core.formatting import join_words
from smart_core.progress import Run

navigation.enter()

MAX_SETS = 4
NAMES = [name for name in INDICATORS if name != "all_logits"]


def on_compare(indicator: str) -> bool:
    """Return whether SMART on the Compare page reads this indicator."""
    return bool(leaderboard.chosen_settings("smart").get("indicator", "margin") == indicator)


def kind(indicator: str) -> str:
    """Return the kind of the study that fits SMART on an indicator, if Compare uses another one."""
    return f"{studies.ON_INDICATOR} {indicator}"


def fit(key: str, indicator: str, bins: int) -> None:
    """Fit TS and SMART of the Compare page, or SMART on another indicator, seed by seed."""
    data, settings = datasets.get(key), {"seeds": DEFAULT_SEEDS}
    if on_compare(indicator):
        leaderboard.fit(data, ["ts", "smart"], bins=bins, key=key)
        return
    known = studies.unfinished(data, kind(indicator), settings) or []

    def compute(run: Run, publish: studies.Publish) -> None:
        fits: list[Calibrator] = list(known) if len(known) < DEFAULT_SEEDS else []
        for seed, part in run.each(range(len(fits), DEFAULT_SEEDS)):
            fits.append(fit_method("smart", data, seed=seed, settings={"indicator": indicator}, run=part).calibrator)
            publish(fits)

    label = INDICATORS[indicator].label.lower()
    estimate = fit_seconds(data, indicator)
    studies.start(data, kind(indicator), f"Fit SMART on the {label}", compute, settings, estimate, key)


def fit_seconds(data: LogitSet, indicator: str) -> float:
    """Return the estimated seconds of `fit`."""
    if on_compare(indicator):
        return sum(map(sum, estimates.rows(data, ["ts", "smart"], DEFAULT_SEEDS)))
    return estimates.fits(data, "smart", DEFAULT_SEEDS, settings={"indicator": indicator})


def fits_of(data: LogitSet, indicator: str) -> list[Calibrator]:
    """Return SMART fitted on the indicator, one calibrator per seed; empty if it was not fitted."""
    result = leaderboard.fitted(data).get("smart")
    if result is not None and result.calibrators[0].settings_dict()["indicator"] == indicator:
        return result.calibrators
    study = studies.find(data, kind(indicator))
    return list(study.result) if study is not None else []


def fitting(data: LogitSet, indicator: str) -> bool:
    """Return whether the fit of the curve is running."""
    return leaderboard.active_job(data) is not None or studies.running(data, kind(indicator))


def stale(data: LogitSet, indicator: str) -> bool:
    """Return whether SMART's settings were changed after the fit."""
    row = leaderboard.row(data, "smart")
    return row is not None and row.result.available and on_compare(indicator) and leaderboard.is_stale(row)


def ts_temperature(data: LogitSet) -> float | None:
    """Return the temperature of temperature scaling, if it was fitted."""
    result = leaderboard.fitted(data).get("ts")
    if result is None or not isinstance(result.calibrators[0], TemperatureCalibrator):
        return None
    return float(np.asarray(result.calibrators[0].temperatures(data.test.logits[:1]))[0])


def selected_curves(data: LogitSet, indicator: str) -> dict[str, TemperatureCurve]:
    """Return the curves of the other methods that are selected on Compare and have a temperature per sample."""
    fitted = leaderboard.fitted(data)
    varying = [id for id in session.selected() if id in fitted and id not in ("vanilla", "ts", "smart")]
    rows = [fitted[id] for id in varying if isinstance(fitted[id].calibrators[0], TemperatureCalibrator)]
    return {row.label: cache.temperature_curve(data, row.calibrators, indicator) for row in rows[: MAX_SETS - 1]}


bins, data = session.bins(), datasets.current()
st.title("Temperature curve")
say("Which temperature does SMART give each sample?")

titles = datasets.titles()
if (asked := resume.asked_kind()).startswith(studies.ON_INDICATOR):
    st.session_state["indicator"] = asked.removeprefix(f"{studies.ON_INDICATOR} ")
with st.container(horizontal=True, vertical_alignment="bottom"):
    indicator = st.selectbox(
        "Indicator",
        NAMES,
        format_func=lambda name: INDICATORS[name].label,
        key="indicator",
        **IN_URL,
        width=200,
        help="The input of SMART. The paper uses the margin; another indicator needs its own fit.",
    )
    more = st.multiselect(
        "Compare with",
        [key for key in titles if key != datasets.current_key()],
        format_func=lambda key: titles[key],
        max_selections=MAX_SETS - 1,
        key="curve-sets",
        **IN_URL,
        width=420,
        help="Up to three other data sets, each with its own fit.",
    )
resume.study(kind(indicator), lambda _: fit(datasets.current_key(), indicator, bins))
keys = {titles[key]: key for key in (datasets.current_key(), *more)}
sets = {title: datasets.get(key) for title, key in keys.items()}
missing = {title: each for title, each in sets.items() if not fits_of(each, indicator)}
idle = {title: each for title, each in missing.items() if not fitting(each, indicator)}
label = INDICATORS[indicator].label.lower()
if idle:
    text = f"SMART on the {label} is not fitted yet on {plain_text(join_words(list(idle)))}."
    action = "Fit TS and SMART" if on_compare(indicator) else f"Fit SMART on the {label}"
    takes = estimates.about(sum(fit_seconds(each, indicator) for each in idle.values()))
    if empty_state(text, action, "fit-curve", shortcut="Ctrl+Enter", takes=takes):
        for title in idle:
            fit(keys[title], indicator, bins)
        st.rerun()
elif missing:
    st.info("Fitting. The curve appears when the fit has finished.")

old = [keys[title] for title, each in sets.items() if stale(each, indicator) and not fitting(each, indicator)]
if old:
    st.warning("SMART's settings changed after this fit.")
    if st.button("Refit SMART", key="refit-curve"):
        for key in old:
            fit(key, indicator, bins)
        st.rerun()

chosen_on_test.warn(data)
fits = {title: fits_of(sets[title], indicator) for title in sets if title not in missing}
curves = {title: cache.temperature_curve(sets[title], fits[title], indicator) for title in fits}
if curves:
    ts = {title: found for title in curves if (found := ts_temperature(sets[title])) is not None}
    first = next(iter(curves))
    whose = f"{plain_text(first)}: " if len(sets) > 1 else ""
    st.markdown(f"##### {whose}{temperature_verdict(curves[first], ts.get(first))}")
    if len(sets) == 1:
        methods = {"SMART": curves[first], **selected_curves(data, indicator)}
        chart = temperature_chart(methods, ts.get(first), **charts.look(data, indicator))
    else:
        chart = temperature_chart(curves, ts or None, **charts.look(data, indicator))
    charts.show(chart, "temperature")
    # only with one curve is there one validation set, and so one outer 1%
    lighter = " Light shading: below the 1st or above the 99th percentile of validation." if len(curves) == 1 else ""
    note(
        "Band: range over seeds. Histogram: the test samples. Dark shading: outside the validation range, where the "
        f"map extrapolates.{lighter} With the margin as indicator, the paper reports r = 0.94 for ResNet-50 on "
        "ImageNet, and a U shape with r = −0.63 for ViT-B/16."
    )
    for title, curve in curves.items():
        if curve.outside:
            note(f"{plain_text(title)}: {outside_note(curve.outside)}")

python_code(
    f"""
from smart_core.analysis.temperature_curve import temperature_curve

smart = [
    sc.SMART(seed=seed, indicator="{indicator}").fit(data.validation.logits, data.validation.labels)
    for seed in range({DEFAULT_SEEDS})
]
curve = temperature_curve(smart, data.test, "{indicator}", validation=data.validation)
print(curve.r, curve.x[:5], curve.mean[:5], curve.std[:5])
"""
)
