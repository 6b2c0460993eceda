"""The files of one data set: uploaded in the browser, or chosen from a folder of the server."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import streamlit as st
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.uploaded_file_manager import DeletedFile, UploadedFileRec

from smart_core.cli.dashboard import startup
from smart_core.data.formats import EXTENSIONS
from smart_core.data.formats.raw import MAX_CHARACTERS, extension_of
from smart_core.data.lazy.opening import are_large, by_number
from smart_core.data.source import Folder
from smart_core.errors import LogitFileError
from smart_core.formatting import printable

FOLDER_VARIABLE = "SMART_DATA_FOLDER"
"""Environment variable: the folder of the server whose files users may open."""

MAX_FILES = 200
"""Files that may make up one data set: pieces of arrays or tables, numbered."""

MAX_PATH = 1000
"""Characters of the path of a file in an uploaded folder."""

MAX_UPLOADED = 2 << 30
"""Bytes of uploads that the server keeps for one session."""

MAX_UPLOADED_IN_ALL = 8 << 30
"""Bytes of uploads that the server keeps for all sessions."""

MAX_LISTED = 500
"""Files of the server's folder that are listed."""

File = Path | tuple[str, bytes] | Folder
"""A file of the server, the name and content of an uploaded one, or an uploaded folder."""


@dataclass(frozen=True)
class UploadedFiles:
    """The files of one data set: all together, or validation and test apart."""

    whole: tuple[File, ...] = ()
    val: tuple[File, ...] = ()
    test: tuple[File, ...] = ()
    ids: tuple[str, ...] = ()
    """Identifies the files without reading them."""
    in_place: bool = False
    """Whether they are files of the server whose logits stay where they are."""
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """`whole`, `val` or `test` -> the names of its files in the Python call that loads them."""

    def __len__(self) -> int:
        return len(self.whole) + len(self.val) + len(self.test)

    def sources(self) -> dict[str, Any]:
        """Return the files as the arguments of `Document.open`."""
        if self.val or self.test:
            return {"val": list(self.val) or None, "test": list(self.test) or None}
        return {"source": list(self.whole)}


def from_browser(**parts: Sequence[Any]) -> UploadedFiles:
    """Return the uploads of `whole=`, or of `val=` and `test=`. Their bytes are not copied."""
    return UploadedFiles(
        **{part: tuple((item.name, item.getvalue()) for item in items) for part, items in parts.items()},  # type: ignore[arg-type]
        ids=tuple(f"{part} {item.file_id}" for part, items in parts.items() for item in items),
        names={
            part: tuple(PurePosixPath(item.name).name[:MAX_CHARACTERS] for item in items)
            for part, items in parts.items()
        },
    )


def from_folder(items: Sequence[Any]) -> UploadedFiles:
    """Return an uploaded folder; the names of its files are paths that begin with its own name."""
    if not items:
        return UploadedFiles()
    paths = [PurePosixPath(item.name[:MAX_PATH]).parts for item in items]
    name = paths[0][0] if len(paths[0]) > 1 else "folder"
    files = [("/".join(path[1:] or path), item.getvalue()) for path, item in zip(paths, items, strict=True)]
    ids = tuple(f"folder {item.file_id}" for item in items)
    return UploadedFiles((Folder(name, files),), ids=ids, names={"whole": (name[:MAX_CHARACTERS],)})


class LimitedUploads(MemoryUploadedFileManager):
    """Streamlit's store of uploaded files, which drops the oldest files of a session beyond `MAX_UPLOADED` bytes."""

    def add_file(self, session_id: str, file: UploadedFileRec) -> None:
        """Keep a file until its session removes it, ends, or uploads too much after it."""
        super().add_file(session_id, file)
        kept = self.file_storage[session_id]
        while len(kept) > 1 and sum(len(item.data) for item in kept.values()) > MAX_UPLOADED:
            self.remove_file(session_id, next(iter(kept)))
        stored = [item for files in list(self.file_storage.values()) for item in list(files.values())]
        if sum(len(item.data) for item in stored) > MAX_UPLOADED_IN_ALL:
            self.remove_file(session_id, file.file_id)


