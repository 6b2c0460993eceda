"""Export: download the calibrator, its results, and the whole session."""

from __future__ import annotations

import streamlit as st

from pages.shared import (
    cache,
    calibrator_files,
    chosen_on_test,
    datasets,
    downloads,
    leaderboard,
    navigation,
    session,
    studies,
    workspace,
)
from pages.shared.components import empty_state, plain_text, python_code
from smart_core import LogitSet
from smart_core.calibrators import methods
from smart_core.calibrators.base import Calibrator
from smart_core.evaluation import MEASURED_AND_TRUE, METRICS, metric_range
from smart_core.experiments import Comparison, MethodResult
from smart_core.experiments.sensitivity import Sensitivity
from smart_core.export import comparison_csv, comparison_json, comparison_latex
from smart_core.formatting import percent
from smart_core.report import Findings, report_html
from smart_core.report.reproduce import compare_code

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
            format_func=lambda id: methods()[id].label,
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
    st.caption(
        f"{bins} bins. Measured {percent(after.ece, 2)}, noise floor {percent(after.floor.q95, 2)}; true, 95\u00a0%: "
        f"{metric_range('ece', after.interval.low, after.interval.high)}\u00a0%.",
        help=MEASURED_AND_TRUE,
    )
    row = leaderboard.row(data, result.id)
    if row is not None and leaderboard.is_stale(row):
        st.warning("The settings on Compare have changed since this fit. Refit it there to use the new ones.")


def probability_files(data: LogitSet, calibrator: Calibrator) -> None:
    """Draw the downloads of the calibrated probabilities of the test part."""
    name = downloads.file_stem(datasets.current_title(), calibrator.id, "probabilities")
    full = st.toggle(
        "All classes",
        data.classes <= FEW_CLASSES,
        key="export-full",
        persist_state="session",
        help="If off: the predicted class, its confidence, the label, and whether the prediction is correct.",
    )
    with st.container(horizontal=True):
        for form in ("npz", "csv"):
            content = downloads.probabilities(calibrator, data.test, form, full)
            downloads.button(f"Download {form}", content, f"{name}.{form}", f"export-probabilities-{form}")


def table_files(ranking: Comparison) -> None:
    """Draw the downloads of the leaderboard."""
    names = ", ".join(methods()[id].label for id in ranking.results)
    st.caption(f"{names}. Ties by the primary metric, {METRICS[ranking.metric].label}.")
    name = downloads.file_stem(datasets.current_title(), "metrics")
    with st.container(horizontal=True):
        downloads.button("Download CSV", lambda: comparison_csv(ranking).encode(), f"{name}.csv", "export-metrics-csv")
        downloads.button(
            "Download JSON", lambda: comparison_json(ranking).encode(), f"{name}.json", "export-metrics-json"
        )
        downloads.button(
            "Download LaTeX",
            lambda: comparison_latex(ranking, methods="rows").encode(),
            f"{name}.tex",
            "export-metrics-latex",
        )
        downloads.button(
            "Download LaTeX, methods as columns",
            lambda: comparison_latex(ranking, methods="columns", metrics=[ranking.metric]).encode(),
            f"{name}-across.tex",
            "export-metrics-latex-across",
            help="The paper's layout: one row for the data set, one column per method.",
        )


def report_file(ranking: Comparison, bins: int) -> None:
    """Draw the download of the report on everything that is fitted."""
    results, title = ranking.results, datasets.current_title()
    seeds = max(row.seeds for id, row in leaderboard.rows(ranking.data).items() if id in results)
    settings = {id: leaderboard.chosen_settings(id) for id in results}
    code = compare_code(datasets.load_code(), list(results), seeds, bins, ranking.metric, settings)
    found = Findings(ranking, bins, sensitivity_grid(ranking.data, bins), title, code)
    st.caption(
        "Verdict, leaderboard, reliability by margin group, temperature curve and settings: one HTML file of about 5 "
        "MB that opens offline and prints. Each figure can be saved as SVG, PNG, CSV and JSON."
    )
    name = f"{downloads.file_stem(title, 'report')}.html"
    downloads.button("Download report", lambda: report_html(found).encode(), name, "export-report")


def sensitivity_grid(data: LogitSet, bins: int) -> Sensitivity | None:
    """Return the latest sensitivity grid of this data set, if it is complete and uses these bins."""
    study = studies.find(data, "sensitivity")
    if study is None or not isinstance(study.result, Sensitivity):
        return None
    return study.result if study.result.complete and study.settings.get("bins") == bins else None


data, bins = datasets.current(), session.bins()
fitted = leaderboard.fitted(data)
st.title("Export")
st.markdown("Download the calibrator, its results, or the whole session.")
# before anything is fitted, the code is that of the fit that the page offers
method, settings = "smart", leaderboard.chosen_settings("smart")
if not fitted:
    if leaderboard.active_job(data) is not None:
        st.info("Fitting. The downloads appear when the fit has finished.")
    elif empty_state(
        f"Nothing is fitted on {plain_text(datasets.current_title())} yet, so there is no calibrator to download.",
        "Fit SMART",
        "export-fit",
        shortcut="Ctrl+Enter",
    ):
        leaderboard.fit(data, ["smart"], bins=bins)
        st.rerun()
else:
    metric = session.metric()
    leaders = leaderboard.fresh(data, seeds=st.session_state.get(session.SEEDS), bins=bins) or fitted
    proposed = leaderboard.recommended(leaderboard.ranking(data, leaders, metric, bins))
    method, index = choose_fit(data, fitted, proposed)
    chosen_on_test.warn(data)
    show_verdict(data, fitted[method], index, bins)
    calibrator = fitted[method].calibrators[index]
    defaults = {item.name: item.default for item in calibrator.settings()} | {"device": calibrator.device}
    settings = {name: value for name, value in calibrator.settings_dict().items() if value != defaults[name]}
    calibrator_files.draw(calibrator)
    st.subheader("Calibrated probabilities of the test part")
    probability_files(data, calibrator)
    st.subheader("All fitted methods")
    fresh = leaderboard.fresh(data, bins=bins)
    if fresh:
        ranking = leaderboard.ranking(data, fresh, metric, bins)
        table_files(ranking)
        st.subheader("Report")
        report_file(ranking, bins)
    else:
        st.caption("All fits were made with other settings or bins. Refit on Compare.")
st.subheader("Workspace")
left, right = st.columns(2)
with left:
    workspace.draw_save()
with right:
    workspace.draw_restore("export-restore")
given = "".join(f", {name}={value!r}" for name, value in settings.items())
part = "data.validation"
python_code(
    f"""
calibrator = sc.calibrators.get("{method}"{given})
calibrator.fit({part}.logits, {part}.labels, features={part}.features, head=data.head)
print("ECE", sc.evaluate(calibrator, data.test, bins={bins}).metric("ece", {bins}))
calibrator.save("{downloads.file_stem(datasets.current_title(), method)}.safetensors")
"""
)
