"""`load`: from files to a checked `LogitSet`. This is the door; nothing behind it checks again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from smart_core.data import extras
from smart_core.data.assign import Assignment, assign
from smart_core.data.checks import notices_of
from smart_core.data.found import Contents, Found, found_array, plural, refuse, shown
from smart_core.data.logitset import LogitSet, Notice, Part
from smart_core.data.parts import Cures, parts_of
from smart_core.data.readers import read
from smart_core.data.roles import ROLE_NAMES, role_of, split_of, words
from smart_core.data.slots import WHOLE, Files
from smart_core.data.source import Source, Sources, collect
from smart_core.data.split import stratified_split
from smart_core.errors import LogitFileError


@dataclass(frozen=True)
class ArrayInfo:
    """One array of a file, as `describe` lists it."""

    file: str
    key: str
    shape: tuple[int, ...]
    dtype: str
    role: str


def load(
    source: Sources | None = None,
    *,
    val: Sources | None = None,
    test: Sources | None = None,
    name: str | None = None,
    val_fraction: float = 0.5,
    split_seed: int = 0,
    roles: Mapping[str, str] | None = None,
    treat_as: str | None = None,
    one_based: bool | None = None,
    transpose: bool | None = None,
) -> LogitSet:
    """Reads logits and labels from a bundle, a pair of files, or `val=` and `test=` files.

    A source is a path, bytes (with `name=`), a (name, bytes) pair, or a list of these. A set without a split
    is split at random, stratified by label. `roles` gives arrays their role by hand ({"a": "val_logits",
    "b": "ignore"}); `treat_as` ("logits" or "probabilities"), `one_based` and `transpose` settle what is
    otherwise understood from the values and noted in `notices`. Whatever is wrong raises `LogitFileError`.
    """
    _check_arguments(val_fraction, split_seed, treat_as)
    files = [(item, read(item)) for item in collect(source, val, test, name)]
    sides = {item.split for item, _ in files}
    if sides in ({"val"}, {"test"}):
        given, other = ("val", "test") if sides == {"val"} else ("test", "val")
        cure = f"give {other}= as well, or pass the file without {given}= to have it split at random"
        raise refuse(files[0][0].name, f"only {given}= was given", cure)
    cures = Cures(treat_as, one_based, transpose)
    with one_sentence(files[0][0].name):
        return _set_of(_name_of(files, name), files, roles, cures, val_fraction, split_seed)


def from_arrays(name: str = "arrays", *, val_fraction: float = 0.5, split_seed: int = 0, **arrays: Any) -> LogitSet:
    """A `LogitSet` of arrays in memory under their bundle names, through the same checks as a file."""
    _check_arguments(val_fraction, split_seed, None)
    with one_sentence(name):
        present = {key: np.array(value) for key, value in arrays.items() if value is not None}
        contents = Contents([found_array(name, (key,), value) for key, value in present.items()])
        return _set_of(name, [(Source(name, b""), contents)], None, Cures(), val_fraction, split_seed)


def describe(
    source: Sources | None = None,
    *,
    val: Sources | None = None,
    test: Sources | None = None,
    name: str | None = None,
    roles: Mapping[str, str] | None = None,
) -> list[ArrayInfo]:
    """Every array that the files hold, with the role it would have (or `ignored`, or `unknown`)."""
    files = [(item, read(item)) for item in collect(source, val, test, name)]
    try:
        assigned: Assignment | None = assign(files, roles)
    except LogitFileError:
        assigned = None
    return [
        ArrayInfo(item.file, item.key, item.shape, item.dtype, assigned.role_text(item) if assigned else "unknown")
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
        what = f"cannot be used as logits ({shown(str(error) or type(error).__name__, 120).rstrip('.')})"
        raise refuse(file, what, "check its arrays") from error


def _set_of(
    name: str,
    files: Files,
    roles: Mapping[str, str] | None,
    cures: Cures,
    val_fraction: float,
    split_seed: int,
) -> LogitSet:
    notices = [notice for _, contents in files for notice in contents.notices]
    assigned = assign(files, roles)
    notices += assigned.notices
    parts, class_names = parts_of(assigned, cures, notices)
    if WHOLE in parts:
        whole = parts[WHOLE]
        division = assigned.parts[WHOLE].get("split")
        if division is not None:
            validation, test = _divide(whole, division, notices)
        else:
            validation, test = _split(whole, files[0][0].name, val_fraction, split_seed, notices)
    else:
        validation, test = (parts.get(side) or _lacking(side, files) for side in ("val", "test"))
    features = validation.features if validation.features is not None else test.features
    if features is not None and test.features is not None and features.shape[1] != test.features.shape[1]:
        what = f"validation has {features.shape[1]} features a row, test {test.features.shape[1]}"
        raise refuse(files[0][0].name, what, "save both from the same layer")
    head = extras.head_of(assigned.shared, validation.classes, features, notices)
    data = LogitSet(name, validation, test, head, class_names)
    return replace(data, notices=tuple(dict.fromkeys([*notices, *notices_of(data)])))


def _split(whole: Part, file: str, fraction: float, seed: int, notices: list[Notice]) -> tuple[Part, Part]:
    if len(whole) < 2:
        raise refuse(file, "holds a single row, which cannot be split", "give more rows, or val= and test= files")
    validation, test = stratified_split(whole.labels, fraction, seed)
    text = (
        f"One set of {len(whole):,} rows, split at random and stratified by label: "
        f"{len(validation):,} validation, {len(test):,} test (fraction {fraction:g}, seed {seed})."
    )
    notices.append(Notice("split", text))
    return whole.subset(validation), whole.subset(test)


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


def _check_arguments(val_fraction: float, split_seed: int, treat_as: str | None) -> None:
    if not 0.0 < val_fraction < 1.0:
        raise LogitFileError(f"The validation fraction must lie between 0 and 1, not {val_fraction}.")
    if not isinstance(split_seed, int | np.integer) or split_seed < 0:
        raise LogitFileError(f"The split seed must be a whole number from 0 up, not {split_seed}.")
    if treat_as not in (None, "logits", "probabilities"):
        raise LogitFileError(f"treat_as must be logits or probabilities, not {treat_as}.")


def _name_of(files: Files, given: str | None) -> str:
    """The file's name without the words that only say its role, or the folder's where nothing is left."""
    if given:
        return Path(given).stem
    source = files[0][0]
    if len(files) > 1:
        plain = {name for names in ROLE_NAMES.values() for name in names}
        if split_of(source.stem) or role_of(source.stem):
            rest = [word for word in words(source.stem) if word not in plain and split_of(word) is None]
            return "_".join(rest) or source.folder or source.stem
    return source.stem
