"""The content of a workspace, and the keys of `st.session_state`.

Data sets, fits, leaderboard rows, studies and jobs are attributes of one `Session` object, which all windows of a
workspace share; `workspaces.py` finds it. What a window alone shows is in `st.session_state`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import streamlit as st

from pages.shared.jobs import JobList
from smart_core import Evaluation, LogitSet
from smart_core.calibrators.base import Calibrator
from smart_core.data.document import load_call
from smart_core.experiments import Comparison, MethodResult
from smart_core.experiments.benchmark_records import RecordFile
from smart_core.export.workspaces import BoundedDict
from smart_core.export.workspaces.store import new_id

# Keys of st.session_state. Keys of widgets that one page alone draws are written on that page.
SESSION = "session"  # the Session object
DATA = "data"  # sidebar: key of the selected data set
METRIC = "metric"  # sidebar: the primary metric
BINS = "bins"  # sidebar: number of confidence bins
SEEDS = "seeds"  # Compare: number of seeds
REFUSED = "refused"  # whether a change was refused because the link is read-only, until the user is told
RESUME = "resume"  # kind and settings of an interrupted study that its page is to resume
LOST = "lost-workspace"  # whether the URL asked for a workspace that is not on this server, until the user is told
SELECTED = "selected-methods"  # Compare: methods of the selected rows, which the other pages and the report draw
SELECTED_SEEN = "selected-seen"  # page -> the selection that it last drew
ROUTED = "routed"  # set by dashboard.py right before it runs a page
NEXT_DATASET = "next-dataset"  # data set to select at the next run: a drawn widget's value cannot be changed
NEXT_VIEW = "next-view"  # view to open at the next run, for the same reason
URL_WRITTEN = "url-written"  # view last written into the URL
URL_REPLACED = "url-replaced"  # earlier views of the URL, each with the time at which it was overwritten
AWAITED = "awaited"  # key of a data set that a link asked for and that is not loaded yet
PENDING_LINK = "pending-link"  # the view that a link asked for before its file was loaded
REMOVED_DATASET = "removed-dataset"  # title of a data set that was dropped to make room, until the user is told
DOCUMENT = "document"  # Start: the parsed files in the upload fields
READ_RESULT = "read-result"  # Start: the result of reading these files
READ_OPTIONS = "read-options"  # Start: the files, and the options with which to read them again
READ_KEY = "read-key"  # Start: the files, and the key of the data set that they became
SERVER_FILES = "server-files"  # Start: the files chosen from the server's folder
UNDO = "undo-steps"  # snapshots of what was replaced
EXPORT_METHOD = "export-method"  # Export: the chosen method
FIGURES = "prepared-figures"  # Export: what the prepared archive of all figures shows, and the page that saves it
EXPORT_PROPOSED = "export-proposed"  # Export: the data set and the method that were proposed last

MAX_DATASETS = 8
MAX_FITS = 400
MAX_STUDIES = 24
MAX_RANKINGS = 16
MAX_UNCALIBRATED = 16
MAX_CHOICES = 1000
"""Splits, settings and other choices of a workspace."""

MAX_SPLIT_SEED = 2**31 - 1
SPLIT_PERCENT = (5, 95)
"""Smallest and largest validation share, in percent."""


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

    source: LogitSet | Callable[[], LogitSet]
    """The data set, or a function that opens it: one of a saved workspace is opened when it is first used."""
    title: str
    files: Mapping[str, Sequence[str]]
    """`whole`, `val` or `test` -> the names of the files that it was loaded from."""
    options: dict[str, Any] = field(default_factory=dict)
    """Arguments of `sc.load` that the user chose."""
    paths: tuple[str, ...] = ()
    """The files of the server that it was read from. A saved workspace reads them again and keeps no copy."""
    in_place: bool = False
    """Whether its logits stay in these files."""
    in_folder: bool = False
    """Whether they are in the folder that the server offers; if not, they were given on the command line."""

    @cached_property
    def data(self) -> LogitSet:
        """The data set."""
        return self.source if isinstance(self.source, LogitSet) else self.source()

    @property
    def is_open(self) -> bool:
        """Whether `data` is there without reading files."""
        return isinstance(self.source, LogitSet) or "data" in vars(self)

    @property
    def call(self) -> str:
        """The Python call that loads it: `sc.load("logits.npz")`."""
        call = load_call(self.files, self.options)
        return call.replace("sc.load(", "sc.open(", 1) if self.in_place else call


@dataclass(frozen=True, eq=False)
class LeaderboardRow:
    """The result of one method, and the settings, seeds and bins that it was computed with."""

    result: MethodResult
    settings: dict[str, Any]
    seeds: int
    bins: int


@dataclass(frozen=True, eq=False)
class Study:
    """A complete or partial result, and the settings that it was computed with."""

    result: Any
    settings: dict[str, Any]
    published: float = 0.0
    """Unix time, to find the latest study."""


@dataclass(eq=False)
class Session:
    """The data sets, fits, leaderboard rows, studies and jobs of one workspace."""

    id: str = field(default_factory=new_id)
    """The workspace's id in the URL, or that of its read-only link."""
    original: Session | None = None
    """The workspace that this read-only view shows; None if it may be changed."""
    datasets: BoundedDict[LoadedDataset] = field(default_factory=lambda: BoundedDict(MAX_DATASETS))
    """By key: the first 12 characters of the content hash."""
    splits: BoundedDict[Split] = field(default_factory=lambda: BoundedDict(MAX_CHOICES))
    """Key of a data set -> its custom split, if it has one."""
    fits: BoundedDict[tuple[Calibrator, float, Evaluation]] = field(default_factory=lambda: BoundedDict(MAX_FITS))
    """The cache of `compare`, by `fit_key`."""
    rows: BoundedDict[LeaderboardRow] = field(default_factory=lambda: BoundedDict(MAX_FITS))
    """By `row_key`: the latest row of a method on a data set."""
    settings: BoundedDict[dict[str, Any]] = field(default_factory=lambda: BoundedDict(MAX_CHOICES))
    """Method -> its settings that differ from the defaults."""
    studies: BoundedDict[Study] = field(default_factory=lambda: BoundedDict(MAX_STUDIES))
    """By `study_key`: the result of a study, partial while the study runs."""
    records: RecordFile = field(default_factory=RecordFile)
    """The finished fits of benchmarks."""
    rankings: BoundedDict[Comparison] = field(default_factory=lambda: BoundedDict(MAX_RANKINGS))
    """Ranked rows, by data set, metric, bins and rows."""
    uncalibrated: BoundedDict[Evaluation] = field(default_factory=lambda: BoundedDict(MAX_UNCALIBRATED))
    """By content hash: the evaluation of the model itself, so that a page opens without reading the logits."""
    choices: BoundedDict[Any] = field(default_factory=lambda: BoundedDict(MAX_CHOICES))
    """Plain values by name: the view, and the Sensitivity cell whose settings SMART uses."""
    before_cell: BoundedDict[LeaderboardRow] = field(default_factory=lambda: BoundedDict(MAX_DATASETS))
    """By content hash: SMART's row before it took the settings of a Sensitivity cell."""
    unfinished: BoundedDict[dict[str, Any]] = field(default_factory=lambda: BoundedDict(MAX_CHOICES))
    """Notes of the jobs that run, by kind and data set: if the server stops, they can be resumed (`resume.py`)."""
    jobs: JobList = field(default_factory=JobList)
    owner: str | None = None
    """The user that it belongs to, where users sign in."""
    deleted: bool = False
    """Whether the workspace was deleted; its windows then begin a new one."""
    restored_upload: str | None = None
    """The upload last restored as a workspace, so that it is not restored twice."""

    @property
    def version(self) -> tuple[int, ...]:
        """A value that changes when anything in the workspace does."""
        held = (self.datasets, self.splits, self.rows, self.studies, self.settings)
        return tuple(each.version for each in held)


