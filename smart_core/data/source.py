"""Where bytes come from: paths, bytes with a name, or several of either, each with its side of the split."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from smart_core.data.found import MAX_BYTES, bytes_shown, refuse, shown
from smart_core.errors import LogitFileError

OneSource = str | os.PathLike[str] | bytes | bytearray | memoryview | tuple[str, bytes]
Sources = OneSource | Iterable[OneSource]


@dataclass(frozen=True)
class Source:
    """One file: its name, its bytes, and the side of the split that the caller put it on, if any."""

    name: str
    data: bytes
    split: str | None = None
    folder: str = ""

    @property
    def stem(self) -> str:
        return Path(self.name).stem

    @property
    def extension(self) -> str:
        return Path(self.name).suffix.lower()


def collect(source: Sources | None, val: Sources | None, test: Sources | None, name: str | None) -> list[Source]:
    """Every file the caller named, in order, read into memory."""
    if source is not None and (val is not None or test is not None):
        raise LogitFileError("Give either one file (or a pair), or val= and test=, not both.")
    files = [
        *_side(source, None, name),
        *_side(val, "val", name),
        *_side(test, "test", name),
    ]
    if not files:
        raise LogitFileError("No file was given; name a bundle, a logit file with its label file, or val= and test=.")
    return files


def _side(sources: Sources | None, split: str | None, name: str | None) -> list[Source]:
    if sources is None:
        return []
    if isinstance(sources, str | os.PathLike | bytes | bytearray | memoryview) or _is_upload(sources):
        return [_one(sources, split, name)]  # type: ignore[arg-type]
    try:
        items = list(sources)
    except TypeError:
        raise LogitFileError(
            f"A {type(sources).__name__} is not a file; give a path, bytes with a name, or a list of them."
        ) from None
    return [_one(item, split, name) for item in items]


def _is_upload(item: object) -> bool:
    return (
        isinstance(item, tuple)
        and len(item) == 2
        and isinstance(item[0], str)
        and isinstance(item[1], bytes | bytearray | memoryview)
    )


def _one(item: OneSource, split: str | None, name: str | None) -> Source:
    if isinstance(item, tuple) and _is_upload(item):
        return Source(shown(os.path.basename(item[0])), bytes(item[1]), split)
    if isinstance(item, bytes | bytearray | memoryview):
        return Source(shown(os.path.basename(name or "uploaded file")), bytes(item), split)
    if isinstance(item, str | os.PathLike):
        return _from_path(item, split)
    raise LogitFileError(
        f"A {type(item).__name__} is not a file; give a path, bytes with a name, or a (name, bytes) pair."
    )


def _from_path(item: str | os.PathLike[str], split: str | None) -> Source:
    path = Path(item)
    name = shown(path.name or str(path))
    try:
        info = path.stat()
        if stat.S_ISDIR(info.st_mode):
            raise refuse(name, "is a folder", "name the files in it")
        if not stat.S_ISREG(info.st_mode):
            raise refuse(name, "is a device or a pipe, not a file", "name a file")
        if info.st_size > MAX_BYTES:
            raise refuse(
                name,
                f"holds {bytes_shown(info.st_size)}, more than {bytes_shown(MAX_BYTES)}",
                "save fewer rows",
            )
        data = path.read_bytes()
        return Source(name, data, split, folder=path.resolve().parent.name)
    except FileNotFoundError:
        raise refuse(name, f"there is no such file ({shown(str(path), 200)})", "check the path") from None
    except PermissionError:
        raise refuse(name, "may not be read", "change its permissions or copy it") from None
    except (OSError, ValueError) as error:
        raise refuse(name, f"cannot be opened ({shown(str(error))})", "check the path") from error
