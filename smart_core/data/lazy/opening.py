"""`open`: from the paths of shards to a `LogitSet` whose logits stay in their files."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from smart_core.data.document import Document
from smart_core.data.file_groups import shard_of
from smart_core.data.formats.raw import RawArray, stem_of
from smart_core.data.lazy.readers import READABLE_BY_ROWS, READERS, Found, is_url, name_of, reader_of, reading
from smart_core.data.lazy.reduced import open_reduced, tail_column
from smart_core.data.lazy.rows import LazyPart, LazyRows, Shard
from smart_core.data.logitset import Array, LogitSet, Notice
from smart_core.data.normalize.extras import metadata_of
from smart_core.data.normalize.labels import flat_labels, text_to_codes, zero_based
from smart_core.data.roles.names import role_of, split_of
from smart_core.data.samples import located
from smart_core.data.split import check_split, split_part
from smart_core.errors import Fix, LogitFileError
from smart_core.formatting import plural, printable

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

ROUNDED = 1e-3
"""How far a row of probabilities may be from a sum of 1 to be taken for such."""
LAZY_ABOVE = 1 << 30
"""Bytes of files above which the command line leaves the logits in them."""
REDUCED_ABOVE = 1 << 26
"""The same for the curves of reduced sets."""
FIRST_ROWS = 64
"""Rows that are looked at to find out whether they are probabilities."""


@dataclass
class _Split:
    """What was found of one split, in the order of the shards."""

    shards: list[Shard] = field(default_factory=list)
    classes: int = 0
    vectors: dict[str, list[tuple[str, str, Found]]] = field(default_factory=dict)
    """Name -> path, key and form of each piece."""

    @property
    def rows(self) -> int:
        return sum(shard.rows for shard in self.shards)


def open(
    source: Paths | None = None,
    *,
    labels: Paths | Array | None = None,
    val: Paths | None = None,
    test: Paths | None = None,
    name: str | None = None,
    val_fraction: float = 0.5,
    split_seed: int = 0,
    values: Literal["logits", "probabilities"] | None = None,
    labels_start_at: Literal[0, 1] | None = None,
) -> LogitSet:
    """Open shards of logits without reading them; `compare`, fits, `sensitivity` and `benchmark` take the set.

    A source is a path, a folder, a pattern such as `"logits_*.npy"`, an fsspec URL, or a list of these, of npy,
    safetensors, Parquet, Arrow, HDF5 or zarr. Shards are joined in the order of their numbers. Labels are in the shards
    beside the logits, in files of their own among the sources, or given as `labels`, a path or an array; other vectors
    become metadata. The split is that of `val` and `test` or of the names; otherwise the rows are split at random,
    stratified by label, as by `load`. Evaluations read every row of test; a fit reads a sample of validation if the
    whole is large. The files are read in this process and in its workers, so open your own: see `docs/trust.md`.

    >>> import tempfile
    >>> import smart_core as sc
    >>> part = sc.simulate(600, classes=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/logits_0.npy", part.logits[:200])
    ...     np.save(f"{folder}/logits_1.npy", part.logits[200:])
    ...     data = sc.open(f"{folder}/logits_*.npy", labels=part.labels, name="two shards")
    ...     print(data, sc.evaluate(sc.TS().fit_part(data.validation), data.test).confidence.shape)
    LogitSet('two shards', 3 classes, 300 + 300 samples) (300,)
    """
    check_split(val_fraction, split_seed)
    if source is not None and (reduced := reduced_paths(source)):
        return open_reduced(
            reduced, stem_of(name) if name else stem_of(Path(reduced[0]).name), val_fraction, split_seed
        )
    notices: list[Notice] = []
    parts = open_parts(source, labels, val, test, values, labels_start_at, notices)
    title = stem_of(name) if name else name_of_set(parts)
    if "val" in parts and "test" in parts:
        validation, test_part = parts["val"], parts["test"]
    elif None in parts:
        validation, test_part = split_part(parts[None], title, val_fraction, split_seed, notices)  # type: ignore[assignment]
    else:
        raise LogitFileError("there is only one split", Fix("splits"), file=title)
    _say_sample(validation, notices)
    return LogitSet(title, validation, test_part, notices=tuple(notices))


def reduced_paths(source: Paths) -> list[str]:
    """The files of a source if they hold reduced rows; empty if the first one does not."""
    paths = _paths(source)
    return paths if paths and tail_column(paths[0]) is not None else []


def open_parts(
    source: Paths | None,
    labels: Paths | Array | None,
    val: Paths | None,
    test: Paths | None,
    values: str | None,
    labels_start_at: int | None,
    notices: list[Notice],
) -> dict[str | None, LazyPart]:
    """The parts that the shards hold: `val` and `test`, or None for all rows of a set without a split."""
    if (source is None) == (val is None and test is None):
        raise LogitFileError("Give shards, or val= and test=, not both.")
    splits: dict[str | None, _Split] = {}
    for split, sources in ((None, source), ("val", val), ("test", test)):
        paths = _paths(sources)
        notices += [Notice("gaps", f"{gap[0].upper()}{gap[1:]}.") for gap in _gaps(paths)]
        for path in paths:
            _add(splits, path, split)
    return _parts(splits, labels, values, labels_start_at, notices)


def open_part(
    source: Paths,
    labels: Paths | Array | None = None,
    values: str | None = None,
    labels_start_at: int | None = None,
) -> tuple[LazyPart, list[Notice]]:
    """Open shards of one split, whichever their names say, and the notices about them."""
    splits: dict[str | None, _Split] = {}
    for path in _paths(source):
        _add(splits, path, "val")
    notices: list[Notice] = []
    (part,) = _parts(splits, labels, values, labels_start_at, notices).values()
    _say_sample(part, notices)
    return part, notices


def open_logits(source: Paths, values: str | None = None, share: tuple[int, int] | None = None) -> LazyRows:
    """Open shards without labels; `share` (i, n) takes the i-th of n parts of the files."""
    splits: dict[str | None, _Split] = {}
    for path in _paths(source):
        _add(splits, path, "test")
    found = splits.get("test", _Split())
    if not found.shards:
        raise LogitFileError("No matrix of logits was found; name the files of the shards.")
    shards = found.shards[share[0] - 1 :: share[1]] if share else found.shards
    return LazyRows(tuple(shards), found.classes, None, _are_probabilities(found, values, []))


def are_large(paths: Sequence[str]) -> bool:
    """Whether files together are so large that they are left where they are, and all can be read by rows."""
    try:
        found = [path for path in _paths(list(paths)) if not is_url(path)]
        size = sum(Path(path).stat().st_size for path in found)
        if size <= REDUCED_ABOVE or not all(Path(path).suffix.lower() in READERS for path in found):
            return False
        return size > LAZY_ABOVE or tail_column(found[0]) is not None
    except (LogitFileError, OSError):  # loading says what is wrong
        return False


def _say_sample(part: LazyPart, notices: list[Notice]) -> None:
    if part.fit_size < len(part):
        text = (
            f"Fits read {part.fit_size:,} of the {len(part):,} validation rows, a sample stratified by label; "
            "evaluations read every test row."
        )
        notices.append(Notice("fit_sample", text))


def _gaps(paths: Sequence[str]) -> list[str]:
    """What is missing of families of numbered files, if fewer numbers are missing than there are."""
    families: dict[tuple[str, str], dict[int, str]] = {}
    for path in paths:
        folder, stem, number, _ = by_number(path)
        if number >= 0:
            families.setdefault((folder, stem), {})[number] = name_of(path)
    found = []
    for names in families.values():
        count, first = max(names) + 1 - min(names) - len(names), min(names)
        if 0 < count < len(names):
            while first in names:
                first += 1
            what = f"the shard numbered {first}" if count == 1 else f"{count:,} shards, the first numbered {first},"
            found.append(f"{what} after {names[first - 1]} {'is' if count == 1 else 'are'} missing")
    return found


# -- which files -----------------------------------------------------------------------------------------------


def _paths(sources: Paths | None) -> list[str]:
    """Every file that the caller named, those of one family in the order of their numbers."""
    if sources is None:
        return []
    single = isinstance(sources, str | os.PathLike)
    given: Iterable[str | os.PathLike[str]] = [sources] if single else sources  # type: ignore[assignment, list-item]
    return [path for item in given for path in _files(item)]


def _files(item: str | os.PathLike[str]) -> list[str]:
    text = os.fspath(item)
    if is_url(text):
        return _of_url(text)
    path = located(text)
    if path.is_dir() and path.suffix.lower() != ".zarr":
        found = [str(each) for each in path.iterdir() if each.suffix.lower() in READERS]
        if not found:
            raise LogitFileError("is a folder without shards", f"shards are {READABLE_BY_ROWS}", file=name_of(text))
        return sorted(found, key=by_number)
    if glob.has_magic(text) and not path.exists():
        found = glob.glob(text, recursive=True)
        if not found:
            raise LogitFileError("no file matches this pattern", "check the path", file=printable(text, 200))
        return sorted(found, key=by_number)
    if not path.exists():
        raise LogitFileError(f"there is no such file ({printable(text, 200)})", "check the path", file=name_of(text))
    return [str(path)]


def _of_url(url: str) -> list[str]:
    with reading(url):
        import fsspec

        if not glob.has_magic(url):
            return [url]
        filesystem, inner = fsspec.core.url_to_fs(url)
        return sorted((filesystem.unstrip_protocol(path) for path in filesystem.glob(inner)), key=by_number)


def by_number(path: str) -> tuple[str, str, int, str]:
    """By folder, name without the number, and number: `logits_2` comes before `logits_10`."""
    stem, number = shard_of(stem_of(Path(path).name))
    return str(Path(path).parent), stem, -1 if number is None else number, path


# -- what is in them -------------------------------------------------------------------------------------------


def _add(splits: dict[str | None, _Split], path: str, given: str | None) -> None:
    """Add the arrays of one file to the splits that they belong to."""
    with reading(path):
        arrays = reader_of(path).arrays(path)
    stem = shard_of(stem_of(Path(path).name))[0]
    roles = {key: role_of(key.rsplit("/", 1)[-1].rstrip("*") or stem) for key in arrays}
    matrices = [key for key, each in arrays.items() if len(each.shape) == 2 and each.shape[1] > 1 and each.kind == "f"]
    named = [key for key in matrices if roles[key] == "logits"]
    scores = named or [key for key in matrices if roles[key] is None][:1]
    used = False
    for key, each in arrays.items():
        split = given or split_of(key) or split_of(Path(path).name)
        if split == "train":
            continue
        target = splits.setdefault(split, _Split())
        if key in scores:
            if target.shards and target.classes != each.shape[1]:
                problem = f"has {each.shape[1]} columns where {target.shards[0].name} has {target.classes}"
                raise LogitFileError(problem, "save every shard alike", file=name_of(path))
            if target.shards and target.shards[-1].path == path:
                problem = "holds several matrices of logits for one split"
                raise LogitFileError(problem, "save them in files of their own", file=name_of(path))
            target.classes, used = each.shape[1], True
            if each.shape[0]:
                target.shards.append(Shard(path, key, each.shape[0]))
        elif len(each.shape) == 1 or (len(each.shape) == 2 and each.shape[1] == 1):
            role = roles[key]
            own = "labels" if role == "labels" or (role is None and not key and each.kind == "i") else role or ""
            title = own if own in ("labels", "group") else (key.rsplit("/", 1)[-1] or stem)
            target.vectors.setdefault(title, []).append((path, key, each))
            used = True
    if not used:
        problem = "holds no matrix of logits and no labels"
        raise LogitFileError(problem, "name the files of the shards", file=name_of(path))


def _parts(
    splits: dict[str | None, _Split],
    labels: Paths | Array | None,
    values: str | None,
    labels_start_at: int | None,
    notices: list[Notice],
) -> dict[str | None, LazyPart]:
    """The parts with their labels as classes from 0, and their metadata."""
    filled = {split: found for split, found in splits.items() if found.shards}
    if not filled:
        raise LogitFileError("No matrix of logits was found; name the files of the shards.")
    if len({found.classes for found in filled.values()}) > 1:
        raise LogitFileError("The splits have different numbers of columns; give shards of one model.")
    items, texts = [], []
    for found in filled.values():
        item = _labels(found, labels if len(filled) == 1 else None)
        if len(item.values) != found.rows:
            where = plural(len(found.shards), "shard")
            problem = f"there are {len(item.values):,} labels for {found.rows:,} rows in {where}"
            problem += "".join(f"; {gap}" for gap in _gaps([shard.path for shard in found.shards]))
            raise LogitFileError(problem, "give one label per row", file=item.file)
        items.append(item)
        texts.append(flat_labels(item, notices))
    classes = next(iter(filled.values())).classes
    coded, _ = text_to_codes(items, texts, None, classes, notices)
    coded = zero_based(items, coded, classes, labels_start_at, notices)
    probabilities = _are_probabilities(next(iter(filled.values())), values, notices)
    parts: dict[str | None, LazyPart] = {}
    for (split, found), own in zip(filled.items(), coded, strict=True):
        others = {name: _vector(found, name) for name in found.vectors if name not in ("labels", "group")}
        metadata = {
            name: metadata_of(RawArray.of(found.shards[0].name, (name,), array), found.rows)
            for name, array in others.items()
            if len(array) == found.rows
        }
        group = _vector(found, "group").astype(np.str_) if "group" in found.vectors else None
        logits = LazyRows(tuple(found.shards), classes, None, probabilities)
        parts[split] = LazyPart(logits, own, group=group, metadata=metadata)  # type: ignore[arg-type]
    return parts


def _labels(found: _Split, given: Paths | Array | None) -> RawArray:
    """The labels of a split as they were saved."""
    first = found.shards[0].name
    if given is None:
        if "labels" not in found.vectors:
            fixes = "give labels=, a file or an array", "name the file of the labels among the sources"
            raise LogitFileError("no labels were found beside the logits", *fixes, file=first)
        return RawArray.of(name_of(found.vectors["labels"][0][0]), ("labels",), _vector(found, "labels"))
    if not isinstance(given, str | os.PathLike | list | tuple) or (
        isinstance(given, list | tuple) and not all(isinstance(item, str | os.PathLike) for item in given)
    ):
        return RawArray.of("labels", ("labels",), np.asarray(given))
    paths = _paths(given)
    own = _Split()
    if all(Path(path).suffix.lower() in READERS for path in paths):
        for path in paths:
            with reading(path):
                arrays = {key: each for key, each in reader_of(path).arrays(path).items() if len(each.shape) == 1}
            best = [key for key in arrays if role_of(key) == "labels"] or list(arrays)
            if len(best) != 1:
                raise LogitFileError("holds no vector of labels, or several", "name one 'labels'", file=name_of(path))
            own.vectors.setdefault("labels", []).append((path, best[0], arrays[best[0]]))
        return RawArray.of(name_of(paths[0]), ("labels",), _vector(own, "labels"))
    read = {key: array for key, array in Document.open(paths).arrays().items() if array.ndim == 1}
    best = [key for key in read if role_of(key) == "labels"] or list(read)
    if len(best) != 1:
        raise LogitFileError("holds no vector of labels, or several", "name one 'labels'", file=name_of(paths[0]))
    return RawArray.of(name_of(paths[0]), ("labels",), read[best[0]])


def _vector(found: _Split, name: str) -> Array:
    """A vector of all pieces, in the order of the shards that hold them."""
    pieces = []
    for path, key, each in found.vectors[name]:
        with reading(path):
            pieces += [
                block.reshape(-1).copy() for block in reader_of(path).blocks(path, key, 0, each.shape[0], 1 << 24)
            ]
    return np.concatenate(pieces) if pieces else np.empty(0)


def _are_probabilities(found: _Split, values: str | None, notices: list[Notice]) -> bool:
    """Whether the files hold probabilities, by the first rows unless the caller says it."""
    shard = found.shards[0]
    if values is not None:
        return values == "probabilities"
    first = LazyRows((shard,), found.classes)[: min(FIRST_ROWS, shard.rows)]
    if first.min() < 0.0 or np.abs(first.sum(axis=1, dtype=np.float64) - 1.0).max() > ROUNDED:
        return False
    text = f"{shard.name}: rows sum to 1, so the logits are the logarithms of these probabilities."
    notices.append(Notice("probabilities", text))
    return True


def name_of_set(parts: Mapping[str | None, LazyPart]) -> str:
    """The name of the shards' files, or of their folder if they say only what they hold."""
    first = Path(next(iter(parts.values())).rows.shards[0].path)
    stem = shard_of(stem_of(first.name))[0]
    return printable(first.parent.name or stem) if role_of(stem) and not is_url(str(first)) else printable(stem)
