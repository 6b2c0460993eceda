"""One fit with default settings and the first seed: what a page shows before anything is fitted on Compare.

Compare finds it in the session's cache of fits and does not fit it again.
"""

from __future__ import annotations

import streamlit as st

from pages.shared import datasets, session
from smart_core import Evaluation, LogitSet, evaluate
from smart_core.calibrators import methods
from smart_core.calibrators.base import Calibrator
from smart_core.device import one_thread
from smart_core.experiments.method_result import FitCache, bounded, fit_key
from smart_core.experiments.running import fit_method, unavailable
from smart_core.progress import Run

METHODS = ("smart", "isotonic")
"""The first that can run on the data set is fitted: confidences alone have no margin."""

KIND = "quick fit"
"""Kind of its job."""

Fit = tuple[Calibrator, float, Evaluation]
"""The calibrator, the seconds its fit took, and its evaluation on test."""


def find(data: LogitSet) -> Fit | None:
    """Return the fit; of a sample at once, of other data when the job that this starts has finished."""
    here, fit = session.current(), known(data)
    if fit is None and datasets.is_sample(data):
        fit = _fit_of_sample(data.content_hash, data)
        here.fits.hold(_key(data), fit)  # a visit alone is not worth a saved workspace
    if fit is None and here.original is None and here.jobs.latest(KIND, data.content_hash) is None:
        fits = here.fits  # the job must not reference the session itself
        here.jobs.start(
            f"Fit {methods()[method(data)].label} once",
            lambda run: _fit(data, fits, run),
            kind=KIND,
            data_hash=data.content_hash,
        )
        st.rerun()  # the sidebar is drawn before the page, and polls only once it has a job
    return fit


def method(data: LogitSet) -> str:
    """Return the method of the fit."""
    return next(id for id in METHODS if unavailable(id, data) is None)


def known(data: LogitSet) -> Fit | None:
    """Return the fit, if it was made before."""
    return session.current().fits.get(_key(data))


def _key(data: LogitSet) -> str:
    return fit_key(data, method(data), {"device": "auto"}, 0)


def _fit(data: LogitSet, fits: FitCache, run: Run) -> None:
    fit = fit_method(method(data), data, run=run.part(0.0, 0.9))
    evaluation = evaluate(fit.calibrator, data.test, run=run.part(0.9, 1.0))
    fits[_key(data)] = (fit.calibrator, fit.seconds, bounded(evaluation, 0))


@st.cache_resource(max_entries=16, show_spinner="Fitting")
def _fit_of_sample(content_hash: str, _data: LogitSet) -> Fit:
    """Fit a bundled sample, once for all sessions of the server."""
    fits: FitCache = {}
    with one_thread():
        _fit(_data, fits, Run())
    return fits[_key(_data)]
