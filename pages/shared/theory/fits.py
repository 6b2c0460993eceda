"""The fits that the theory page uses: Vanilla and TS at once, and whatever the session has fitted."""

from __future__ import annotations

import numpy as np
import streamlit as st

import smart_core as sc
from pages.shared import cache, leaderboard, session
from smart_core import LogitSet
from smart_core.calibrators import TemperatureCalibrator
from smart_core.device import one_thread
from smart_core.theory.nll_probe import LocalTerms, local_terms


@st.cache_resource(max_entries=8, show_spinner="Fitting one temperature", scope="session")
def ts_fit(content_hash: str, _data: LogitSet) -> tuple[sc.TS, sc.Evaluation]:
    """Fit temperature scaling and evaluate it on test; this is quick enough to need no job."""
    with one_thread():
        fitted = sc.TS().fit(_data.validation.logits, _data.validation.labels)
        return fitted, sc.evaluate(fitted, _data.test, classwise=False)


def evaluations(data: LogitSet) -> dict[str, sc.Evaluation]:
    """Return the test evaluation of Vanilla, TS, and the first seed of the methods selected on Compare or of SMART."""
    found = {"vanilla": cache.uncalibrated(data), "ts": ts_fit(data.content_hash, data)[1]}
    fitted, chosen = leaderboard.fitted(data), session.selected() or ["smart"]
    return found | {id: fitted[id].evaluations[0] for id in fitted if id in chosen and id not in found}


def temperature_maps(data: LogitSet) -> dict[str, TemperatureCalibrator]:
    """Return the fitted methods that divide by a temperature, by id; TS is the first."""
    found: dict[str, TemperatureCalibrator] = {"ts": ts_fit(data.content_hash, data)[0], "vanilla": cache.vanilla(data)}
    for id, result in leaderboard.fitted(data).items():
        first = result.calibrators[0]
        if id not in found and isinstance(first, TemperatureCalibrator):
            found[id] = first
    return found


def local_terms_of(data: LogitSet, part: str, fitted: TemperatureCalibrator) -> tuple[LocalTerms, np.ndarray]:
    """Return what the derivatives need of each sample of a part, and its temperatures."""
    return _local_terms_of(data.content_hash, cache.fit_id(fitted), part, data, fitted)


@st.cache_resource(max_entries=16, show_spinner="Reading the logits", scope="session")
def _local_terms_of(
    content_hash: str, fit: str, part: str, _data: LogitSet, _fitted: TemperatureCalibrator
) -> tuple[LocalTerms, np.ndarray]:
    rows = _data.validation if part == "validation" else _data.test
    t = np.asarray(_fitted.temperatures(rows.logits), dtype=np.float64)
    return local_terms(rows.logits, rows.labels, t), t
