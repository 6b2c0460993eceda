"""`ParsedDocument`: files parsed in this process, which can be described, loaded, or read without labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from smart_core.data.checks import notices_of
from smart_core.data.formats.raw import RawArray, RawFile
from smart_core.data.logitset import Array, Head, LogitSet, Notice, Part
from smart_core.data.normalize import extras
from smart_core.data.normalize.parts import Options, Unlabelled, parts_of, unlabelled_of
from smart_core.data.reduced import is_reduced, reduced_columns, reduced_part, reduced_set
from smart_core.data.roles.assign import (
    IGNORED,
    Assignment,
    Roles,
    assign,
    assign_confidences,
    assign_logits,
    candidates_of,
    is_validation_only,
)
from smart_core.data.roles.candidates import WHOLE
from smart_core.data.roles.columns import arrays_of_table
from smart_core.data.roles.names import role_of, split_of, without_role_and_split
from smart_core.data.split import check_split, split_part
from smart_core.errors import Fix, LogitFileError
from smart_core.formatting import error_text, first_few, plural, printable

Files = tuple[RawFile, ...]


@dataclass(frozen=True)
class ArrayInfo:
    """One array of a file, as `describe` lists it; `key` is its name in `roles`."""

    file: str
    key: str
    shape: tuple[int, ...]
    dtype: str
    role: str
    """`val_logits`, `labels`, `head_weight`, ..., or `ignored`, or `unknown`."""
    problem: str | None = None
    """Why it cannot be used, or None."""


@dataclass(frozen=True, eq=False)
class Labelled:
    """One part with labels, and the head if the files have one: what a fit needs."""

    part: Part
    head: Head | None
    notices: tuple[Notice, ...]


@dataclass(frozen=True, eq=False)
class ParsedDocument:
    """One or more parsed files. Every method works on the same raw arrays and parses nothing again.

    Any problem raises `LogitFileError`.
    """

    files: Files
    name: str
    """The name of the set that is loaded from the files."""

    @classmethod
    def of(cls, raw: Iterable[RawFile], name: str | None = None) -> ParsedDocument:
        """Find the arrays of files that were read; without a name, that of the files is used."""
        files = tuple(map(_raw_file, raw))
        return cls(files, name or _name_of(files))

    def describe(self, roles: Roles | None = None) -> list[ArrayInfo]:
        """List every array with the role it would have: what a form needs to ask for `roles`.

        If the arrays do not form a set (one is missing, or two could have the same role), the role is the one that the
        array's name suggests, or `unknown`.
        """
        with _file_errors(self.files):
            arrays = [item for file in self.files for item in file.arrays]
            try:
                names = assign(self.files, roles).role_names()
            except LogitFileError:
                names = {id(candidate.array): candidate.role_name for candidate in candidates_of(self.files, roles)}
            return [ArrayInfo(x.file, x.key, x.shape, x.dtype, names.get(id(x), IGNORED), x.problem) for x in arrays]

    def load(
        self, *, val_fraction: float = 0.5, split_seed: int = 0, roles: Roles | None = None, **guesses: Any
    ) -> LogitSet:
        """Return the files as a `LogitSet`; the options are those of `smart_core.load`."""
        check_split(val_fraction, split_seed)
        options = Options(**guesses)
        given = {file.split for file in self.files}
        if given in ({"val"}, {"test"}):
            has, fix = ("validation", Fix("test")) if given == {"val"} else ("test", Fix("val"))
            again = "give the files without a split to have them split at random"
            raise LogitFileError(f"only {has} files were given", fix, again, file=self.files[0].name)
        with _file_errors(self.files):
            if is_reduced(self.files):
                return reduced_set(self.files, self.name, val_fraction, split_seed)
            assigned, parts, class_names, notices = _parts(self.files, roles, options)
            if "split" in assigned.parts.get(WHOLE, {}):
                validation, test = _divided(parts[WHOLE], assigned.parts[WHOLE]["split"], notices)
            elif WHOLE in parts:
                validation, test = split_part(parts[WHOLE], self.files[0].name, val_fraction, split_seed, notices)
            else:
                validation, test = (_existing(parts, split, self.files) for split in ("val", "test"))
            head = extras.head_of(assigned.shared, validation.classes, _features(validation, test, self.files), notices)
            data = LogitSet(self.name, validation, test, head, class_names)
            return replace(data, notices=tuple(dict.fromkeys([*notices, *notices_of(data)])))

    def is_validation_only(self, roles: Roles | None = None) -> bool:
        """Return whether the files say that they are a validation part, so that a fit need not split them."""
        return is_validation_only(self.files, roles)

    def validation(self, roles: Roles | None = None, **guesses: Any) -> Labelled:
        """Return the validation part; the files need not hold any other."""
        files = tuple(replace(file, split="val") for file in self.files)
        with _file_errors(files):
            if is_reduced(files):
                return Labelled(reduced_part(files), None, ())
            assigned, parts, _, notices = _parts(files, roles, Options(**guesses))
            part = _existing(parts, "val", files)
            head = extras.head_of(assigned.shared, part.classes, part.features, notices)
            return Labelled(part, head, tuple(dict.fromkeys(notices)))

    def arrays(self) -> dict[str, Array]:
        """Return every array that can be used, by its key."""
        return {x.key: x.values for file in self.files for x in file.arrays if x.problem is None}

    def logits(
        self, *, classes: int | None = None, roles: Roles | None = None, **guesses: Any
    ) -> dict[str, Unlabelled]:
        """Return the logits by split, as `Document.logits` does."""
        options = Options(**guesses)
        with _file_errors(self.files):
            assigned = (assign_confidences if classes == 0 else assign_logits)(self.files, roles)
            notices = [notice for file in self.files for notice in file.notices] + assigned.notices
            return unlabelled_of(assigned, classes, options, notices)


@contextmanager
def _file_errors(files: Files) -> Iterator[None]:
    """Raise `LogitFileError` for shapes or types that no other check covers."""
    try:
        yield
    except (LogitFileError, MemoryError):
        raise
    except Exception as error:
        problem = f"cannot be used as logits ({error_text(error)})"
        raise LogitFileError(problem, "check its arrays", file=files[0].name) from error


def _raw_file(raw: RawFile) -> RawFile:
    """Return the file with the columns of a table as arrays."""
    with _file_errors((raw,)):
        return raw if raw.columns is None else reduced_columns(raw) or arrays_of_table(raw)


def _parts(
    files: Files, roles: Roles | None, options: Options
) -> tuple[Assignment, dict[str, Part], tuple[str, ...] | None, list[Notice]]:
    assigned = assign(files, roles)
    notices = [notice for file in files for notice in file.notices] + assigned.notices
    return assigned, *parts_of(assigned, options, notices), notices


def _divided(whole: Part, item: RawArray, notices: list[Notice]) -> tuple[Part, Part]:
    """Return (validation, test) by an array that names the split of each row; rows of neither are left out."""
    names = extras.group_of(item, len(whole))
    splits = {name: split_of(name) for name in set(names.tolist())}
    masks = {split: np.isin(names, [n for n, s in splits.items() if s == split]) for split in ("val", "test")}
    for split, mask in masks.items():
        if not mask.any():
            problem = f"names no {split} rows (it says {first_few(sorted(printable(name) for name in splits))})"
            raise item.error(problem, "write val and test", "leave it out to have the rows split at random")
    left = len(whole) - sum(int(mask.sum()) for mask in masks.values())
    if left:
        belong, were = ("belongs", "was") if left == 1 else ("belong", "were")
        text = f"{item.file}: {plural(left, 'row')} that {belong} to neither val nor test {were} left out."
        notices.append(Notice("rows_left_out", text))
    return whole.subset(masks["val"]), whole.subset(masks["test"])


def _existing(parts: dict[str, Part], split: str, files: Files) -> Part:
    if split not in parts:
        problem = f"no {split} logits and labels were found"
        raise LogitFileError(problem, f"give the {split} files, or one set to be split", file=files[0].name)
    return parts[split]


def _features(validation: Part, test: Part, files: Files) -> np.ndarray | None:
    """Return the features of either part; raise if the parts have different numbers per sample."""
    first, second = validation.features, test.features
    if first is not None and second is not None and first.shape[1] != second.shape[1]:
        problem = f"validation has {first.shape[1]} features per sample, test {second.shape[1]}"
        raise LogitFileError(problem, "save both from the same layer", file=files[0].name)
    return first if first is not None else second


def _name_of(files: Files) -> str:
    """Return the file's name; of several files, without the words that only say its role, or the folder's name."""
    first = files[0]
    if len(files) > 1 and (split_of(first.stem) or role_of(first.stem)):
        return without_role_and_split(first.stem) or first.folder or "logits"
    return first.stem
