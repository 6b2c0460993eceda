"""Where bytes come from: paths, open files, bytes with a name, or several of these, each with its side."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from smart_core.data.found import reason, refuse, shown
from smart_core.data.limits import MAX_BYTES, bytes_shown
from smart_core.errors import LogitFileError

OneSource = str | os.PathLike[str] | bytes | bytearray | memoryview | tuple[str, bytes] | IO[Any]
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
    single = isinstance(sources, str | os.PathLike | bytes | bytearray | memoryview)
    if single or _is_upload(sources) or _is_file(sources):
        return [_one(sources, split, name)]  # type: ignore[arg-type]
    if isinstance(sources, Mapping):
        raise _no_file(sources, "a list of these")
    try:
        items = list(sources)  # type: ignore[arg-type]
    except TypeError:
        raise _no_file(sources, "a list of these") from None
    return [_one(item, split, name) for item in items]


def _is_upload(item: object) -> bool:
    return (
        isinstance(item, tuple)
        and len(item) == 2
        and isinstance(item[0], str)
        and isinstance(item[1], bytes | bytearray | memoryview)
    )


def _no_file(item: object, other: str) -> LogitFileError:
    kinds = f"a path, an open file, bytes with a name, or {other}"
    arrays = "; arrays in memory go through smart_core.data.from_arrays"
    return LogitFileError(f"A {type(item).__name__} is not a file; give {kinds}{arrays}.")


def _is_file(item: object) -> bool:
    return callable(getattr(item, "read", None))


def _one(item: OneSource, split: str | None, name: str | None) -> Source:
    if isinstance(item, tuple) and _is_upload(item):
        return Source(shown(os.path.basename(item[0])), bytes(item[1]), split)
    if isinstance(item, bytes | bytearray | memoryview):
        return Source(shown(os.path.basename(name or "uploaded file")), bytes(item), split)
    if isinstance(item, str | os.PathLike):
        return _from_path(item, split)
    if _is_file(item):
        return _from_open_file(item, split, name)
    raise _no_file(item, "a (name, bytes) pair")


def _from_open_file(stream: Any, split: str | None, name: str | None) -> Source:
    """All of an open file, from its beginning where it can go back: it may have been read before."""
    own = getattr(stream, "name", None)
    path = Path(own) if isinstance(own, str) and own else None
    shown_name = shown(os.path.basename(path.name if path else name or "uploaded file"))
    try:
        if callable(getattr(stream, "seekable", None)) and stream.seekable():
            stream.seek(0)
        data = stream.read(MAX_BYTES + 1)
    except Exception as error:  # whatever the object does when it is read
        what = f"cannot be read ({reason(error)})"
        raise refuse(shown_name, what, "open it again, in binary mode ('rb')") from error
    if isinstance(data, str):
        data = data.encode()
    if not isinstance(data, bytes | bytearray | memoryview):
        raise refuse(shown_name, f"gives {type(data).__name__} when read, not bytes", "open it in binary mode ('rb')")
    if len(data) > MAX_BYTES:
        raise refuse(shown_name, f"holds more than {bytes_shown(MAX_BYTES)}", "save fewer rows")
    return Source(shown_name, bytes(data), split, folder=path.parent.name if path else "")


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
