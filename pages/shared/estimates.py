"""Estimates beside run buttons, from a measurement of this machine under its present load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from pages.shared import session
from smart_core import LogitSet
from smart_core.experiments.cost import BATCHED, evaluation_seconds, fit_seconds
from smart_core.experiments.estimate import machine_factor, row_seconds
from smart_core.experiments.method_result import fit_key
from smart_core.experiments.running import seeds_for
from smart_core.fitting.indicators import INDICATORS
from smart_core.fitting.objectives import OBJECTIVES
from smart_core.formatting import duration, plural

MEASURED_FOR = 20
"""Seconds for which a measurement of the machine counts."""


@st.cache_data(ttl=MEASURED_FOR, max_entries=1, show_spinner=False)
def _factor() -> float:
    return machine_factor()


def here(reference_seconds: float) -> float:
    """Return the estimated seconds of what takes this long on the reference machine."""
    return reference_seconds * _factor()


def rows(data: LogitSet, methods: Sequence[str], seeds: int) -> tuple[list[float], list[float]]:
    """Return the estimated seconds of leaderboard rows: their point values, and their intervals."""
    own = session.current()
    found = []
    for id in methods:
        settings = {"device": "auto", **own.settings.get(id, {})}
        cached = sum(fit_key(data, id, settings, seed) in own.fits for seed in seeds_for(id, seeds))
        found.append([here(seconds) for seconds in row_seconds(id, data, seeds, cached=cached)])
    values, intervals = (list(column) for column in zip(*found, strict=True))
    return values, intervals


def rows_text(data: LogitSet, methods: Sequence[str], seeds: int) -> str:
    """Return the estimate of rows as text: `about 12 s`."""
    return about(sum(map(sum, rows(data, methods, seeds)))) if methods else ""


def fits(
    data: LogitSet,
    id: str,
    number: int,
    *,
    samples: int | None = None,
    targets: Sequence[int] = (),
    settings: Mapping[str, Any] | None = None,
) -> float:
    """Return the estimated seconds of fits of a method, each evaluated on test or on targets of these sizes.

    SMART is fitted in batches where it is fitted and evaluated on the parts of the data set.
    """
    size = len(data.validation) if samples is None else samples
    evaluations = sum(evaluation_seconds(id, data, each) for each in targets or [len(data.test)])
    batched = BATCHED if id == "smart" and not (samples or targets or settings) else 1.0
    return here(number * batched * (fit_seconds(id, size, data.classes, settings) + evaluations))


def objectives(data: LogitSet, seeds: int) -> tuple[int, float]:
    """Return the number of fits of TS, PTS and SMART on every objective, and their estimated seconds."""
    numbers = {"ts": 1, "pts": seeds, "smart": seeds}
    parts = [
        fits(data, id, number, settings={"objective": each}) for id, number in numbers.items() for each in OBJECTIVES
    ]
    return len(OBJECTIVES) * sum(numbers.values()), sum(parts)


def indicators(data: LogitSet, seeds: int) -> tuple[int, float]:
    """Return the number of fits of SMART on every indicator, and their estimated seconds."""
    parts = [fits(data, "smart", seeds, settings={"indicator": each}) for each in INDICATORS]
    return len(INDICATORS) * seeds, sum(parts)


def simulated(methods: Sequence[str], sizes: Sequence[int], classes: int, seeds: int, tested: int) -> float:
    """Return the estimated seconds of fits on simulated samples, each evaluated on `tested` of them."""
    one = sum(fit_seconds(id, size, classes) for id in methods for size in sizes)
    return here(seeds * (one + len(methods) * len(sizes) * 1e-6 * tested * (1 + classes / 50)))


def about(seconds: float) -> str:
    """Return estimated seconds as text: `about 12 s`."""
    return f"about {duration(seconds)}"


def text(number: int, seconds: float) -> str:
    """Return the cost of a study: `24 fits, about 7 s.`"""
    return f"{plural(number, 'fit')}, {about(seconds)}."
