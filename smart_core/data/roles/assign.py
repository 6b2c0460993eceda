"""Which array has which role: from the roles given by hand, then names, then shapes; every guess leaves a notice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from smart_core.data.formats.raw import RawArray, RawFile
from smart_core.data.logitset import Array, Cure, Notice
from smart_core.data.roles.names import ROLES, ROW_ROLES, parse_role, preference, role_of, split_of, splits_named
from smart_core.errors import Fix, LogitFileError
from smart_core.formatting import first_few, plural, quoted, shape_text

WHOLE = "whole"
"""The split of arrays that are not yet divided into `val` and `test`."""
IGNORED = "ignored"
"""The role of arrays that are not used."""
BY_HAND = Cure("roles", None, "Choose the arrays by hand")

Roles = Mapping[str, str | None]
"""Role -> the array that has it, or None to leave it out."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """An array with its likely split and role; the role is None if only its shape can tell."""

    array: RawArray
    split: str
    role: str | None

    @property
    def per_sample(self) -> bool:
        """Whether it has, or may have, one entry per sample."""
        return self.role is None or self.role in ROW_ROLES

    @property
    def role_name(self) -> str:
        """`val_logits`, `head_weight`, `ignored`, or `unknown`."""
        if self.role is None:
            return "unknown"
        return _role_name(self.split, self.role) if self.per_sample else self.role


@dataclass
class Assignment:
    """Role -> array, for each split (or the whole) and for the set; and the arrays that are not used."""

    parts: dict[str, dict[str, RawArray]] = field(default_factory=dict)
    shared: dict[str, RawArray] = field(default_factory=dict)
    ignored: list[RawArray] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def role_name(self, array: RawArray) -> str:
        """Return `val_logits`, `labels`, `head_weight`, or `ignored`."""
        for split, part in self.parts.items():
            for role, item in part.items():
                if item is array:
                    return _role_name(split, role)
        return next((role for role, item in self.shared.items() if item is array), IGNORED)

    def choose(self, role: str, candidates: Sequence[Candidate]) -> dict[str, RawArray]:
        """Return {role: the preferred candidate}; raise if two different ones have the same rank."""

        def rank(candidate: Candidate) -> tuple[bool, int]:
            path = candidate.array.path
            return role == "logits" and len(candidate.array.shape) < 2, preference(str(path[-1]) if path else "")

        ordered = sorted((c for c in candidates if c.role == role), key=rank)
        if not ordered:
            return {}
        first = ordered[0].array
        for second in (c.array for c in ordered[1:] if rank(c) == rank(ordered[0])):
            if first.array is not None and second.array is not None and np.array_equal(first.array, second.array):
                continue
            problem = f"both {first.label} and {second.label} of {second.file} could be the {role}"
            raise LogitFileError(problem, Fix("splits"), Fix("roles"), file=first.file)
        self.ignored += [candidate.array for candidate in ordered[1:]]
        return {role: first}

    def guessed(self, array: RawArray, role: str) -> None:
        """Add a notice that an array got its role from its shape."""
        self.notices.append(array.notice("guessed_roles", f"is used as the {role} because of its shape.", BY_HAND))


def assign(files: Sequence[RawFile], roles: Roles | None = None) -> Assignment:
    """Give every array its role; raise if something is missing or ambiguous."""
    candidates = candidates_of(files, roles)
    result = Assignment(ignored=[c.array for c in candidates if c.role == IGNORED])
    for role in ROLES:
        if role not in ROW_ROLES:
            result.shared |= result.choose(role, candidates)
    rows = [c for c in candidates if c.per_sample]
    if {c.split for c in rows} == {WHOLE}:
        rows = _four_unnamed(rows, result)
    for split in ("val", "test", WHOLE):
        own = [c for c in rows if c.split == split]
        if own:
            result.parts[split] = _part(split, own, files, result)
    if not result.parts:
        fix = "save logits and labels, under these names"
        raise LogitFileError("no arrays were found that could be logits", fix, file=file_names(files))
    if any(c.array.split == c.split and c.role is None for c in rows):
        text = f"{file_names(files)}: the first pair of arrays is used as validation, the second as test."
        result.notices.append(Notice("positional_pairs", text, BY_HAND))
    if result.ignored:
        names = quoted(item.key for item in result.ignored)
        result.notices.append(Notice("ignored_arrays", f"{file_names(files)}: not used: {names}.", BY_HAND))
    return result


def assign_logits(files: Sequence[RawFile], roles: Roles | None = None) -> Assignment:
    """Return the logits of each split, with features and labels if there are any: what a calibrator is applied to."""
    rows = [c for c in candidates_of(files, roles) if c.per_sample]
    result = Assignment()
    for split in (WHOLE, "val", "test"):
        own = [c for c in rows if c.split == split]
        part = result.choose("logits", own) | result.choose("features", own) | result.choose("labels", own)
        likely = [c.array for c in own if c.role is None and could_be_scores(c.array)]
        if "logits" not in part and len(likely) == 1:
            part["logits"] = likely[0]
            if len(own) > 1:
                result.guessed(likely[0], "logits")
        if "logits" in part:
            result.parts[split] = part
    if result.parts:
        return result
    likely = [c.array for c in rows if c.role is None and could_be_scores(c.array)]
    raise _missing("logits", WHOLE, rows, likely, files, "save them as one matrix")


def candidates_of(files: Sequence[RawFile], roles: Roles | None = None) -> list[Candidate]:
    """Return every array's split and role: from the roles given by hand, else as far as names tell."""
    found = _named(files, roles)
    splits = {c.split for c in found if c.per_sample} - {WHOLE}
    if not any(file.split for file in files) and (len(splits) == 1 or splits in ({"train", "test"}, {"train", "val"})):
        # files that name only one split are a whole set, to be split; training arrays count if there are no others
        found = [c if c.split == "train" and len(splits) > 1 else replace(c, split=WHOLE) for c in found]
    complete = all(sum(c.per_sample and c.split == split for c in found) > 1 for split in ("val", "test"))
    left_over = ("train", WHOLE) if complete else ("train",)
    return [replace(c, role=IGNORED) if c.per_sample and c.split in left_over else c for c in found]


