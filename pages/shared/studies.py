"""Studies as jobs: started once, filling as they go, kept with what they were made with."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import streamlit as st

from pages.shared import board, cached
from pages.shared.desk import desk, study_key
from pages.shared.jobs import Job
from pages.shared.wording import plain_text
from smart_core import Evaluation, LogitSet, evaluate
from smart_core.experiments.method_result import bounded, fit_key
from smart_core.experiments.running import fit_method
from smart_core.formatting import duration, metric_value, plural
from smart_core.progress import Run

Publish = Callable[[Any], None]
Compute = Callable[[Run, Publish], None]

TIMING = "timing"
GREY = "<style>[class*='st-key-stale-'] { opacity: 0.45; }</style>"


@dataclass(frozen=True, eq=False)
class Study:
    """A result, whole or still filling, and the settings it was made with."""

    result: Any
    made_with: dict[str, Any]
    when: float = 0.0
    """Seconds of the clock, to tell the newest."""


def start(data: LogitSet, kind: str, title: str, compute: Compute, made_with: dict[str, Any]) -> Job:
    """Begin a study. `compute(run, publish)` publishes its result whenever there is more of it."""
    here = desk()
    studies, key = here.studies, _key(data, kind, made_with)

    def publish(result: Any) -> None:
        # a study goes on writing into its tables; the page reads a copy in which a cell is finished or empty
        studies[key] = Study(copy.deepcopy(result), made_with, time.time())

    return here.tray.start(title, lambda run: compute(run, publish), kind=kind, about=data.content_hash)


def found(data: LogitSet, kind: str, made_with: dict[str, Any] | None = None) -> Study | None:
    """The study made with these settings; the newest of its kind where there is none, or while one is running."""
    studies = desk().studies
    if made_with is not None and not running(data, kind):
        exact: Study | None = studies.get(_key(data, kind, made_with))
        if exact is not None:
            return exact
    beginning = study_key(data, f"{kind} {{")
    alike = [study for key, study in studies.items() if key.startswith(beginning)]
    return max(alike, key=lambda study: study.when, default=None)


def running(data: LogitSet, kind: str) -> bool:
    """Whether one is being computed."""
    return desk().tray.active(kind, data.content_hash) is not None


@contextmanager
def shown(study: Study, data: LogitSet, kind: str, now: dict[str, Any]) -> Iterator[None]:
    """Where a study is drawn: greyed, and said in words, if it was made with other settings than those asked for."""
    changed = [name for name, value in now.items() if _written(study.made_with.get(name)) != _written(value)]
    stale = bool(changed) and not running(data, kind)
    if stale:
        then = "; ".join(f"{name} {_listed(study.made_with.get(name))}" for name in changed)
        st.warning(f"Settings changed: run again. What is shown was made with {plain_text(then)}.")
        st.html(GREY)
    with st.container(key=f"{'stale' if stale else 'fresh'}-{kind}"):
        yield


def fit_seconds(data: LogitSet) -> float | None:
    """How long one fit of SMART takes here: as it did on Compare, or timed in the background; None until known.

    The fit that is timed is SMART's first seed at its defaults, and Compare finds it done.
    """
    row = board.row(data, "smart")
    if row is not None and row.result.available:
        return row.result.fit_seconds
    here = desk()
    fits, key = here.fits, _first_fit(data)
    known = fits.get(key)
    if known is not None:
        return known[1]

    def work(run: Run) -> None:
        fit = fit_method("smart", data, run=run.part(0.0, 0.9))
        fits[key] = (
            fit.calibrator,
            fit.seconds,
            bounded(evaluate(fit.calibrator, data.test, run=run.part(0.9, 1.0)), 0),
        )

    if here.tray.latest(TIMING, data.content_hash) is None:
        here.tray.start("Time one fit of SMART", work, kind=TIMING, about=data.content_hash)
        st.rerun()  # the tray is drawn before the page, and looks again by itself only once it holds a job
    return None


def estimate(fits: int, seconds: float | None, trained: int | None = None) -> str:
    """What a study will cost, before it is started; only `trained` of the fits, if given, take the time of SMART's."""
    many = plural(fits, "fit")
    if seconds is None:
        return f"{many}; one is being timed."
    return f"{many}, about {duration((fits if trained is None else trained) * seconds)} here."


def chance(data: LogitSet, metric: str, bins: int) -> str:
    """What noise alone makes of the metric on this test set, as a sentence; empty where that is not known."""
    row = board.row(data, "smart")
    if row is not None and row.bins == bins and metric in row.result.floor:
        floor = row.result.floor[metric].q95
    elif metric == "ece" and (judged := _first_evaluation(data)) is not None:
        floor = cached.fit_noise(judged, bins).floor.q95
    else:
        return ""
    return (
        f"On these {len(data.test):,} test samples chance alone gives a perfectly calibrated model up to "
        f"{metric_value(metric, floor)} (95\u00a0%): differences of that size may be noise."
    )


def _first_fit(data: LogitSet) -> str:
    return fit_key(data, "smart", {"device": "auto"}, 0)


def _first_evaluation(data: LogitSet) -> Evaluation | None:
    known = desk().fits.get(_first_fit(data))
    return None if known is None else known[2]


def _key(data: LogitSet, kind: str, made_with: dict[str, Any]) -> str:
    return study_key(data, f"{kind} {_written(made_with)}")


def _written(value: Any) -> str:
    """Settings as text: the same for a tuple and the list that a workspace makes of it."""
    return json.dumps(value, sort_keys=True)


def _listed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
