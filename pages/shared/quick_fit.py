"""One fit with default settings and the first seed: what a page shows before anything is fitted on Compare.

Compare finds it in the session's cache of fits and does not fit it again.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future

import streamlit as st

from pages.shared import datasets, session
from smart_core import Evaluation, LogitSet
from smart_core.calibrators import methods
from smart_core.calibrators.base import Calibrator
from smart_core.device import one_thread
from smart_core.experiments.method_result import FitCache, fit_key, trimmed_for_cache
from smart_core.experiments.running import fit_method, unavailable
from smart_core.experiments.streaming import evaluate_one
from smart_core.progress import Run

METHODS = ("smart", "isotonic")
"""The first that can run on the data set is fitted: confidences alone have no margin."""

KIND = "quick fit"
"""Kind of its job."""

PATIENCE = 0.3
"""Seconds that a page waits for the fit of a sample before it is drawn without it."""

POLL_SECONDS = 0.3
"""Seconds between two checks of whether the fit of a sample is finished."""

Fit = tuple[Calibrator, float, Evaluation]
"""The calibrator, the seconds its fit took, and its evaluation on test."""


_of_samples: dict[str, Future[Fit]] = {}
"""Content hash of a bundled sample -> its fit, made once for all sessions of the server."""
_lock = threading.Lock()


def find(data: LogitSet) -> Fit | None:
    """Return the fit, or start it and return None; the page is drawn again when it is there.

    Other data than samples are fitted in a job, which the sidebar waits for.
    """
    here, fit = session.current(), known(data)
    if fit is None and datasets.is_sample(data):
        future = _fit_of_sample(data)
        try:
            fit = future.result(PATIENCE)
        except TimeoutError:
            st.fragment(_draw_again, run_every=POLL_SECONDS)(future)
            return None
        here.fits.set_unsaved(_key(data), fit)  # a visit alone is not worth a saved workspace
    if fit is None and here.original is None and here.jobs.latest(KIND, data.content_hash) is None:
        fits = here.fits  # the job must not reference the session itself
        here.jobs.start(
            f"First fit of {methods()[method(data)].label}",
            lambda run: _fit(data, fits, run),
            kind=KIND,
            data_hash=data.content_hash,
        )
        st.rerun()  # the sidebar is drawn before the page, and polls only once it has a job
    return fit


def _draw_again(future: Future[Fit]) -> None:
    if future.done():
        st.rerun()


def method(data: LogitSet) -> str:
    """Return the method of the fit."""
    return next(id for id in METHODS if unavailable(id, data) is None)


def known(data: LogitSet) -> Fit | None:
    """Return the fit, if it was made before."""
    return session.current().fits.get(_key(data))


def _key(data: LogitSet) -> str:
    return fit_key(data, method(data), {"device": "auto"}, 0)


def _fit(data: LogitSet, fits: FitCache, run: Run) -> None:
    fit = fit_method(method(data), data, run=run.part(0.0, 0.5))
    classwise = data.test.in_memory  # shards of many classes have no room for it
    evaluation = evaluate_one(fit.calibrator, data.test, classwise=classwise, run=run.part(0.5, 1.0))
    fits[_key(data)] = (fit.calibrator, fit.seconds, trimmed_for_cache(evaluation, 0))


def _fit_of_sample(data: LogitSet) -> Future[Fit]:
    with _lock:
        future = _of_samples.get(data.content_hash)
        if future is None or (future.done() and future.exception() is not None):
            future = _of_samples[data.content_hash] = Future()
            threading.Thread(target=_fit_into, args=(future, data), name="fit of a sample", daemon=True).start()
        return future


def _fit_into(future: Future[Fit], data: LogitSet) -> None:
    fits: FitCache = {}
    try:
        with one_thread():
            _fit(data, fits, Run())
        future.set_result(fits[fit_key(data, method(data), {"device": "auto"}, 0)])
    except BaseException as error:  # the page that waits for it says what went wrong
        future.set_exception(error)