def row_key(data: LogitSet, method: str) -> str:
    """Return the key of a method's row on a data set."""
    return f"{data.content_hash}/{method}"


def study_key(data: LogitSet, kind: str) -> str:
    """Return the key of a study on a data set."""
    return f"{data.content_hash}/{kind}"


def current() -> Session:
    """Return what the workspace of this window holds; `workspaces.enter` has found it at the start of the run."""
    if SESSION not in st.session_state:
        st.session_state[SESSION] = Session()
    session: Session = st.session_state[SESSION]
    return session


def data_key() -> str:
    """Return the key of the selected data set."""
    key: str = st.session_state[DATA]
    return key


def metric() -> str:
    """Return the primary metric."""
    name: str = st.session_state[METRIC]
    return name


def selected() -> list[str]:
    """Return the methods selected on Compare; empty if each page is to choose its own."""
    methods: list[str] = st.session_state.get(SELECTED, [])
    return methods


def newly_selected(page: str) -> list[str]:
    """Return the methods selected on Compare if the selection has changed since this page last asked; else none."""
    seen = st.session_state.setdefault(SELECTED_SEEN, {})
    methods = selected()
    changed = seen.get(page, []) != methods
    seen[page] = methods
    return methods if changed else []


def bins() -> int:
    """Return the number of confidence bins."""
    number: int = st.session_state[BINS]
    return number
