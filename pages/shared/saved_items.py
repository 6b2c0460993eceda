"""The content of a workspace in the store: which items there are, and the form in which each kind is saved."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from weakref import ref

from pages.shared import session, uploads
from pages.shared.jobs import JobList
from pages.shared.session import LeaderboardRow, LoadedDataset, Session, Split, Study
from smart_core import LogitSet, load
from smart_core.data.lazy.opening import open as open_shards
from smart_core.errors import WorkspaceError
from smart_core.experiments.benchmark_records import Record, RecordFile
from smart_core.export.workspaces import Store, StoredDict
from smart_core.export.workspaces.items import ItemStore

MAX_RECORDS = 100_000
"""Finished fits of benchmarks."""

Decode = Callable[[Any], Any]


def session_of(store: Store, id: str, owner: str | None) -> Session:
    """Return the `Session` of a workspace in a store: nothing is read yet but the names of what is there."""

    def items(size: int, kind: str, pack: Any = _itself, unpack: Any = _decoded) -> StoredDict[Any]:
        return StoredDict(size, ItemStore(store, id, kind, pack, unpack, owner))

    here = Session(
        id=id,
        owner=owner,
        datasets=items(session.MAX_DATASETS, "dataset", _pack_dataset, _unpack_dataset),
        splits=items(session.MAX_CHOICES, "split", lambda split: [split.fraction, split.seed], _unpack_split),
        fits=items(session.MAX_FITS, "fit"),
        rows=items(session.MAX_FITS, "row", vars, partial(_unpack, LeaderboardRow)),
        settings=items(session.MAX_CHOICES, "settings"),
        studies=items(session.MAX_STUDIES, "study", vars, partial(_unpack, Study)),
        uncalibrated=items(session.MAX_UNCALIBRATED, "uncalibrated"),
        choices=items(session.MAX_CHOICES, "choice"),
        unfinished=items(session.MAX_CHOICES, "job"),
        before_cell=items(session.MAX_DATASETS, "before cell", vars, partial(_unpack, LeaderboardRow)),
    )
    here.jobs = JobList(ref(here), here.unfinished)
    here.records = RecordFile(
        None,
        items(MAX_RECORDS, "benchmark record", vars, partial(_unpack, Record)),
        items(MAX_RECORDS, "benchmark set"),
        items(MAX_RECORDS, "benchmark test"),
        items(MAX_RECORDS, "benchmark evaluation"),
    )
    return here


def _pack_dataset(own: LoadedDataset) -> dict[str, Any]:
    about = {"title": own.title, "files": {part: list(names) for part, names in own.files.items()}}
    place = {"paths": list(own.paths), "in_folder": own.in_folder, "content_hash": own.data.content_hash}
    place["in_place"] = own.in_place
    return {**about, "options": own.options, "data": place if own.paths else own.data}


def _unpack_dataset(tree: Any, decode: Decode) -> LoadedDataset:
    data = tree["data"]
    if "paths" not in data:
        return LoadedDataset(lambda: decode(data), tree["title"], tree["files"], decode(tree["options"]))
    options, paths = decode(tree["options"]), tuple(data["paths"])
    in_place = data.get("in_place", False)
    read = partial(_read_in_place, paths, options, data["in_folder"], data["content_hash"], in_place)
    return LoadedDataset(read, tree["title"], tree["files"], options, paths, in_place, data["in_folder"])


def _read_in_place(
    paths: tuple[str, ...], options: dict[str, Any], in_folder: bool, content_hash: str, in_place: bool
) -> LogitSet:
    """Read the files of the server that a data set was read from before; they may be gone, or others, by now."""
    name = os.path.basename(paths[0])
    if in_folder:
        folder = uploads.server_folder()
        if folder is None or not all(Path(path).is_relative_to(folder) for path in paths):
            raise WorkspaceError(f"{name} is no longer in the folder that this server offers; load the file again.")
        paths = tuple(str(uploads.server_file(folder, Path(path).relative_to(folder).as_posix())) for path in paths)
    data = open_shards(list(paths)) if in_place else load(list(paths), **options)
    if data.content_hash != content_hash:
        raise WorkspaceError(f"{name} has changed on the server since it was loaded; load the file again.")
    return data


def _itself(value: Any) -> Any:
    return value


def _decoded(tree: Any, decode: Decode) -> Any:
    return decode(tree)


def _unpack_split(tree: Any, decode: Decode) -> Split:
    return Split.parse(*tree)


def _unpack(kind: type[Any], tree: Any, decode: Decode) -> Any:
    return kind(**decode(tree))
