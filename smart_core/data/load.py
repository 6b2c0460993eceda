"""`load`: from files to a checked `LogitSet`. This is the door; nothing behind it checks again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np

from smart_core.data import extras
from smart_core.data.assign import Assignment, assign
from smart_core.data.checks import notices_of
from smart_core.data.found import Contents, Found, plural, reason, refuse, shown
from smart_core.data.logitset import LogitSet, Notice, Part
from smart_core.data.memory import found_in_memory
from smart_core.data.partition import check_split, split_part
from smart_core.data.parts import parts_of
from smart_core.data.readers import read
from smart_core.data.reading import Reading
from smart_core.data.roles import ROLE_NAMES, role_of, split_of, words
from smart_core.data.slots import WHOLE, Files, Roles, slots_of
from smart_core.data.source import Source, Sources, collect
from smart_core.errors import LogitFileError


@dataclass(frozen=True)
class ArrayInfo:
    """One array of a file, as `describe` lists it; `key` is the name that `roles` knows it by."""

    file: str
    key: str
    shape: tuple[int, ...]
    dtype: str
    role: str
    """`val_logits`, `labels`, `head_weight`, ..., or `ignored`, or `unknown`."""
    problem: str | None = None
    """Why it cannot be used, where it cannot."""


def load(
    source: Sources | None = None,
    *,
    val: Sources | None = None,
    test: Sources | None = None,
    name: str | None = None,
    val_fraction: float = 0.5,
    split_seed: int = 0,
    roles: Roles | None = None,
    values: Literal["logits", "probabilities"] | None = None,
    labels_start_at: Literal[0, 1] | None = None,
    transposed: bool | None = None,
) -> LogitSet:
    """Reads logits and labels from a bundle, a pair of files, or `val=` and `test=` files.

    A source is a path, bytes (with `name=`), an open file, a (name, bytes) pair, or a list of these. A set
    without a split is split at random, stratified by label. Whatever is wrong raises `LogitFileError`.

    What is not said outright is understood from names, shapes and values, and noted in `notices`. These options
    settle it instead; a notice names the one that would have it otherwise in its `cure`:

    roles: which array is what, {"val_logits": "a", "val_labels": "b", ...}: the roles are logits, labels,
        features, cw_l2 and group (of one side with val_ or test_ before), split, head_weight, head_bias and
        class_names; the arrays go by the keys that `describe` lists, or "file:key" where two files share one. None in
        place of an array leaves the role out. Roles that are not given are found as ever.
    values: "logits" or "probabilities" (or percentages); by default rows that sum to 1 are probabilities, rows
        that sum to 100 percentages.
    labels_start_at: 0 or 1; by default 1 where the labels run up to the number of classes and none is 0.
    transposed: whether a column is a sample; by default where only then there are as many samples as labels.
    """
    check_split(val_fraction, split_seed)
    reading = Reading(values, labels_start_at, transposed)
    files = [(item, read(item)) for item in collect(source, val, test, name)]
    sides = {item.split for item, _ in files}
    if sides in ({"val"}, {"test"}):
        given, other = ("val", "test") if sides == {"val"} else ("test", "val")
        cure = f"give {other}= as well, or pass the file without {given}= to have it split at random"
        raise refuse(files[0][0].name, f"only {given}= was given", cure)
    with one_sentence(files[0][0].name):
        return _set_of(_name_of(files, name), files, roles, reading, val_fraction, split_seed)


def from_arrays(
    name: str = "arrays",
    *,
    val_fraction: float = 0.5,
    split_seed: int = 0,
    values: Literal["logits", "probabilities"] | None = None,
    labels_start_at: Literal[0, 1] | None = None,
    transposed: bool | None = None,
    **arrays: Any,
) -> LogitSet:
    """A `LogitSet` of arrays in memory under their bundle names, through the same checks as a file.

    NumPy arrays, torch tensors on any device, pandas columns and lists are converted, and copied.
    """
    check_split(val_fraction, split_seed)
    reading = Reading(values, labels_start_at, transposed)
    with one_sentence(name):
        found = [found_in_memory(name, key, value) for key, value in arrays.items() if value is not None]
        return _set_of(name, [(Source(name, b""), Contents(found))], None, reading, val_fraction, split_seed)


def describe(
    source: Sources | None = None,
    *,
    val: Sources | None = None,
    test: Sources | None = None,
    name: str | None = None,
    roles: Roles | None = None,
) -> list[ArrayInfo]:
    """Every array that the files hold, with the role it would have: what a form needs to ask for `roles`.

    Where the roles as a whole make no set (something is missing, or two arrays could be one thing), the role is
    what the array's name says, or `unknown`.
    """
    files = [(item, read(item)) for item in collect(source, val, test, name)]
    try:
        assigned: Assignment | None = assign(files, roles)
    except LogitFileError:
        assigned = None
        told = {id(slot.found): slot.told for slot in slots_of(files, roles)}
    return [
        ArrayInfo(
            item.file,
            item.key,
            item.shape,
            item.dtype,
            assigned.role_text(item) if assigned else told[id(item)],
            item.problem,
        )
        for _, contents in files
        for item in contents.found
    ]


@contextmanager
def one_sentence(file: str) -> Iterator[None]:
    """A shape or type nobody thought of is still a fault of the file, and said like one."""
    try:
        yield
    except LogitFileError:
        raise
    except Exception as error:
        what = f"cannot be used as logits ({reason(error)})"
        raise refuse(file, what, "check its arrays") from error


def _set_of(
    name: str,
    files: Files,
    roles: Roles | None,
    reading: Reading,
    val_fraction: float,
    split_seed: int,
) -> LogitSet:
    notices = [notice for _, contents in files for notice in contents.notices]
    assigned = assign(files, roles)
    notices += assigned.notices
    parts, class_names = parts_of(assigned, reading, notices)
    if WHOLE in parts:
        whole = parts[WHOLE]
        division = assigned.parts[WHOLE].get("split")
        if division is not None:
            validation, test = _divide(whole, division, notices)
        else:
            validation, test = split_part(whole, files[0][0].name, val_fraction, split_seed, notices)
    else:
        validation, test = (parts.get(side) or _lacking(side, files) for side in ("val", "test"))
    features = validation.features if validation.features is not None else test.features
    if features is not None and test.features is not None and features.shape[1] != test.features.shape[1]:
        what = f"validation has {features.shape[1]} features a row, test {test.features.shape[1]}"
        raise refuse(files[0][0].name, what, "save both from the same layer")
    head = extras.head_of(assigned.shared, validation.classes, features, notices)
    data = LogitSet(name, validation, test, head, class_names)
    return replace(data, notices=tuple(dict.fromkeys([*notices, *notices_of(data)])))


def _divide(whole: Part, item: Found, notices: list[Notice]) -> tuple[Part, Part]:
    """The two sides by a column that names them; rows of neither side are left out."""
    names = extras.group_of(item, len(whole))
    sides = {name: split_of(name) for name in set(names.tolist())}
    masks = {side: np.isin(names, [n for n, s in sides.items() if s == side]) for side in ("val", "test")}
    for side, mask in masks.items():
        if not mask.any():
            listed = ", ".join(sorted(shown(name) for name in sides)[:5])
            what = f"{item.label} names no {side} rows (it says {listed})"
            raise refuse(item.file, what, "write val and test, or leave it out to have the rows split at random")
    left = len(whole) - sum(int(mask.sum()) for mask in masks.values())
    if left:
        notices.append(Notice("rows_left_out", f"{item.file}: {plural(left, 'row')} of neither val nor test left out."))
    return whole.subset(masks["val"]), whole.subset(masks["test"])


def _lacking(side: str, files: Files) -> NoReturn:
    raise refuse(files[0][0].name, f"no {side} logits and labels were found", "give both sides, or one set to be split")


def _name_of(files: Files, given: str | None) -> str:
    """The file's name without the words that only say its role, the folder's where nothing is left, or `logits`."""
    if given:
        return shown(Path(given).stem)
    source = files[0][0]
    if len(files) > 1:
        plain = {name for names in ROLE_NAMES.values() for name in names}
        if split_of(source.stem) or role_of(source.stem):
            rest = [word for word in words(source.stem) if word not in plain and split_of(word) is None]
            return "_".join(rest) or source.folder or "logits"
    return source.stem
