"""Temperature curve: which temperature has each margin been given?"""

from __future__ import annotations

import numpy as np
import streamlit as st

from pages.shared import board, library, measured, routing, show, state, studies
from pages.shared.desk import desk
from pages.shared.wording import plain_text
from smart_core import LogitSet
from smart_core.analysis.temperature_curve import TemperatureCurve
from smart_core.calibrators.base import Calibrator
from smart_core.experiments.running import fit_method
from smart_core.figures import temperature_chart
from smart_core.formatting import join_words, plural
from smart_core.indicators import INDICATORS
from smart_core.progress import Run

routing.enter()

MOST_SETS = 4
NAMES = [name for name in INDICATORS if name != "all_logits"]
MADE_WITH = {"seeds": board.SEEDS}


def on_board(indicator: str) -> bool:
    """Whether the SMART of the Compare page is the one that reads this indicator."""
    return bool(board.chosen_settings("smart").get("indicator", "margin") == indicator)


def kind(indicator: str) -> str:
    """Under which name SMART on an indicator is kept where the Compare page has another."""
    return f"smart on {indicator}"


def begin(data: LogitSet, indicator: str, bins: int) -> None:
    """Fit what is missing: the Compare page's TS and SMART, or SMART on an indicator of its own, seed by seed."""
    if on_board(indicator):
        board.fit(data, ["ts", "smart"], bins=bins)
        return

    def compute(run: Run, publish: studies.Publish) -> None:
        fitted: list[Calibrator] = []
        for seed in range(board.SEEDS):
            part = run.part(seed / board.SEEDS, (seed + 1) / board.SEEDS)
            fitted.append(fit_method("smart", data, seed=seed, settings={"indicator": indicator}, run=part).calibrator)
            publish(fitted)

    label = INDICATORS[indicator].label.lower()
    studies.start(data, kind(indicator), f"Fit SMART on the {label}", compute, MADE_WITH)


def fitted(data: LogitSet, indicator: str) -> list[Calibrator]:
    """SMART reading the indicator, one a seed; empty where it was not fitted."""
    found = board.fitted(data).get("smart")
    if found is not None and found.calibrators[0].settings_dict()["indicator"] == indicator:
        return found.calibrators
    study = studies.found(data, kind(indicator))
    return list(study.result) if study is not None else []


def under_way(data: LogitSet, indicator: str) -> bool:
    """Whether the fit that the curve waits for is running."""
    return studies.running(data, "compare") or studies.running(data, kind(indicator))


def changed(data: LogitSet, indicator: str) -> bool:
    """Whether SMART's settings were changed after the fit that is drawn."""
    row = board.row(data, "smart")
    return row is not None and row.result.available and on_board(indicator) and board.stale(row)


def one_temperature(data: LogitSet) -> float | None:
    """What temperature scaling chose, if it was fitted."""
    found = board.fitted(data).get("ts")
    if found is None:
        return None
    return float(np.asarray(found.calibrators[0].temperatures(data.test.logits[:1]))[0])  # type: ignore[attr-defined]


def verdict(curve: TemperatureCurve, ts: float | None) -> str:
    """What the curve does, in a sentence."""
    known = curve.mean[curve.supported]
    span = f"SMART divides by {known.min():.2f} to {known.max():.2f}"
    compared = f", where temperature scaling divides every sample by {ts:.2f}" if ts is not None else ""
    if not np.isfinite(curve.r):
        return f"{span}{compared}."
    label = INDICATORS[curve.indicator].label.lower()
    low, high = np.nanmin(curve.pearson), np.nanmax(curve.pearson)
    seeds = f" ({low:.2f} to {high:.2f} over {len(curve.pearson)} seeds)" if len(curve.pearson) > 1 else ""
    return f"{span}{compared}; Pearson's r between {label} and temperature is {curve.r:.2f}{seeds}."


def shaded(curves: int) -> str:
    """What the chart shades; the outer 1 % only where there is one curve, and so one validation set."""
    fainter = "; fainter: the outer 1 % of validation at either end" if curves == 1 else ""
    return f"Shaded: beyond every validation sample, where the map is a guess{fainter}."


def outside(samples: int) -> str:
    """How many test samples have a temperature that is a guess."""
    return f"{plural(samples, 'test sample')} {'lies' if samples == 1 else 'lie'} outside the range of validation."


bins: int = st.session_state[state.BINS]
data = library.current()
st.title("Temperature curve")
st.markdown("Which temperature does SMART give each sample? The map it has learned on validation, read on test.")

names = library.titles(desk())
with st.container(horizontal=True, vertical_alignment="bottom"):
    indicator = st.selectbox(
        "Against",
        NAMES,
        format_func=lambda name: INDICATORS[name].label,
        key="indicator",
        bind="query-params",
        persist_state="session",
        width=200,
        help="What SMART reads. The paper's choice is the margin; another indicator needs a fit of its own.",
    )
    more = st.multiselect(
        "Compare with",
        [key for key in names if key != library.current_key()],
        format_func=lambda key: names[key],
        max_selections=MOST_SETS - 1,
        key="curve-sets",
        bind="query-params",
        persist_state="session",
        width=420,
        help="Up to three other data sets, each with its own fit.",
    )
sets = {names[key]: library.named(key) for key in (library.current_key(), *more)}
missing = {name: each for name, each in sets.items() if not fitted(each, indicator)}
idle = {name: each for name, each in missing.items() if not under_way(each, indicator)}
label = INDICATORS[indicator].label.lower()
if idle:
    words = f"SMART on the {label} is not fitted yet on {plain_text(join_words(list(idle)))}."
    action = "Fit TS and SMART" if on_board(indicator) else f"Fit SMART on the {label}"
    if show.empty(words, action, "fit-curve", shortcut="Ctrl+Enter"):
        for each in idle.values():
            begin(each, indicator, bins)
        st.rerun()
elif missing:
    st.info("A fit is under way; the curve appears when it is finished.")

old = [each for each in sets.values() if changed(each, indicator) and not under_way(each, indicator)]
if old:
    st.warning("SMART's settings changed after this fit: refit.")
    if st.button("Refit SMART", key="refit-curve"):
        for each in old:
            begin(each, indicator, bins)
        st.rerun()

curves = {
    name: measured.curve(each, fitted(each, indicator), indicator) for name, each in sets.items() if name not in missing
}
if curves:
    ts = {name: found for name in curves if (found := one_temperature(sets[name])) is not None}
    first = next(iter(curves))
    whose = f"{plain_text(first)}: " if len(sets) > 1 else ""
    st.markdown(f"##### {whose}{verdict(curves[first], ts.get(first))}")
    revision = f"{data.content_hash} {indicator}"
    show.chart(temperature_chart(curves, ts or None, dark=show.dark(), uirevision=revision), "temperature")
    st.caption(
        f"Band: range over seeds. Below: where the test samples lie. {shaded(len(curves))} For the margin "
        "the paper finds r = 0.94 on ImageNet with ResNet-50, and a U with r = −0.63 with ViT-B/16."
    )
    for name, curve in curves.items():
        if curve.outside:
            st.caption(f"{plain_text(name)}: {outside(curve.outside)}")

show.python(
    library.load_code()
    + f"""
from smart_core.analysis.temperature_curve import temperature_curve

smart = [
    sc.SMART(seed=seed, indicator="{indicator}").fit(data.validation.logits, data.validation.labels)
    for seed in range({board.SEEDS})
]
curve = temperature_curve(smart, data.test, "{indicator}", validation=data.validation)
print(curve.r, curve.x[:5], curve.mean[:5], curve.std[:5])
"""
)