def is_validation_only(files: Sequence[RawFile], roles: Roles | None = None) -> bool:
    """Return whether the names of the arrays and files, or the given roles, mention validation and no other split."""
    found = _named(files, roles)
    splits = {c.split for c in found if c.per_sample} - {WHOLE}
    return splits == {"val"} and all(c.role != "split" for c in found)


def _named(files: Sequence[RawFile], roles: Roles | None) -> list[Candidate]:
    given, taken = _by_hand(files, roles or {})
    done = {id(candidate.array) for candidate in given}
    names = [".".join(map(str, item.path)) for file in files for item in file.arrays]
    settled = splits_named([*names, *(file.stem for file in files)])
    named = []
    for file in files:
        rest = [_by_name(file, item, settled) for item in file.arrays if id(item) not in done]
        # a role that was given by hand is not also found by name
        gone = [any(c.role == role and split in (None, c.split) for split, role in taken) for c in rest]
        rest = [replace(c, role=IGNORED) if out else c for c, out in zip(rest, gone, strict=True)]
        named += _in_split(rest, file.split)
    return given + (named if roles else _crossed_pairs(named))


def _by_hand(files: Sequence[RawFile], roles: Roles) -> tuple[list[Candidate], list[tuple[str | None, str]]]:
    """Return the arrays to which the caller gave a role, and all roles that the caller named."""
    given, taken = [], []
    for name, key in roles.items():
        parsed = parse_role(name)
        if parsed is None:
            raise LogitFileError(f"'{name}' is not a role; use {', '.join(ROLES)}, or val_ or test_ before one.")
        split, role = parsed
        taken.append(parsed)
        if key is None:
            continue
        own = [
            Candidate(item, split or file.split or WHOLE, role)
            for file in files
            for item in file.arrays
            if key in (item.key, f"{item.file}:{item.key}") and (split is None or file.split in (None, split))
        ]
        if not own:
            listed = quoted((item.key for file in files for item in file.arrays), 10)
            problem = f"holds no array '{key}' to be the {name}"
            raise LogitFileError(problem, f"the arrays are {listed}", file=file_names(files))
        given += own
    return given, taken


