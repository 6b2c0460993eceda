"""What one session has loaded and computed. Nothing of it is shared with another session."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import streamlit as st

from pages.shared import state
from pages.shared.jobs import Tray
from smart_core import Evaluation, LogitSet
from smart_core.calibrators.base import Calibrator
from smart_core.experiments import Comparison, MethodResult

Value = TypeVar("Value")

SETS_KEPT = 8
FITS_KEPT = 400
STUDIES_KEPT = 24
RANKINGS_KEPT = 16

LARGEST_SEED = 2**31 - 1
SHARES = (5, 95)
"""Least and largest share of the samples for validation, in per cent."""


class Bounded(MutableMapping[str, Value]):
    """A dictionary that forgets what was put in first when it is full; `version` counts what was put in."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.version = 0
        self._items: OrderedDict[str, Value] = OrderedDict()

    def __getitem__(self, key: str) -> Value:
        return self._items[key]

    def __setitem__(self, key: str, value: Value) -> None:
        self._items[key] = value
        self.version += 1
        while len(self._items) > self._size:
            self._items.popitem(last=False)

    def __delitem__(self, key: str) -> None:
        del self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._items))

    def __len__(self) -> int:
        return len(self._items)


@dataclass(frozen=True)
class Split:
    """A split asked for by hand: this fraction of all rows for validation, drawn with this seed."""

    fraction: float
    seed: int

    @classmethod
    def asked(cls, fraction: str | float, seed: str | int) -> Split:
        """A split that a link or a file asks for; `ValueError` for what the page could neither make nor show."""
        split = cls(float(fraction), int(seed))
        if not (SHARES[0] <= 100 * split.fraction <= SHARES[1] and 0 <= split.seed <= LARGEST_SEED):
            raise ValueError("no split")
        return split


@dataclass(frozen=True, eq=False)
class Held:
    """A data set of the session's own, as it was loaded."""

    data: LogitSet
    title: str
    call: str
    """The Python that loads it again: `sc.load("logits.npz")`."""
    options: dict[str, Any] = field(default_factory=dict)
    """How it was read, where that was not left to be understood."""


@dataclass(frozen=True, eq=False)
class Row:
    """A finished row of the leaderboard, and what it was made with."""

    result: MethodResult
    settings: dict[str, Any]
    seeds: int
    bins: int


@dataclass(eq=False)
class Desk:
    """The session's data sets, fits, rows, studies and jobs."""

    sets: Bounded[Held] = field(default_factory=lambda: Bounded(SETS_KEPT))
    """By key: the first 12 letters of the content hash."""
    splits: dict[str, Split] = field(default_factory=dict)
    """Key of a set -> the split asked for, where it is not the file's own."""
    fits: Bounded[tuple[Calibrator, float, Evaluation]] = field(default_factory=lambda: Bounded(FITS_KEPT))
    """What `compare` remembers, by `fit_key`."""
    rows: Bounded[Row] = field(default_factory=lambda: Bounded(FITS_KEPT))
    """By `row_key`: the newest row of a method on a data set."""
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Method -> the settings chosen on the Compare page, where they are not the defaults."""
    studies: Bounded[Any] = field(default_factory=lambda: Bounded(STUDIES_KEPT))
    """By `study_key`: a study's result, filling as it is computed."""
    rankings: Bounded[Comparison] = field(default_factory=lambda: Bounded(RANKINGS_KEPT))
    """Rows side by side, as last ranked."""
    tray: Tray = field(default_factory=Tray)
    wanted: str | None = None
    """The key of a data set that a link asked for and that is not here."""
    restored: str | None = None
    """The upload that was last taken in as a workspace, so that it is not taken in twice."""


def row_key(data: LogitSet, method: str) -> str:
    """Where the row of a method on a data set lies."""
    return f"{data.content_hash}/{method}"


def study_key(data: LogitSet, kind: str) -> str:
    """Where the study of a kind on a data set lies."""
    return f"{data.content_hash}/{kind}"


def desk() -> Desk:
    """This session's desk."""
    if state.DESK not in st.session_state:
        st.session_state[state.DESK] = Desk()
    found: Desk = st.session_state[state.DESK]
    return found
