"""From the arguments of `load` to the files that they name: paths, open files, or bytes with a name."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from smart_core.data.formats.limits import MAX_BYTES
from smart_core.data.formats.raw import Source
from smart_core.data.samples import located
from smart_core.errors import LogitFileError
from smart_core.formatting import bytes_text, error_text, printable

OneSource = str | os.PathLike[str] | bytes | bytearray | memoryview | tuple[str, bytes] | IO[Any]
Sources = OneSource | Iterable[OneSource]


@dataclass(frozen=True, eq=False)
class GivenFile:
    """A file that the caller named: its content or path, its name, and the split (`val` or `test`) it was given for."""

    name: str
    content: Path | bytes
    split: str | None = None
    folder: str = ""

    def open(self) -> bytes | int:
        """Return the content, or a descriptor of the file that holds it, for another process to read."""
        if isinstance(self.content, bytes):
            return self.content
        with _path_errors(self.content, self.name):
            return os.open(self.content, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    def read(self) -> Source:
        """Read the content into memory."""
        if isinstance(self.content, bytes):
            return Source(self.name, self.content, self.split, self.folder)
        with _path_errors(self.content, self.name):
            return Source(self.name, self.content.read_bytes(), self.split, self.folder)


def collect(source: Sources | None, val: Sources | None, test: Sources | None, name: str | None) -> list[GivenFile]:
    """Return every file that the caller named, in order."""
    if source is not None and (val is not None or test is not None):
        raise LogitFileError("Give either one file (or a pair), or val= and test=, not both.")
    files = [
        _one(item, split, name)
        for split, sources in ((None, source), ("val", val), ("test", test))
        for item in _items(sources)
    ]
    if not files:
        raise LogitFileError("No file was given; name a bundle, a logit file with its label file, or val= and test=.")
    return files


def _items(sources: Sources | None) -> list[Any]:
    if sources is None:
        return []
    single = isinstance(sources, str | os.PathLike | bytes | bytearray | memoryview)
    if single or _is_upload(sources) or _is_file(sources):
        return [sources]
    if not isinstance(sources, Mapping):
        with suppress(TypeError):  # not iterable
            return list(sources)  # type: ignore[arg-type]
    raise _not_a_file(sources, "a list of these")


def _is_upload(item: object) -> bool:
    if not isinstance(item, tuple) or len(item) != 2:
        return False
    return isinstance(item[0], str) and isinstance(item[1], bytes | bytearray | memoryview)


def _is_file(item: object) -> bool:
    return callable(getattr(item, "read", None))


def _not_a_file(item: object, other: str) -> LogitFileError:
    kinds = f"a path, an open file, bytes with a name, or {other}"
    arrays = "for arrays in memory use smart_core.data.from_arrays"
    return LogitFileError(f"A {type(item).__name__} is not a file; give {kinds}; {arrays}.")


def _one(item: OneSource, split: str | None, name: str | None) -> GivenFile:
    if isinstance(item, tuple) and _is_upload(item):
        return GivenFile(printable(os.path.basename(item[0])), bytes(item[1]), split)
    if isinstance(item, bytes | bytearray | memoryview):
        return GivenFile(printable(os.path.basename(name or "uploaded file")), bytes(item), split)
    if isinstance(item, str | os.PathLike):
        return _from_path(item, split)
    if _is_file(item):
        return _from_open_file(item, split, name)
    raise _not_a_file(item, "a (name, bytes) pair")


def _from_open_file(stream: Any, split: str | None, name: str | None) -> GivenFile:
    """Read an open file, from its beginning if it can seek: it may have been read before."""
    own = getattr(stream, "name", None)
    path = Path(own) if isinstance(own, str) and own else None
    file = printable(os.path.basename(path.name if path else name or "uploaded file"))
    binary = "open it in binary mode ('rb')"
    try:
        if callable(getattr(stream, "seekable", None)) and stream.seekable():
            stream.seek(0)
        data = stream.read(MAX_BYTES + 1)
    except Exception as error:  # the object may do anything when it is read
        raise LogitFileError(f"cannot be read ({error_text(error)})", f"{binary} again", file=file) from error
    if isinstance(data, str):
        data = data.encode()
    if not isinstance(data, bytes | bytearray | memoryview):
        raise LogitFileError(f"gives {type(data).__name__} when read, not bytes", binary, file=file)
    if len(data) > MAX_BYTES:
        raise LogitFileError(f"holds more than {bytes_text(MAX_BYTES)}", "save fewer rows", file=file)
    return GivenFile(file, bytes(data), split, folder=path.parent.name if path else "")


def _from_path(item: str | os.PathLike[str], split: str | None) -> GivenFile:
    path = located(item)
    name = printable(path.name or str(path))
    with _path_errors(path, name):
        info = path.stat()
        if stat.S_ISDIR(info.st_mode):
            raise LogitFileError("is a folder", "name the files in it", file=name)
        if not stat.S_ISREG(info.st_mode):
            raise LogitFileError("is a device or a pipe, not a file", "name a file", file=name)
        if info.st_size > MAX_BYTES:
            problem = f"holds {bytes_text(info.st_size)}, more than {bytes_text(MAX_BYTES)}"
            raise LogitFileError(problem, "save fewer rows", file=name)
        return GivenFile(name, path, split, folder=path.resolve().parent.name)


@contextmanager
def _path_errors(path: Path, name: str) -> Iterator[None]:
    """Raise `LogitFileError` for what the operating system says of a path."""
    try:
        yield
    except FileNotFoundError:
        problem = f"there is no such file ({printable(str(path), 200)})"
        raise LogitFileError(problem, "check the path", file=name) from None
    except PermissionError:
        problem = "this process is not allowed to read it"
        raise LogitFileError(problem, "change its permissions or copy it", file=name) from None
    except (OSError, ValueError) as error:
        raise LogitFileError(f"cannot be opened ({printable(str(error))})", "check the path", file=name) from error