def _by_name(file: RawFile, item: RawArray, settled: set[str]) -> Candidate:
    text = ".".join(map(str, item.path))
    last = str(item.path[-1]) if item.path else file.stem
    role = item.role or role_of(last) or role_of(text) or (role_of(file.stem) if len(file.arrays) == 1 else None)
    if role == "class_names" and item.kind not in ("U", "S"):
        role = None  # numbers named `classes` are more likely labels
    if role is None and not item.shape and item.array is not None:
        role = IGNORED  # a single value, such as an accuracy or an epoch, has no role
    split = split_of(text, settled) or item.split or file.split or split_of(file.stem, settled)
    return Candidate(item, split or WHOLE, role)


def _in_split(found: list[Candidate], split: str | None) -> list[Candidate]:
    """Keep the arrays of the split that a file was given for, or all if its names mention only the other split."""
    if split is None:
        return found
    foreign = [c.per_sample and c.split not in (split, WHOLE) for c in found]
    any_own = any(c.per_sample and not other for c, other in zip(found, foreign, strict=True))
    return [
        replace(c, role=IGNORED) if any_own and other else replace(c, split=split)
        for c, other in zip(found, foreign, strict=True)
    ]


def _crossed_pairs(found: list[Candidate]) -> list[Candidate]:
    """Handle ((logits, logits), (labels, labels)), where the second index distinguishes validation from test."""
    axes = {c.array.path: len(c.array.shape) for c in found}
    if len(found) != 4 or set(axes) != {(0, 0), (0, 1), (1, 0), (1, 1)}:
        return found
    if axes[0, 0] == axes[0, 1] != axes[1, 0] == axes[1, 1]:
        return [replace(c, split=("val", "test")[int(c.array.path[1])]) for c in found]
    return found


def _four_unnamed(found: list[Candidate], result: Assignment) -> list[Candidate]:
    """Handle four arrays without names, two of logits and two of labels: validation first, test second."""
    scores = [c for c in found if c.role is None and could_be_scores(c.array)]
    labels = [c for c in found if c.role is None and could_be_labels(c.array)]
    if len(found) != 4 or len(scores) != 2 or len(labels) != 2:
        return found
    lengths = [c.array.shape[0] for c in scores]
    if lengths[0] != lengths[1] and [c.array.shape[0] for c in labels] == lengths[::-1]:
        labels = labels[::-1]
    text = "four arrays without names; the first logits are used as validation, the second as test."
    result.notices.append(Notice("guessed_roles", f"{found[0].array.file}: {text}", BY_HAND))
    return [
        Candidate(pair[i].array, split, role)
        for role, pair in (("logits", scores), ("labels", labels))
        for i, split in enumerate(("val", "test"))
    ]


def _part(split: str, own: list[Candidate], files: Sequence[RawFile], result: Assignment) -> dict[str, RawArray]:
    """Return the arrays of one split; shapes decide the roles that no name gives."""
    part: dict[str, RawArray] = {}
    for role in ROW_ROLES:
        part |= result.choose(role, own)
    free = [c.array for c in own if c.role is None]
    for role, test, mine, other in (
        ("labels", could_be_labels, "label", "logit"),
        ("logits", could_be_scores, "logit", "label"),
    ):
        if role in part:
            continue
        partner = part.get(f"{other}s")
        likely = [item for item in free if test(item)]
        fits = [item for item in likely if partner is None or set(item.shape) & set(partner.shape) - {1}]
        if not fits and len(likely) == 1 and partner is not None:
            raise _unequal(role, likely[0], partner)
        if len(fits) != 1:
            raise _missing(role, split, own, fits, files, f"give the {mine} file beside the {other} file")
        part[role] = fits[0]
        free.remove(fits[0])
        if not (fits[0].path and isinstance(fits[0].path[-1], int)):  # a (logits, labels) pair is not a guess
            result.guessed(fits[0], role)
    result.ignored += free
    scores, labels = part["logits"], part["labels"]
    if could_be_scores(labels) and len(labels.shape) == 2 and len(scores.shape) == 1 and could_be_labels(scores):
        text = f"holds labels and {labels.label} logits, against their names."
        result.notices.append(scores.notice("swapped", text, BY_HAND))
        part |= {"logits": labels, "labels": scores}
    return part


