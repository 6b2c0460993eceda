"""Where a data set's files come from: dropped in the browser, or chosen from a folder of the server."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from smart_core.data.formats import EXTENSIONS
from smart_core.errors import LogitFileError

FOLDER_VARIABLE = "SMART_DATA_FOLDER"
"""Environment variable: a folder of the server whose files may be opened from the page."""

FILES_AT_ONCE = 8
"""Files that one data set may be handed in as."""

LISTED = 500
"""Files of the server's folder that are listed."""

File = Path | tuple[str, bytes]
"""A file of the server, or one that was dropped: its name and its bytes."""


@dataclass(frozen=True)
class Handed:
    """The files of one data set: undivided, or each on its side of the split."""

    whole: tuple[File, ...] = ()
    val: tuple[File, ...] = ()
    test: tuple[File, ...] = ()
    mark: tuple[str, ...] = ()
    """Tells these files from others without looking into them."""
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Side -> what the Python that loads them calls the files."""

    def __len__(self) -> int:
        return len(self.whole) + len(self.val) + len(self.test)

    def sources(self) -> dict[str, Any]:
        """The files as `sc.load` and `describe` take them."""
        if self.val or self.test:
            return {"val": list(self.val) or None, "test": list(self.test) or None}
        return {"source": list(self.whole)}


def dropped(**sides: Sequence[Any]) -> Handed:
    """Uploads by side: `whole=`, or `val=` and `test=`. No second copy of their bytes is made."""
    return Handed(
        **{side: tuple((item.name, item.getvalue()) for item in items) for side, items in sides.items()},
        mark=tuple(f"{side} {item.file_id}" for side, items in sides.items() for item in items),
        names={side: tuple(PurePosixPath(item.name).name for item in items) for side, items in sides.items()},
    )


def chosen(folder: Path, names: Sequence[str]) -> Handed:
    """Files of the server's folder, by their places in it."""
    paths = tuple(server_file(folder, name) for name in names)
    states = [path.stat() for path in paths]
    return Handed(
        whole=paths,
        mark=tuple(f"{path} {state.st_mtime_ns} {state.st_size}" for path, state in zip(paths, states, strict=True)),
        names={"whole": tuple(names)},
    )


def server_folder() -> Path | None:
    """The folder that whoever runs the server has opened, if there is one."""
    named = os.environ.get(FOLDER_VARIABLE, "").strip()
    folder = Path(named).resolve() if named else None
    return folder if folder is not None and folder.is_dir() else None


def server_files(folder: Path) -> list[str]:
    """Logit files below the folder, by their places in it; links, hidden names and what is denied are left out."""
    found: list[str] = []
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and not os.path.islink(os.path.join(here, name))
        )
        paths = [Path(here, name) for name in sorted(names) if not name.startswith(".")]
        places = [path.relative_to(folder).as_posix() for path in paths if _is_listed(path)]
        found += [place for place in places if _is_text(place)]
        if len(found) >= LISTED:
            return found[:LISTED]
    return found


def _is_listed(path: Path) -> bool:
    # `os.path` says no where `Path` would raise: in a folder that this process may list and not enter
    return path.suffix.lower() in EXTENSIONS and os.path.isfile(path) and not os.path.islink(path)


def _is_text(place: str) -> bool:
    """Whether it can be sent to a browser: a disk takes names that are no letters in any alphabet."""
    try:
        place.encode()
    except UnicodeEncodeError:
        return False
    return True


def server_file(folder: Path, name: str) -> Path:
    """The file at a place below the folder; whatever leads out of it is refused.

    No part of the place may be a link: then the path is its own resolution, and lies in the folder.
    """
    foreign = PurePosixPath(name).is_absolute() or PureWindowsPath(name).drive or PureWindowsPath(name).root
    if not name or "\0" in name or foreign or ".." in PureWindowsPath(name).parts:
        raise LogitFileError("That is not a path below the server's folder", "choose a file from the list")
    path = folder.resolve().joinpath(*PurePosixPath(name).parts)
    try:
        plain = path.resolve(strict=True) == path and path.is_file()
    except (OSError, RuntimeError, ValueError):  # a link that leads to itself, or letters that no path can have
        plain = False
    if not plain:
        raise LogitFileError(
            "There is no such file in the server's folder, or it is a link", "choose one from the list"
        )
    return path
