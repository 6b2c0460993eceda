"""From the arguments of `load` to the files that they name: paths, folders, patterns, open files, or named bytes."""

from __future__ import annotations

import glob
import itertools
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from smart_core.data.file_groups import experiments
from smart_core.data.formats import EXTENSIONS, READABLE, STORE_MARKS
from smart_core.data.formats.limits import MAX_BYTES
from smart_core.data.formats.raw import extension_of, stem_of
from smart_core.data.roles.names import split_of
from smart_core.data.samples import located
from smart_core.errors import LogitFileError
from smart_core.formatting import bytes_text, error_text, printable

MAX_FILES = 20_000
"""Of a folder; a zarr store has a file per chunk."""
MAX_DEPTH = 8
_OTHER_FILES = frozenset(["dataset_info.json", "state.json", "dataset_dict.json", "config.json"])
"""Files that libraries write beside their tables."""


@dataclass(frozen=True, eq=False)
class Folder:
    """A folder that was uploaded: its name, and the path and content of each file below it."""

    name: str
    files: Sequence[tuple[str, bytes]]


OneSource = str | os.PathLike[str] | bytes | bytearray | memoryview | tuple[str, bytes] | Folder | IO[Any]
Sources = OneSource | Iterable[OneSource]


@dataclass(frozen=True, eq=False)
class GivenFile:
    """A file that the caller named: its content or path, its name, and the split (`val` or `test`) it was given for."""

    name: str
    content: Path | bytes
    split: str | None = None
    folder: str = ""
    path: tuple[str, ...] = ()
    """In a folder that the caller named: the path below it, with the name at the end."""
    store: int = 0
    """In a zarr store: how many parts of the path lead to it, counted from the end; else 0."""

    @property
    def experiment_path(self) -> tuple[str, ...]:
        """The path that says which experiment the file belongs to; of a file in a zarr store, that of the store."""
        parts = self.path[: len(self.path) - self.store] if self.store else self.path
        return (*parts[:-1], stem_of(parts[-1])) if parts else (stem_of(self.folder),)

    def open(self) -> bytes | int:
        """Return the content, or a descriptor of the file that holds it, for another process to read."""
        if isinstance(self.content, bytes):
            return self.content
        with _path_errors(self.content, self.name):
            return os.open(self.content, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    def read(self) -> bytes:
        """Read the content into memory."""
        if isinstance(self.content, bytes):
            return self.content
        with _path_errors(self.content, self.name):
            return self.content.read_bytes()


def collect(source: Sources | None, val: Sources | None, test: Sources | None, name: str | None) -> list[GivenFile]:
    """Return every file that the caller named, in order."""
    if source is not None and (val is not None or test is not None):
        raise LogitFileError("Give either one file (or a pair), or val= and test=, not both.")
    files = [
        file
        for split, sources in ((None, source), ("val", val), ("test", test))
        for item in _items(sources)
        for file in _files(item, split, name)
    ]
    if not files:
        raise LogitFileError("No file was given; name a bundle, a logit file with its label file, or val= and test=.")
    return files


def _items(sources: Sources | None) -> list[Any]:
    if sources is None:
        return []
    single = isinstance(sources, str | os.PathLike | bytes | bytearray | memoryview | Folder)
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


def _files(item: OneSource, split: str | None, name: str | None) -> list[GivenFile]:
    """Return the file, or the files of a folder or of a pattern such as `logits_*.npy`."""
    if isinstance(item, Folder):
        found = [(tuple(path.split("/")), content) for path, content in item.files]
        return _of_folder(item.name, found, split)
    if isinstance(item, str | os.PathLike):
        path = located(item)
        with _path_errors(path, printable(path.name or str(path))):
            if path.is_dir():
                return _of_folder(path.resolve().name, list(_below(path)), split)
            if glob.has_magic(str(path)) and not path.exists():
                return _matching(path, split)
    return [_one(item, split, name)]


def _below(folder: Path) -> Iterator[tuple[tuple[str, ...], Path]]:
    """The files below a folder, with their paths; links to folders are not followed."""
    for here, folders, names in os.walk(folder):
        folders.sort()
        parts = Path(here).relative_to(folder).parts
        if len(parts) >= MAX_DEPTH:
            folders.clear()
        for name in sorted(names):
            yield (*parts, name), Path(here, name)


def _matching(pattern: Path, split: str | None) -> list[GivenFile]:
    """Return the files that match a pattern; the folder is the part of the pattern without wildcards."""
    parts = list(itertools.takewhile(lambda part: not glob.has_magic(part), pattern.parts))
    folder = Path(*parts)
    found = [
        (Path(name).relative_to(folder).parts, Path(name)) for name in sorted(glob.glob(str(pattern), recursive=True))
    ]
    files = [item for item in found if item[1].is_file()]
    if not files:
        raise LogitFileError("no file matches this pattern", "check the path", file=printable(str(pattern), 200))
    return _of_folder(folder.resolve().name, files, split, given=True)


def _of_folder(
    name: str, found: Sequence[tuple[tuple[str, ...], Path | bytes]], split: str | None, given: bool = False
) -> list[GivenFile]:
    """Return the files of a folder that may hold logits, or all if a pattern has `given` them."""
    folder = printable(name)
    if len(found) > MAX_FILES:
        raise LogitFileError(f"holds more than {MAX_FILES:,} files", "name the files that are needed", file=folder)
    stores = {path[:-1] for path, _ in found if path[-1] in STORE_MARKS}
    roots = {path for path in stores if not any(path[:n] in stores for n in range(len(path)))}
    also = () if any(_may_hold_logits(path) for path, _ in found) else (".txt",)  # of numpy.savetxt, or a README
    files = []
    for path, content in found:
        root = next((path[:n] for n in range(len(path)) if path[:n] in roots), None)
        if root is None and not (given or _may_hold_logits(path, also)):
            continue
        own = [printable(part) for part in path]
        store = 0 if root is None else len(path) - len(root)
        label = own[-1] if root is None else own[len(root) - 1] if root else folder
        if isinstance(content, Path):
            content = _regular(content, label)
        files.append(GivenFile(label, content, split, folder, tuple(own), store))
    if any(file.path[-1].endswith((".json", ".json.gz")) for file in files):
        # beside files of other formats, JSON is what describes them
        others = [file for file in files if file.store or not file.path[-1].endswith((".json", ".json.gz"))]
        files = others or files
    if not files:
        raise LogitFileError("is a folder without logit files", f"save the arrays in one of {READABLE}", file=folder)
    return files


def _may_hold_logits(path: tuple[str, ...], also: tuple[str, ...] = ()) -> bool:
    name = path[-1]
    hidden = any(part.startswith((".", "_")) for part in path)
    return not hidden and name not in _OTHER_FILES and extension_of(name) in (*EXTENSIONS, *also)


def by_experiment(files: Sequence[GivenFile]) -> dict[str, list[GivenFile]]:
    """Return the files of each experiment by its name; one experiment if no folder was named."""
    if not all(file.path for file in files):
        return {"": list(files)}
    found = experiments([file.experiment_path for file in files], bundles=True)
    return {name: _with_splits([files[place] for place in places]) for name, places in found.items()}


def _with_splits(files: list[GivenFile]) -> list[GivenFile]:
    """Give each file the split that its folder names, if the folders name several; training files are left out."""
    splits = [file.split or split_of(".".join(file.path[: len(file.path) - max(file.store, 1)])) for file in files]
    named = set(splits) - {None}
    if len(named) < 2:
        return files
    kept = [(file, split) for file, split in zip(files, splits, strict=True) if split != "train"]
    if named - {"train"} == {"val", "test"}:
        return [replace(file, split=split) for file, split in kept]
    return [file for file, _ in kept]


def _regular(path: Path, name: str) -> Path:
    """Return the path of a regular file that is not too large."""
    with _path_errors(path, name):
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):
            raise LogitFileError("is a device or a pipe, not a file", "name a file", file=name)
        if info.st_size > MAX_BYTES:
            problem = f"holds {bytes_text(info.st_size)}, more than {bytes_text(MAX_BYTES)}"
            raise LogitFileError(problem, "save fewer rows", file=name)
    return path


def _one(item: Any, split: str | None, name: str | None) -> GivenFile:
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
    return GivenFile(name, _regular(path, name), split, folder=path.resolve().parent.name)


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
