"""Export: download the calibrator, its results, and the whole session."""

from __future__ import annotations

import streamlit as st

from pages.shared import (
    cache,
    calibrator_files,
    chosen_on_test,
    datasets,
    downloads,
    estimates,
    leaderboard,
    navigation,
    quick_fit,
    recommendation,
    result_files,
    session,
    workspace,
    workspace_list,
    workspaces,
)
from pages.shared.components import empty_state, plain_text, python_code
from pages.shared.glossary import note, say
from pages.shared.urls import DEFAULT_SEEDS
from smart_core import LogitSet
from smart_core.calibrators import method_named
from smart_core.calibrators.base import Calibrator
from smart_core.evaluation import MEASURED_AND_TRUE, metric_range
from smart_core.experiments import MethodResult
from smart_core.formatting import percent

navigation.enter()

FEW_CLASSES = 100
"""Up to this many classes, the file of all probabilities has a handy size."""


def choose_fit(data: LogitSet, fitted: dict[str, MethodResult], recommended: str) -> tuple[str, int]:
    """Ask for a method, the recommended one by default, and a seed; return the method and the index of the seed."""
    state = st.session_state
    proposal = (data.content_hash, recommended)
    if state.get(session.EXPORT_PROPOSED) != proposal or state.get(session.EXPORT_METHOD) not in fitted:
        state[session.EXPORT_PROPOSED], state[session.EXPORT_METHOD] = proposal, recommended
    with st.container(horizontal=True):
        method = st.selectbox(
            "Method",
            list(fitted),
            format_func=lambda id: method_named(id).label,
            key=session.EXPORT_METHOD,
            persist_state="session",
            help="The methods fitted on this data set and split. The recommended one is preselected.",
        )
        seeds = [calibrator.seed for calibrator in fitted[method].calibrators]
        index = st.selectbox(
            "Seed",
            range(len(seeds)),
            format_func=lambda number: str(seeds[number]),
            key=f"export-seed-{method}",
            persist_state="session",
            help="A method without random initial weights has only one fit.",
        )
    return method, index


def show_verdict(data: LogitSet, result: MethodResult, index: int, bins: int) -> None:
    """Compare the ECE of the chosen fit with that of the uncalibrated model."""
    before, after = (cache.diagnosis(each, bins) for each in (cache.uncalibrated(data), result.evaluations[index]))
    st.markdown(
        f"#### {result.label} has an ECE of {percent(after.ece, 2)} on {len(data.test):,} test samples; the "
        f"uncalibrated model has {percent(before.ece, 2)}."
    )
    note(
        f"{bins} bins. Measured {percent(after.ece, 2)}, noise floor {percent(after.floor.q95, 2)}; true, 95%: "
        f"{metric_range('ece', after.interval.low, after.interval.high)}.",
        help=MEASURED_AND_TRUE,
    )
    row = leaderboard.row(data, result.id)
    if row is not None and leaderboard.is_stale(row):
        st.warning("The settings on Compare have changed since this fit. Refit it there to use the new ones.")


def probability_files(data: LogitSet, calibrator: Calibrator) -> None:
    """Draw the downloads of the calibrated probabilities of the test part."""
    name = downloads.file_stem(datasets.current_title(), calibrator.id, "probabilities")
    # the probabilities of all classes would tell the logits up to a constant of each row
    full = (
        data.kind == "logits"
        and not workspaces.is_read_only()
        and st.toggle(
            "All classes",
            data.classes <= FEW_CLASSES,
            key="export-full",
            persist_state="session",
            help="If off: the predicted class, its confidence, the label, and whether the prediction is correct.",
        )
    )
    with st.container(horizontal=True):
        for form in ("npz", "csv"):
            content = downloads.probabilities(calibrator, data.test, form, full)
            downloads.button(f"Download {form}", content, f"{name}.{form}", f"export-probabilities-{form}")


data, bins = datasets.current(), session.bins()
fitted = leaderboard.fitted(data)
st.title("Export")
say("Download the calibrator, its results, or the whole session.")
# before anything is fitted, the code is that of the fit that the page offers
method = quick_fit.method(data)
settings = leaderboard.chosen_settings(method)
if not fitted:
    if leaderboard.active_job(data) is not None:
        st.info("Fitting. The downloads appear when the fit has finished.")
    elif empty_state(
        f"Nothing is fitted on {plain_text(datasets.current_title())} yet, so there is no calibrator to download.",
        f"Fit {method_named(method).label}",
        "export-fit",
        shortcut="Ctrl+Enter",
        takes=estimates.rows_text(data, [method], DEFAULT_SEEDS),
    ):
        leaderboard.fit(data, [method], bins=bins)
        st.rerun()
else:
    metric = session.metric()
    leaders = leaderboard.fresh(data, seeds=st.session_state.get(session.SEEDS), bins=bins) or fitted
    ranking = leaderboard.ranking(data, leaders, metric, bins)
    method, index = choose_fit(data, fitted, leaderboard.recommended(ranking))
    recommendation.brief(ranking)
    chosen_on_test.warn(data)
    show_verdict(data, fitted[method], index, bins)
    calibrator = fitted[method].calibrators[index]
    defaults = {item.name: item.default for item in calibrator.settings()} | {"device": calibrator.device}
    settings = {name: value for name, value in calibrator.settings_dict().items() if value != defaults[name]}
    calibrator_files.draw(calibrator)
    st.subheader(f"Calibrated {'probabilities' if data.kind == 'logits' else 'confidences'} of the test part")
    probability_files(data, calibrator)
    st.subheader("All fitted methods")
    fresh = leaderboard.fresh(data, bins=bins)
    if fresh:
        everything = leaderboard.ranking(data, fresh, metric, bins)
        result_files.tables(everything)
        st.subheader("Report")
        result_files.report(everything, bins)
    else:
        note("All fits were made with other settings or bins. Refit on Compare.")
st.subheader("Workspace")
left, right = st.columns(2)
with left:
    workspace.draw_save()
with right:
    workspace.draw_restore("export-restore")
workspace_list.draw()
given = "".join(f", {name}={value!r}" for name, value in settings.items())
python_code(
    f"""
calibrator = sc.calibrators.get("{method}"{given})
calibrator.fit_part(data.validation, head=data.head)
print("ECE", sc.evaluate(calibrator, data.test, bins={bins}).metric("ece", {bins}))
calibrator.save("{downloads.file_stem(datasets.current_title(), method)}.safetensors")
"""
)
