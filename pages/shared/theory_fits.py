"""The fits that the theory page looks at: Vanilla and TS at once, and whatever the session has fitted."""

from __future__ import annotations

import numpy as np
import streamlit as st

import smart_core as sc
from pages.shared import board
from pages.shared.cached import uncalibrated
from smart_core import LogitSet
from smart_core.calibrators import Calibrator, TemperatureCalibrator
from smart_core.device import one_thread
from smart_core.theory.nll_probe import LocalTerms, local_terms


@st.cache_resource(max_entries=8, show_spinner="Fitting one temperature", scope="session")
def ts_fit(content_hash: str, _data: LogitSet) -> tuple[sc.TS, sc.Evaluation]:
    """Temperature scaling and its test evaluation: quick enough to be there at once."""
    with one_thread():
        fitted = sc.TS().fit(_data.validation.logits, _data.validation.labels)
        return fitted, sc.evaluate(fitted, _data.test, classwise=False)


def evaluations(data: LogitSet) -> dict[str, sc.Evaluation]:
    """Vanilla and TS always, and the first seed of every method fitted in this session."""
    found = {"vanilla": uncalibrated(data), "ts": ts_fit(data.content_hash, data)[1]}
    return found | {id: board.evaluation(data, id) for id in board.fitted(data) if id not in found}


def temperature_maps(data: LogitSet) -> dict[str, TemperatureCalibrator]:
    """The methods that divide by a temperature and are fitted here, by id; TS first."""
    found: dict[str, TemperatureCalibrator] = {"ts": ts_fit(data.content_hash, data)[0], "vanilla": _as_it_is(data)}
    for id in board.fitted(data):
        first = board.calibrators(data, id)[0]
        if id not in found and isinstance(first, TemperatureCalibrator):
            found[id] = first
    return found


def _as_it_is(data: LogitSet) -> TemperatureCalibrator:
    return sc.Vanilla().fit(data.validation.logits[:2], data.validation.labels[:2])


def name_of(fitted: Calibrator) -> str:
    """A fit follows from the data and its settings, the seed among them."""
    return f"{fitted.id} {fitted.settings_dict()}"


def terms_of(data: LogitSet, side: str, fitted: TemperatureCalibrator) -> tuple[LocalTerms, np.ndarray]:
    """What the derivatives need of each sample of a part, and its temperatures."""
    return _terms_of(data.content_hash, name_of(fitted), side, data, fitted)


@st.cache_resource(max_entries=16, show_spinner="Reading the logits", scope="session")
def _terms_of(
    content_hash: str, fit: str, side: str, _data: LogitSet, _fitted: TemperatureCalibrator
) -> tuple[LocalTerms, np.ndarray]:
    part = getattr(_data, side)
    t = np.asarray(_fitted.temperatures(part.logits), dtype=np.float64)
    return local_terms(part.logits, part.labels, t), t
