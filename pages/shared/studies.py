"""Studies as jobs: a study publishes partial results while it runs, and is kept with the settings it was run with."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import streamlit as st

from pages.shared import cache, leaderboard, quick_fit, session
from pages.shared.components import plain_text
from pages.shared.jobs import Job
from pages.shared.session import Study as Study
from pages.shared.session import study_key
from smart_core import LogitSet
from smart_core.calibrators.base import Calibrator
from smart_core.evaluation import metric_value
from smart_core.experiments import SeedTable, Traces
from smart_core.experiments.traces import DEFAULT_OBJECTIVES
from smart_core.progress import Run

Settings = dict[str, Any]
Publish = Callable[[Any], None]
Compute = Callable[[Run, Publish], None]

ON_INDICATOR = "smart on"
"""Beginning of the kind of a study that fits SMART on an indicator."""

RESUMABLE = (
    *("sensitivity", "objectives", "indicators", "efficiency", "traces", "shift", "attack", "playground"),
    ON_INDICATOR,
)
"""Beginnings of the kinds of studies that can be resumed after the server was stopped."""


def is_resumable(kind: str) -> bool:
    """Return whether a study of this kind can be resumed after the server was stopped."""
    return kind.startswith(RESUMABLE)


GREY = "<style>[class*='st-key-stale-'] { opacity: 0.45; }</style>"


def start(
    data: LogitSet,
    kind: str,
    title: str,
    compute: Compute,
    settings: Settings,
    estimate: float | None = None,
    key: str | None = None,
) -> Job:
    """Start a study; `compute(run, publish)` publishes its result whenever more of it is finished.

    `estimate` is the time in seconds that the page has promised beside the button, and `key` that of the data set if it
    is not the selected one.
    """
    here = session.current()
    here.datasets.save()
    studies, place = here.studies, _key(data, kind, settings)  # the job must not reference the session itself

    def publish(result: Any) -> None:
        # the study keeps writing into its result, and the page needs one that does not change
        studies[place] = Study(copy.deepcopy(result), settings, time.time())

    note = {"data": key or session.data_key(), "settings": settings} if is_resumable(kind) else None
    named: dict[str, Any] = {"kind": kind, "data_hash": data.content_hash, "note": note}
    return here.jobs.start(title, lambda run: compute(run, publish), estimate=estimate, **named)


def unfinished(data: LogitSet, kind: str, settings: Settings) -> Any:
    """Return the result of a study with these settings that was cancelled or interrupted; None if there is none."""
    study = session.current().studies.get(_key(data, kind, settings))
    result = None if study is None else study.result
    finished = isinstance(result, SeedTable) and result.full
    return None if finished or (isinstance(result, Traces) and len(result.runs) == len(DEFAULT_OBJECTIVES)) else result


def find(data: LogitSet, kind: str, settings: Settings | None = None) -> Study | None:
    """Return the study with these settings; if there is none, or while one runs, the latest of its kind."""
    studies = session.current().studies
    if settings is not None and not running(data, kind):
        exact = studies.get(_key(data, kind, settings))
        if exact is not None and _about(exact.result, data):
            return exact
    prefix = study_key(data, f"{kind} {{")
    same_kind = [studies[key] for key in studies if key.startswith(prefix)]
    same_kind = [study for study in same_kind if _about(study.result, data)]
    return max(same_kind, key=lambda study: study.published, default=None)


def _about(result: Any, data: LogitSet) -> bool:
    """Return whether the sizes of a result, which may come from a workspace, are those of a data set."""
    parts = result if isinstance(result, list | tuple) else ()
    return all(
        part.classes_ == data.classes if isinstance(part, Calibrator) else len(part) == len(data.test) for part in parts
    )


def running(data: LogitSet, kind: str) -> bool:
    """Return whether a study of this kind is being computed."""
    return session.current().jobs.active(kind, data.content_hash) is not None


@contextmanager
def grey_if_stale(study: Study, data: LogitSet, kind: str, settings: Settings) -> Iterator[None]:
    """Draw a study; if it was run with other settings than the chosen ones, grey it out and say so."""
    changed = [name for name, value in settings.items() if _json(study.settings.get(name)) != _json(value)]
    stale = bool(changed) and not running(data, kind)
    if stale:
        used = "; ".join(f"{name} = {_listed(study.settings.get(name))}" for name in changed)
        st.warning(f"Settings changed: run again. These results were computed with {plain_text(used)}.")
        st.html(GREY)
    with st.container(key=f"{'stale' if stale else 'fresh'}-{kind}"):
        yield


def noise_floor(data: LogitSet, metric: str, bins: int) -> float | None:
    """Return the noise floor of the metric with SMART on this test set; None if it is not known."""
    row = leaderboard.row(data, "smart")
    if row is not None and row.bins == bins and metric in row.result.floor:
        return row.result.floor[metric].q95
    if metric == "ece" and (fit := quick_fit.find(data)) is not None:
        return cache.diagnosis(fit[2], bins).floor.q95
    return None


def noise_note(data: LogitSet, metric: str, bins: int) -> str:
    """Return a sentence on the noise floor of the metric on this test set; empty if the floor is not known."""
    floor = noise_floor(data, metric, bins)
    if floor is None:
        return ""
    return (
        f"A perfectly calibrated model reaches up to {metric_value(metric, floor)} by chance on these "
        f"{len(data.test):,} test samples (95%), so differences of that size may be noise."
    )


def _key(data: LogitSet, kind: str, settings: Settings) -> str:
    return study_key(data, f"{kind} {_json(settings)}")


def _json(value: Any) -> str:
    """Return settings as text, the same for a tuple as for the list that a workspace makes of it."""
    return json.dumps(value, sort_keys=True)


def _listed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