def limit_uploads(keep: bool) -> None:
    """Limit what the server keeps of uploads; drop this session's, unless a field of the page still refers to them.

    Streamlit itself keeps each upload until the session ends, also when its field is gone.
    """
    context = get_script_run_ctx()
    if context is None or not isinstance(context.uploaded_file_mgr, MemoryUploadedFileManager):
        return
    context.uploaded_file_mgr.__class__ = LimitedUploads
    if not keep:
        context.uploaded_file_mgr.remove_session_files(context.session_id)


def dropped(*fields: str) -> bool:
    """Return whether an upload field shows a file that the server has dropped."""
    return any(isinstance(item, DeletedFile) for field in fields for item in st.session_state.get(field) or ())


def from_server(folder: Path, names: Sequence[str]) -> UploadedFiles:
    """Return files of the server's folder, given by their paths relative to it."""
    paths = tuple(path for name in names for path in _matching(folder, name))
    stats = [path.stat() for path in paths]
    return UploadedFiles(
        whole=paths,
        ids=tuple(f"{path} {stat.st_mtime_ns} {stat.st_size}" for path, stat in zip(paths, stats, strict=True)),
        in_place=any(map(glob.has_magic, names)) or are_large(list(map(str, paths))),
        names={"whole": tuple(names)},
    )


def _matching(folder: Path, name: str) -> list[Path]:
    """The files that a path or a pattern below the folder means, in the order of their numbers."""
    if not glob.has_magic(name) or (folder / name).is_file():
        return [server_file(folder, name)]
    if PurePosixPath(name).is_absolute() or ".." in PureWindowsPath(name).parts:
        raise LogitFileError("That is not a pattern below the server's folder", "give one such as shards/*.npy")
    found = sorted((path.relative_to(folder).as_posix() for path in folder.glob(name) if path.is_file()), key=by_number)
    if not found:
        raise LogitFileError(f"No file of the server's folder matches {printable(name, 200)}", "check the pattern")
    return [server_file(folder, each) for each in found]


def server_folder() -> Path | None:
    """Return the folder that the server's operator has opened to users, if any."""
    name = os.environ.get(FOLDER_VARIABLE, "").strip()
    folder = Path(name).resolve() if name else None
    return folder if folder is not None and folder.is_dir() else None


def server_files(folder: Path) -> list[str]:
    """Return the relative paths of the logit files below the folder; links, hidden and unreadable files are skipped."""
    found: list[str] = []
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if _is_open(os.path.join(here, name)))
        paths = [Path(here, name) for name in sorted(names) if not name.startswith(".")]
        relative = [path.relative_to(folder).as_posix() for path in paths if _is_logit_file(path)]
        found += [name for name in relative if _is_unicode(name)]
        if len(found) >= MAX_LISTED:
            return found[:MAX_LISTED]
    return found


def _is_open(folder: str) -> bool:
    """Return whether a folder is offered: not hidden, not a link, and not where the server saves workspaces."""
    if os.path.basename(folder).startswith(".") or os.path.islink(folder):
        return False
    return startup.store is None or not Path(folder).is_relative_to(startup.store.folder)


def _is_logit_file(path: Path) -> bool:
    # in a folder that may be listed but not entered, `os.path` returns False where `Path` raises
    return extension_of(path.name) in EXTENSIONS and os.path.isfile(path) and not os.path.islink(path)


def _is_unicode(name: str) -> bool:
    """Return whether a file name can be sent to a browser: on disk, a name may be any bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def server_file(folder: Path, name: str) -> Path:
    """Return the path of a file below the folder; raise `LogitFileError` for every path that leaves it.

    No part of the path may be a link, so that the path equals its own resolution.
    """
    absolute = PurePosixPath(name).is_absolute() or PureWindowsPath(name).drive or PureWindowsPath(name).root
    if not name or "\0" in name or absolute or ".." in PureWindowsPath(name).parts:
        raise LogitFileError("That is not a path below the server's folder", "choose a file from the list")
    path = folder.resolve().joinpath(*PurePosixPath(name).parts)
    try:
        regular = path.resolve(strict=True) == path and path.is_file()
    except (OSError, RuntimeError, ValueError):  # a link to itself, or characters that no path can contain
        regular = False
    if startup.store is not None and path.is_relative_to(startup.store.folder):
        regular = False
    if not regular:
        raise LogitFileError(
            "There is no such file in the server's folder, or it is a link", "choose a file from the list"
        )
    return path
