"""Cached engine calls, keyed by a SHA-256 of their inputs.

Streamlit hashes only a sample of a large array, so every array is passed as an `_underscore` argument beside its hash.
Results are cached per session, but for one that every new session needs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import streamlit as st

import smart_core as sc
from pages.shared import session, workspaces
from pages.shared.components import plain_text
from smart_core import figures
from smart_core.analysis.diagnosis import Diagnosis, diagnose
from smart_core.analysis.hardness import Hardness
from smart_core.analysis.hardness import hardness as compute_hardness
from smart_core.analysis.margin_groups import ConfidenceChange, MarginGroup, equal_groups, with_intervals
from smart_core.analysis.margin_groups import after_temperature_scaling as compute_after_temperature_scaling
from smart_core.analysis.margin_groups import confidence_change as compute_confidence_change
from smart_core.analysis.margin_groups import margin_groups as compute_margin_groups
from smart_core.analysis.slices import Slice, columns_of
from smart_core.analysis.slices import slices as compute_slices
from smart_core.analysis.temperature_curve import TemperatureCurve
from smart_core.analysis.temperature_curve import temperature_curve as compute_temperature_curve
from smart_core.calibrators.base import Calibrator
from smart_core.data.grouping import partition
from smart_core.data.lazy.rows import LazyPart
from smart_core.data.logitset import Array
from smart_core.device import one_thread
from smart_core.experiments.method_result import MethodResult, evaluate_method
from smart_core.experiments.model_pair import ModelPair, compare_models
from smart_core.experiments.streaming import evaluate_one
from smart_core.figures.chart import Chart
from smart_core.formatting import plural
from smart_core.metrics.bands import Band, accuracy_band
from smart_core.metrics.confidence_cells import SUMS_FROM_SAMPLES
from smart_core.progress import Run

EVALUATING = "evaluation"
"""Kind of the job that evaluates the model on shards."""


def vanilla(data: sc.LogitSet) -> sc.Vanilla:
    """Return the calibrator that changes nothing. Its fit needs no data."""
    return sc.Vanilla().fit_part(data.validation.subset(np.arange(min(2, len(data.validation)))))


def uncalibrated(data: sc.LogitSet) -> sc.Evaluation:
    """Evaluate the uncalibrated model on test, without the slower classwise sums."""
    known = session.current().uncalibrated
    found = known.get(data.content_hash)
    if found is None and isinstance(data.test, LazyPart):
        _wait_for_rows(data)
    if found is None:
        # while jobs keep all cores busy, threads that wait for each other are many times slower than one
        with st.spinner("Evaluating the model"), one_thread():
            found = sc.evaluate(vanilla(data), data.test, classwise=False)
        known.set_unsaved(data.content_hash, found)
        # of more samples, it is computed again when they are opened
        if workspaces.is_saved() and len(found) < SUMS_FROM_SAMPLES:
            known.save()
    return found


def _wait_for_rows(data: sc.LogitSet) -> NoReturn:
    """Say that a job evaluates the model on the rows of the shards, and start it; the page is drawn when it ends."""
    here = session.current()
    job = here.jobs.latest(EVALUATING, data.content_hash)
    known = here.uncalibrated  # the job must not reference the session itself
    if job is not None and not job.active:
        st.error(plain_text(job.error or "Evaluating the model was cancelled."))
        if not st.button("Evaluate the model", key="evaluate-model"):
            st.stop()
    if here.original is None and (job is None or not job.active):

        def work(run: Run) -> None:
            known.set_unsaved(data.content_hash, evaluate_one(vanilla(data), data.test, classwise=False, run=run))

        here.jobs.start("Evaluate the model", work, kind=EVALUATING, data_hash=data.content_hash)
        st.rerun()  # the sidebar is drawn before the page, and polls only once it has a job
    shards = len(data.test.rows.shards) if isinstance(data.test, LazyPart) else 0
    st.info(f"Every row of {plural(shards, 'shard')} is being read. The page appears when that is done.")
    st.stop()


def diagnosis(evaluation: sc.Evaluation, bins: int) -> Diagnosis:
    """Diagnose the ECE of an evaluation: its noise floor, its interval, and the verdict."""
    return _diagnosis(digest(evaluation), bins, evaluation)


@st.cache_data(max_entries=64, show_spinner="Computing the intervals", scope="session")
def _diagnosis(content_hash: str, bins: int, _evaluation: sc.Evaluation) -> Diagnosis:
    return diagnose(_evaluation, bins)


def reliability_band(evaluation: sc.Evaluation, bins: int) -> Band:
    """Compute the band of the reliability diagram."""
    return _reliability_band(digest(evaluation), bins, evaluation)


@st.cache_data(max_entries=64, show_spinner="Computing the band", scope="session")
def _reliability_band(content_hash: str, bins: int, _evaluation: sc.Evaluation) -> Band:
    table = _evaluation.reliability(bins)
    return accuracy_band(np.nan_to_num(table.accuracy) * table.count, table.count)


def model_pair(first: sc.LogitSet, second: sc.LogitSet, method: str, bins: int) -> ModelPair:
    """Compare two models on the test samples that they share."""
    return _model_pair(first.content_hash, second.content_hash, method, bins, first, second)


@st.cache_resource(max_entries=8, show_spinner="Comparing the two models", scope="session")
def _model_pair(
    first_hash: str, second_hash: str, method: str, bins: int, _first: sc.LogitSet, _second: sc.LogitSet
) -> ModelPair:
    with one_thread():
        return compare_models(_first, _second, method, bins=bins)


def headline(data: sc.LogitSet, bins: int) -> MethodResult:
    """Compute every headline metric of the uncalibrated model with its interval and noise floor."""
    return _headline(data.content_hash, bins, data)


@st.cache_data(max_entries=32, show_spinner="Computing every metric", scope="session")
def _headline(content_hash: str, bins: int, _data: sc.LogitSet) -> MethodResult:
    with one_thread():
        row = evaluate_method("vanilla", _data, 1, bins=bins)
    return replace(row, calibrators=[], evaluations=[])


def digest(evaluation: sc.Evaluation) -> str:
    """Return the SHA-256 of confidences and correctness, computed once for an evaluation."""
    known: str = vars(evaluation).get("_digest", "")
    if not known:
        found = hashlib.sha256(np.ascontiguousarray(evaluation.confidence).data)
        found.update(np.ascontiguousarray(evaluation.correct).data)
        known = vars(evaluation)["_digest"] = found.hexdigest()
    return known


def smooth_reliability(evaluation: sc.Evaluation, method: str, label: str, look: dict[str, Any]) -> Chart:
    """Draw the reliability without bins; it depends on no control."""
    return _smooth_reliability(digest(evaluation), method, label, str(look), evaluation, look)


@st.cache_resource(max_entries=16, show_spinner="Smoothing", scope="session")
def _smooth_reliability(
    content_hash: str, method: str, label: str, looks: str, _evaluation: sc.Evaluation, _look: dict[str, Any]
) -> Chart:
    samples = {method: (_evaluation.confidence, _evaluation.correct)}
    return figures.smooth_reliability(samples, labels={method: label}, **_look)


def margin_histogram(evaluation: sc.Evaluation, look: dict[str, Any]) -> Chart:
    """Draw the histogram of the margins; it depends on no control."""
    return _margin_histogram(digest(evaluation), str(look), evaluation, look)


@st.cache_resource(max_entries=16, show_spinner=False, scope="session")
def _margin_histogram(content_hash: str, looks: str, _evaluation: sc.Evaluation, _look: dict[str, Any]) -> Chart:
    return figures.margin_histogram(_evaluation, **_look)


def margin_edges(evaluation: sc.Evaluation, groups: int) -> list[float]:
    """Return the margins between groups of equal size."""
    return _margin_edges(digest(evaluation), groups, evaluation)


@st.cache_data(max_entries=64, show_spinner=False, scope="session")
def _margin_edges(content_hash: str, groups: int, _evaluation: sc.Evaluation) -> list[float]:
    return equal_groups(_evaluation, groups).tolist()


def confidence_change(before: sc.Evaluation, after: sc.Evaluation) -> ConfidenceChange:
    """Compute the change of the confidence along the margin."""
    return _confidence_change(digest(before), digest(after), before, after)


@st.cache_resource(max_entries=64, show_spinner=False, scope="session")
def _confidence_change(
    before_hash: str, after_hash: str, _before: sc.Evaluation, _after: sc.Evaluation
) -> ConfidenceChange:
    return compute_confidence_change(_before, _after)


def margin_groups(data: sc.LogitSet, evaluation: sc.Evaluation, edges: Sequence[float], bins: int) -> list[MarginGroup]:
    """Compute the margin groups of a fit on test."""
    return _margin_groups(f"{data.content_hash} {digest(evaluation)}", tuple(edges), bins, evaluation)


@st.cache_resource(max_entries=64, show_spinner=False, scope="session")
def _margin_groups(
    content_hash: str, edges: tuple[float, ...], bins: int, _evaluation: sc.Evaluation
) -> list[MarginGroup]:
    return compute_margin_groups(_evaluation, edges, bins)


def after_temperature_scaling(data: sc.LogitSet, bins: int) -> list[MarginGroup]:
    """Compute the margin groups that temperature scaling leaves on test."""
    return _after_temperature_scaling(data.content_hash, bins, data)


# for all sessions: Start shows it of the sample that every new session opens with
@st.cache_resource(max_entries=32, show_spinner=False)
def _after_temperature_scaling(content_hash: str, bins: int, _data: sc.LogitSet) -> list[MarginGroup]:
    with one_thread():
        return compute_after_temperature_scaling(_data.validation, _data.test, bins)


def slices(data: sc.LogitSet, evaluation: sc.Evaluation, column: str, values: Array, bins: int) -> list[Slice]:
    """Compute the slices of a fit on test by a column of the data set."""
    return _slices(f"{data.content_hash} {digest(evaluation)}", column, bins, evaluation, values)


@st.cache_resource(max_entries=64, show_spinner="Computing the slices", scope="session")
def _slices(content_hash: str, column: str, bins: int, _evaluation: sc.Evaluation, _values: Array) -> list[Slice]:
    return compute_slices(_evaluation, _values, bins, _groups(content_hash.partition(" ")[0], column, _values))


@st.cache_resource(max_entries=8, show_spinner="Grouping the samples", scope="session")
def _groups(content_hash: str, column: str, _values: Array) -> dict[str, Any]:
    return partition(_values)


def columns(data: sc.LogitSet) -> dict[str, Array]:
    """Return the columns that the test part can be sliced by."""
    return _columns(data.content_hash, data)


@st.cache_resource(max_entries=4, show_spinner=False, scope="session")
def _columns(content_hash: str, _data: sc.LogitSet) -> dict[str, Array]:
    return columns_of(_data.test, _data.class_names)


def group_intervals(
    data: sc.LogitSet, evaluation: sc.Evaluation, edges: Sequence[float], bins: int
) -> list[MarginGroup]:
    """Compute the margin groups with the interval of each group's ECE."""
    return _group_intervals(f"{data.content_hash} {digest(evaluation)}", tuple(edges), bins, evaluation)


