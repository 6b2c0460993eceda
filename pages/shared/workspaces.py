"""The workspace of a window: found by the id in its URL, shared with the other windows, saved on the server.

`smart dashboard` opens a store; under `streamlit run`, and with `--ephemeral`, workspaces are in memory and end with
their last window. In both cases a reloaded page and a second window find the same `Session` object.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary, ref

import streamlit as st

from pages.shared import session, uploads
from pages.shared.jobs import JobList
from pages.shared.session import LeaderboardRow, LoadedDataset, Session, Split, Study
from smart_core import LogitSet, load
from smart_core.cli.dashboard import opened
from smart_core.errors import WorkspaceError
from smart_core.experiments.benchmark_records import Record, RecordFile
from smart_core.workspace import Store, StoredDict
from smart_core.workspace.items import Shelf

PARAMETER = "workspace"
"""The query parameter that names the workspace."""

VIEW = "view"
"""Among the choices of a workspace: the view that it was last left with, by query parameter."""

MAX_RECORDS = 100_000
"""Finished fits of benchmarks."""

_open: WeakValueDictionary[str, Session] = WeakValueDictionary()
_lock = threading.Lock()

Decode = Callable[[Any], Any]


def enter() -> bool:
    """Find the workspace of this window at the start of a run, and return whether the window is new to it."""
    asked = st.query_params.get(PARAMETER, "")
    here: Session | None = st.session_state.get(session.SESSION)
    if here is not None and not here.deleted and asked in ("", here.id):
        if opened.store is not None:
            opened.store.touch(here.id)
        return False
    if here is not None:
        st.session_state.clear()
    found = find(asked) if asked else None
    st.session_state[session.SESSION] = found or begin()
    if asked and found is None:
        st.session_state[session.LOST] = True
    return True


def find(id: str) -> Session | None:
    """Return the workspace with this id: the one that other windows use, or else from the disk."""
    with _lock:
        here = _open.get(id)
        if here is None and opened.store is not None and opened.store.find(id) is not None:
            here = _open[id] = saved(opened.store, id)
        return here


def begin() -> Session:
    """Return a new workspace. It is on the disk as soon as anything is in it."""
    here = Session() if opened.store is None else saved(opened.store, Session().id)
    with _lock:
        _open[here.id] = here
    return here


def saved(store: Store, id: str) -> Session:
    """Return the `Session` of a workspace in a store: nothing is read yet but the names of what is there."""

    def items(size: int, kind: str, *codec: Any) -> StoredDict[Any]:
        return StoredDict(size, Shelf(store, id, kind, *codec))

    here = Session(
        id=id,
        datasets=items(session.MAX_DATASETS, "dataset", _pack_dataset, _unpack_dataset),
        splits=items(session.MAX_CHOICES, "split", lambda split: [split.fraction, split.seed], _unpack_split),
        fits=items(session.MAX_FITS, "fit"),
        rows=items(session.MAX_FITS, "row", vars, partial(_unpack, LeaderboardRow)),
        settings=items(session.MAX_CHOICES, "settings"),
        studies=items(session.MAX_STUDIES, "study", vars, partial(_unpack, Study)),
        choices=items(session.MAX_CHOICES, "choice"),
        unfinished=items(session.MAX_CHOICES, "job"),
        before_cell=items(session.MAX_DATASETS, "before cell", vars, partial(_unpack, LeaderboardRow)),
    )
    here.jobs = JobList(ref(here), here.unfinished)
    here.records = RecordFile(
        None,
        items(MAX_RECORDS, "benchmark record", vars, partial(_unpack, Record)),
        items(MAX_RECORDS, "benchmark set"),
        items(MAX_RECORDS, "benchmark evaluation"),
    )
    return here


def faults(here: Session) -> list[str]:
    """Return why parts of a workspace are not saved or cannot be read, each sentence once."""
    held = [each for each in vars(here).values() if isinstance(each, StoredDict)]
    return list(dict.fromkeys(sentence for each in held for sentence in each.faults.values()))


def note_view(view: Mapping[str, str]) -> None:
    """Save the view of a workspace that has been saved before, so that its link alone opens it again."""
    here = session.current()
    if here.choices.get(VIEW) == view:
        return
    if opened.store is None or opened.store.find(here.id) is not None:
        here.choices[VIEW] = dict(view)


def last_view() -> dict[str, str]:
    """Return the view that the workspace was last left with."""
    view: dict[str, str] = session.current().choices.get(VIEW, {})
    return view


# -- items on the disk ------------------------------------------------------------------------------------------


def _pack_dataset(own: LoadedDataset) -> dict[str, Any]:
    about = {"title": own.title, "files": {part: list(names) for part, names in own.files.items()}}
    place = {"paths": list(own.paths), "in_folder": own.in_folder, "content_hash": own.data.content_hash}
    return {**about, "options": own.options, "data": place if own.paths else own.data}


def _unpack_dataset(tree: Any, decode: Decode) -> LoadedDataset:
    data = tree["data"]
    if "paths" not in data:
        return LoadedDataset(lambda: decode(data), tree["title"], tree["files"], decode(tree["options"]))
    options, paths = decode(tree["options"]), tuple(data["paths"])
    read = partial(_read_in_place, paths, options, data["in_folder"], data["content_hash"])
    return LoadedDataset(read, tree["title"], tree["files"], options, paths, data["in_folder"])


def _read_in_place(paths: tuple[str, ...], options: dict[str, Any], in_folder: bool, content_hash: str) -> LogitSet:
    """Read the files of the server that a data set was read from before; they may be gone, or others, by now."""
    name = os.path.basename(paths[0])
    if in_folder:
        folder = uploads.server_folder()
        if folder is None or not all(Path(path).is_relative_to(folder) for path in paths):
            raise WorkspaceError(f"{name} is no longer in the folder that this server offers; load the file again.")
        paths = tuple(str(uploads.server_file(folder, Path(path).relative_to(folder).as_posix())) for path in paths)
    data = load(list(paths), **options)
    if data.content_hash != content_hash:
        raise WorkspaceError(f"{name} has changed on the server since it was loaded; load the file again.")
    return data


def _unpack_split(tree: Any, decode: Decode) -> Split:
    return Split.parse(*tree)


def _unpack(kind: type[Any], tree: Any, decode: Decode) -> Any:
    return kind(**decode(tree))
