"""What one browser session has loaded and computed, and the keys of `st.session_state`.

Data sets, fits, leaderboard rows, studies and jobs are attributes of one `Session` object. No two sessions share one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import streamlit as st

from pages.shared.jobs import JobList
from smart_core import Evaluation, LogitSet
from smart_core.calibrators.base import Calibrator
from smart_core.data.document import load_call
from smart_core.experiments import Comparison, MethodResult
from smart_core.experiments.benchmark_records import RecordFile

# Keys of st.session_state. Keys of widgets that one page alone draws are written on that page.
SESSION = "session"  # the Session object
DATA = "data"  # sidebar: key of the selected data set
METRIC = "metric"  # sidebar: the primary metric
BINS = "bins"  # sidebar: number of confidence bins
SEEDS = "seeds"  # Compare: number of seeds
CELL = "sensitivity-cell"  # Sensitivity: sigma and delta of the cell that SMART uses
BEFORE_CELL = "before-cell"  # Sensitivity: SMART's row before that, by content hash
SELECTED = "selected-methods"  # Compare: methods of the selected rows, which the other pages and the report draw
ROUTED = "routed"  # set by dashboard.py right before it runs a page
JOBS_SEEN = "jobs-seen"  # job states and result counts that the page was last drawn with
NEXT_DATASET = "next-dataset"  # data set to select at the next run: a drawn widget's value cannot be changed
NEXT_VIEW = "next-view"  # view to open at the next run, for the same reason
URL_WRITTEN = "url-written"  # view last written into the URL
URL_REPLACED = "url-replaced"  # earlier views of the URL, each with the time at which it was overwritten
PENDING_LINK = "pending-link"  # the view that a link asked for before its file was loaded
REMOVED_DATASET = "removed-dataset"  # title of a data set that was dropped to make room, until the user is told
DOCUMENT = "document"  # Start: the parsed files in the upload fields
READ_RESULT = "read-result"  # Start: the result of reading these files
READ_OPTIONS = "read-options"  # Start: the files, and the options with which to read them again
READ_KEY = "read-key"  # Start: the files, and the key of the data set that they became
SERVER_FILES = "server-files"  # Start: the files chosen from the server's folder
UNDO = "undo-steps"  # snapshots of what was replaced
EXPORT_METHOD = "export-method"  # Export: the chosen method
EXPORT_PROPOSED = "export-proposed"  # Export: the data set and the method that were proposed last

MAX_DATASETS = 8
MAX_FITS = 400
MAX_STUDIES = 24
MAX_RANKINGS = 16

MAX_SPLIT_SEED = 2**31 - 1
SPLIT_PERCENT = (5, 95)
"""Smallest and largest validation share, in percent."""

Value = TypeVar("Value")


class BoundedDict(MutableMapping[str, Value]):
    """A dictionary of limited size that drops its oldest entry when full; `version` counts assignments."""

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
    """A custom split: this fraction of all rows is validation, drawn with this seed."""

    fraction: float
    seed: int

    @classmethod
    def parse(cls, fraction: str | float, seed: str | int) -> Split:
        """Return the split that a link or a file asks for; raise `ValueError` if the page could not offer it."""
        split = cls(float(fraction), int(seed))
        low, high = SPLIT_PERCENT
        if not (low <= 100 * split.fraction <= high and 0 <= split.seed <= MAX_SPLIT_SEED):
            raise ValueError("not a valid split")
        return split


@dataclass(frozen=True, eq=False)
class LoadedDataset:
    """A data set that the user loaded."""

    data: LogitSet
    title: str
    files: Mapping[str, Sequence[str]]
    """`whole`, `val` or `test` -> the names of the files that it was loaded from."""
    options: dict[str, Any] = field(default_factory=dict)
    """Arguments of `sc.load` that the user chose."""

    @property
    def call(self) -> str:
        """The Python call that loads it: `sc.load("logits.npz")`."""
        return load_call(self.files, self.options)


@dataclass(frozen=True, eq=False)
class LeaderboardRow:
    """The result of one method, and the settings, seeds and bins that it was computed with."""

    result: MethodResult
    settings: dict[str, Any]
    seeds: int
    bins: int


@dataclass(eq=False)
class Session:
    """The data sets, fits, leaderboard rows, studies and jobs of one browser session."""

    datasets: BoundedDict[LoadedDataset] = field(default_factory=lambda: BoundedDict(MAX_DATASETS))
    """By key: the first 12 characters of the content hash."""
    splits: dict[str, Split] = field(default_factory=dict)
    """Key of a data set -> its custom split, if it has one."""
    fits: BoundedDict[tuple[Calibrator, float, Evaluation]] = field(default_factory=lambda: BoundedDict(MAX_FITS))
    """The cache of `compare`, by `fit_key`."""
    rows: BoundedDict[LeaderboardRow] = field(default_factory=lambda: BoundedDict(MAX_FITS))
    """By `row_key`: the latest row of a method on a data set."""
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Method -> its settings that differ from the defaults."""
    studies: BoundedDict[Any] = field(default_factory=lambda: BoundedDict(MAX_STUDIES))
    """By `study_key`: the result of a study, partial while the study runs."""
    records: RecordFile = field(default_factory=RecordFile)
    """The finished fits of benchmarks."""
    rankings: BoundedDict[Comparison] = field(default_factory=lambda: BoundedDict(MAX_RANKINGS))
    """Ranked rows, by data set, metric, bins and rows."""
    jobs: JobList = field(default_factory=JobList)
    awaited_key: str | None = None
    """Key of a data set that a link asked for and that is not loaded yet."""
    restored_upload: str | None = None
    """The upload last restored as a workspace, so that it is not restored twice."""


def row_key(data: LogitSet, method: str) -> str:
    """Return the key of a method's row on a data set."""
    return f"{data.content_hash}/{method}"


def study_key(data: LogitSet, kind: str) -> str:
    """Return the key of a study on a data set."""
    return f"{data.content_hash}/{kind}"


def current() -> Session:
    """Return the session of the browser that runs this script."""
    if SESSION not in st.session_state:
        st.session_state[SESSION] = Session()
    session: Session = st.session_state[SESSION]
    return session


def metric() -> str:
    """Return the primary metric."""
    name: str = st.session_state[METRIC]
    return name


def selected() -> list[str]:
    """Return the methods selected on Compare; empty if each page is to choose its own."""
    methods: list[str] = st.session_state.get(SELECTED, [])
    return methods


def bins() -> int:
    """Return the number of confidence bins."""
    number: int = st.session_state[BINS]
    return number