@st.cache_resource(max_entries=64, show_spinner="Computing the intervals", scope="session")
def _group_intervals(
    content_hash: str, edges: tuple[float, ...], bins: int, _evaluation: sc.Evaluation
) -> list[MarginGroup]:
    return with_intervals(_evaluation, _margin_groups(content_hash, edges, bins, _evaluation), bins)


def fit_id(calibrator: Calibrator) -> str:
    """Identify a fit on known data: it follows from the method and its settings, which include the seed."""
    return f"{calibrator.id} {calibrator.settings_dict()}"


def temperature_curve(data: sc.LogitSet, calibrators: Sequence[Calibrator], indicator: str) -> TemperatureCurve:
    """Compute the temperature curve of fits on the validation part of `data`."""
    return _temperature_curve(
        data.content_hash, str([fit_id(each) for each in calibrators]), indicator, data, calibrators
    )


@st.cache_resource(max_entries=64, show_spinner="Computing the temperatures", scope="session")
def _temperature_curve(
    content_hash: str, fits: str, indicator: str, _data: sc.LogitSet, _calibrators: Sequence[Calibrator]
) -> TemperatureCurve:
    return compute_temperature_curve(_calibrators, _data.test, indicator, validation=_data.validation)


def hardness(data: sc.LogitSet, indicator: str, attacked: Any = None) -> Hardness:
    """Correlate an indicator with the C&W distances of test; `attacked` tells a failed attack from none."""
    distances = np.asarray(data.test.cw_l2).tobytes() + np.asarray(attacked).tobytes()
    return _hardness(f"{data.content_hash} {hashlib.sha256(distances).hexdigest()}", indicator, data, attacked)


@st.cache_resource(max_entries=32, show_spinner="Computing the correlation", scope="session")
def _hardness(content_hash: str, indicator: str, _data: sc.LogitSet, _attacked: Any) -> Hardness:
    return compute_hardness(_data.test, indicator, attacked=_attacked)