def _missing(
    role: str, split: str, own: Sequence[Candidate], fits: list[RawArray], files: Sequence[RawFile], fix: str
) -> LogitFileError:
    """Return the error that no array has the role, or that several could have it."""
    names, choose = file_names(files), Fix("roles", _role_name(split, role))
    if fits:
        several = quoted((item.key for item in fits), 6)
        return LogitFileError(f"several arrays could be the {role}: {several}", choose, file=names)
    broken = next((c.array for c in own if c.array.problem), None)
    if broken is not None:
        problem = f"no {role} were found, and {broken.label} {broken.problem}"
        return LogitFileError(problem, broken.fix, file=names)
    listed = first_few((_described(c.array) for c in own), 6)
    among = f" among {listed}" if listed else ""
    return LogitFileError(f"no {role} were found{among}", fix, choose, file=names)


def _unequal(role: str, item: RawArray, other: RawArray) -> LogitFileError:
    """Return the error that the only array that could have the role has the wrong length."""
    labels, logits = (item, other) if role == "labels" else (other, item)
    counts = f"{plural(logits.shape[0], 'row')} but {labels.label} has {max(labels.shape, default=0):,} entries"
    where = labels.file if labels.file == logits.file else f"{logits.file} and {labels.file}"
    fix = "save logits and labels from the same samples"
    return LogitFileError(f"{logits.label} has {counts}", fix, Fix("roles", role), file=where)


def _described(item: RawArray) -> str:
    return f"'{item.key}' ({shape_text(item.shape)} {item.dtype})" if item.shape else f"'{item.key}' (a single value)"


def _role_name(split: str, role: str) -> str:
    return role if split == WHOLE else f"{split}_{role}"


def file_names(files: Sequence[RawFile]) -> str:
    """Return `logits.npy and labels.npy`."""
    return " and ".join(dict.fromkeys(file.name for file in files))


def squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape without axes of length 1: those after the first axis and, if needed, the first."""
    short = tuple(n for i, n in enumerate(shape) if n != 1 or i == 0) if len(shape) > 2 else shape
    return short[1:] if len(short) > 2 and short[0] == 1 else short


def could_be_labels(item: RawArray) -> bool:
    """Return whether the array is a vector of integers or text, or a one-hot matrix."""
    if item.array is None or not item.shape:
        return False
    if sum(n != 1 for n in item.shape) <= 1:
        if item.kind in "US":
            return True
        values = item.values
        return item.kind in "biu" or bool(np.all(np.isfinite(values)) and np.all(values % 1 == 0))
    return len(item.shape) == 2 and item.kind in "biuf" and is_one_hot(item.values)


def could_be_scores(item: RawArray) -> bool:
    """Return whether the array is a matrix of numbers, not one-hot, or a vector of numbers, not all integers."""
    if item.kind == "" or item.kind not in "biuf":
        return False
    return len(squeezed(item.shape)) in (1, 2) and not could_be_labels(item)


def is_one_hot(array: Array) -> bool:
    """Return whether every row has a single 1 and zeros elsewhere."""
    if array.ndim != 2 or array.shape[1] < 2 or array.shape[0] == 0:
        return False
    top = array.max(axis=1)
    return bool(np.all(top == 1) and np.all(np.count_nonzero(array, axis=1) == 1))
