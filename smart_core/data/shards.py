"""Files that are pieces of one: `logits_00.npy`, `logits_01.npy`, ...; `predictions_{rank}.pt` of several processes.

Pieces are joined in the order of their numbers. If the processes have also saved which sample each row is
(`batch_indices`, as a `BasePredictionWriter` of PyTorch Lightning does), the rows are put in that order, and samples
that a sampler repeated to fill the last batch are kept once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import PurePath

import numpy as np

from smart_core.data.file_groups import shard_of
from smart_core.data.formats.raw import ArrayPath, Column, RawArray, RawFile
from smart_core.data.logitset import Array, Notice
from smart_core.data.roles.names import role_of, words
from smart_core.errors import LogitFileError
from smart_core.formatting import plural, printable

_INDEX_WORDS = {"indices", "index", "idx"}
_OF_SAMPLES = {"batch", "sample", "samples", "dataset", "data", "row", "global"}
_SAYS_PIECE = re.compile(r"rank|shard|part|chunk|batch|worker|gpu|node|[_-]of[_-]", re.IGNORECASE)
SAVE_ALIKE = "save every piece alike"


def joined(files: Sequence[RawFile]) -> list[RawFile]:
    """Return the files with the pieces of each as one, and lists of batches as one array."""
    families: dict[tuple[str, str, str | None], list[tuple[int, RawFile]]] = {}
    for place, file in enumerate(files):
        stem, number = shard_of(file.stem)
        name = stem if number is not None else f"{place} {file.name}"
        families.setdefault((name, PurePath(file.name).suffix, file.split), []).append((number or 0, file))
    found = []
    for (stem, extension, _), numbered in families.items():
        pieces = [_batches(file, len(numbered) > 1) for _, file in sorted(numbered, key=lambda item: item[0])]
        numbers = [number for number, _ in numbered]
        found.append(pieces[0] if len(pieces) == 1 else _joined(f"{stem}_*{extension}", pieces, numbers))
    return _in_order(found, [shard_of(file.stem)[1] is not None or "*" in file.stem for file in found])


def _joined(name: str, pieces: list[RawFile], numbers: list[int]) -> RawFile:
    """Return the pieces as one file."""
    first = pieces[0]
    text = f"{printable(name)}: {len(pieces)} files, {first.name} to {pieces[-1].name}, joined in this order"
    if 0 < (missing := max(numbers) + 1 - min(numbers) - len(pieces)) < len(pieces):
        text += f"; {plural(missing, 'number')} between them {'is' if missing == 1 else 'are'} missing"
    notices = [notice for piece in pieces for notice in piece.notices]
    raw = replace(first, name=printable(name), notices=[*notices, Notice("joined", f"{text}.")])
    if first.columns is not None:
        names = [column.name for column in first.columns]
        for piece in pieces:
            if [column.name for column in piece.columns or ()] != names:
                raise LogitFileError(f"has other columns than {first.name}", SAVE_ALIKE, file=piece.name)
        tables = [piece.columns or () for piece in pieces]
        for place, one in enumerate(names):
            _check_other_samples(first, role_of(one), [table[place].values for table in tables])
        raw.columns = [
            Column(one, _concatenated(raw.name, one, [table[place].values for table in tables]))
            for place, one in enumerate(names)
        ]
        return raw
    parts: dict[ArrayPath, list[RawArray]] = {}
    for piece in pieces:
        for item in piece.arrays:
            parts.setdefault(_without_number(item.path), []).append(item)
    for path, items in parts.items():
        _check_other_samples(first, role_of(str(path[-1]) if path else raw.stem), [item.array for item in items])
    raw.arrays = [_concatenation(raw.name, path, items, len(pieces)) for path, items in parts.items()]
    return raw


def _check_other_samples(first: RawFile, role: str | None, labels: Sequence[Array | None]) -> None:
    """Raise if every piece has the same labels and no name says shard: these are several models on the same samples."""
    known = [each for each in labels if each is not None]
    if role != "labels" or _SAYS_PIECE.search(first.stem) or len(known) < 2 or len(np.unique(known[0])) < 2:
        return
    if all(np.array_equal(other, known[0]) for other in known[1:]):
        same = "1 other file holds" if len(known) == 2 else f"{len(known) - 1} other files hold"
        problem = f"{same} the same labels, so these look like several models on the same samples"
        raise LogitFileError(problem, "give the files of one model", file=first.name)


def _without_number(path: ArrayPath) -> ArrayPath:
    """The path of an array whose name is that of its file."""
    return (shard_of(path[0])[0], *path[1:]) if path and isinstance(path[0], str) else path


def _concatenation(file: str, path: ArrayPath, items: list[RawArray], pieces: int) -> RawArray:
    first = items[0]
    broken = next((item for item in items if item.problem), None)
    if broken is not None:
        return replace(broken, file=file, path=path)
    if len(items) < pieces or not first.shape:
        if all(np.array_equal(item.values, first.values) for item in items):
            return replace(first, file=file, path=path)  # the same in every piece, such as class names
        raise LogitFileError(f"{first.label} is not in every piece of {file}", SAVE_ALIKE, file=first.file)
    arrays = [item.array for item in items if item.array is not None]
    if first.kind in "USf" and len(arrays) > 1 and all(np.array_equal(one, arrays[0]) for one in arrays):
        return replace(first, file=file, path=path)  # it belongs to the model, such as its head
    values = _concatenated(file, first.key, arrays)
    return RawArray.of(file, path, values, first.dtype if values.dtype == arrays[0].dtype else None, split=first.split)


def _concatenated(file: str, name: str, arrays: list[Array]) -> Array:
    kinds = {"text" if array.dtype.kind in "US" else "numbers" for array in arrays}
    if len({array.shape[1:] for array in arrays}) > 1 or len(kinds) > 1:
        problem = f"'{printable(name)}' has another shape or type in one piece than in another"
        raise LogitFileError(problem, SAVE_ALIKE, file=file)
    return np.concatenate(arrays)


def _batches(file: RawFile, is_piece: bool) -> RawFile:
    """Join a list of batches, [{"logits": ..., "labels": ...}, ...] or [logits, logits, ...], into one array each.

    Every batch but the last is equally long. Two containers in one file are validation and test instead.
    """
    if _says_indices(shard_of(file.stem)[0]) and all(item.kind in ("i", "u") for item in file.arrays):
        # a list per batch, and Lightning has one list more around it, for each data loader
        lists = [item.values.reshape(-1) for item in file.arrays]
        return replace(file, arrays=[RawArray.of(file.name, (), np.concatenate(lists))]) if lists else file
    if len(file.arrays) < 2 or not all(item.path and isinstance(item.path[0], int) for item in file.arrays):
        return file
    batches = [list(items) for _, items in groupby(file.arrays, key=lambda item: item.path[0])]
    rests = [[item.path[1:] for item in batch] for batch in batches]
    if len(batches) < (2 if is_piece else 3) or any(rest != rests[0] for rest in rests):
        return file
    found = []
    for items in zip(*batches, strict=True):
        if any(item.array is None or not item.shape for item in items):
            return file
        lengths = [item.shape[0] for item in items]
        alike = len({(item.shape[1:], item.dtype) for item in items}) == 1
        if not alike or len({*lengths[:-1]}) > 1 or lengths[-1] > lengths[0]:
            return file
        values = np.concatenate([item.array for item in items if item.array is not None])
        found.append(RawArray.of(file.name, items[0].path[1:], values, items[0].dtype))
    if not is_piece and all(len(item.shape) == 1 for item in found):
        return file  # vectors may be batches of labels, or one sample each
    text = f"{file.name}: a list of {len(batches):,} batches, joined in its order."
    return replace(file, arrays=found, notices=[*file.notices, *([] if is_piece else [Notice("joined", text)])])


def _says_indices(name: str) -> bool:
    """Whether a name stands for the place of each row among all samples: `batch_indices`, `sample_idx`, `index`."""
    said = set(words(name))
    return bool(said & _INDEX_WORDS) and said <= _INDEX_WORDS | _OF_SAMPLES


def _is_indices(file: RawFile, item: RawArray) -> bool:
    name = str(item.path[-1]) if item.path and isinstance(item.path[-1], str) else shard_of(file.stem)[0]
    return item.kind in ("i", "u") and _says_indices(name)


def _in_order(files: list[RawFile], numbered: list[bool]) -> list[RawFile]:
    """Put the rows in the order of the indices, of which there is one for each.

    Indices in a file of their own are those of the other numbered files, not of a file for all, such as the labels.
    """
    places = [
        place for place, file in enumerate(files) for item in file.arrays if numbered[place] and _is_indices(file, item)
    ]
    if len(places) != 1:
        return files
    home = files[places[0]]
    index = next(item for item in home.arrays if _is_indices(home, item))
    rows = index.values.reshape(-1)
    _, order = np.unique(rows, return_index=True)
    alone = len(home.arrays) == 1
    found = []
    for place, file in enumerate(files):
        own = file is home or (alone and numbered[place] and numbered[places[0]])
        arrays = [_ordered(item, order, len(rows)) if own else item for item in file.arrays if item is not index]
        if own and arrays:
            repeated = len(rows) - len(order)
            again = f"; {plural(repeated, 'repeated sample')} left out" if repeated else ""
            text = f"{file.name}: the rows are put in the order of the indices in {home.name}{again}."
            file = replace(file, notices=[*file.notices, Notice("reordered", text)])
        if arrays or file.columns is not None:
            found.append(replace(file, arrays=arrays))
    return found


def _ordered(item: RawArray, order: Array, rows: int) -> RawArray:
    if item.array is None or not item.shape or item.shape[0] != rows:
        return item
    return replace(item, array=item.array[order], shape=(len(order), *item.shape[1:]))
