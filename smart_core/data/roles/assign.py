"""Which array has which role: from the roles given by hand, then names, then shapes; every guess leaves a notice."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from smart_core.data.formats.raw import RawArray, RawFile
from smart_core.data.logitset import METADATA, Cure, Notice
from smart_core.data.roles.candidates import WHOLE, Candidate, could_be_labels, could_be_scores, is_vector, role_name
from smart_core.data.roles.confidences import as_confidences, without_confidences
from smart_core.data.roles.names import (
    CONFIDENCE_ROLES,
    METADATA_ROLE,
    ROLES,
    ROW_ROLES,
    SPLIT_NAMES,
    parse_role,
    preference,
    role_of,
    split_of,
)
from smart_core.errors import Fix, LogitFileError
from smart_core.formatting import first_few, plural, quoted, shape_text

IGNORED = "ignored"
"""The role of arrays that are not used."""
BY_HAND = Cure("roles", None, "Choose the arrays by hand")

_METADATA = re.compile(rf"(?:(val|test)_)?{re.escape(METADATA)}(.+)", re.DOTALL)

Roles = Mapping[str, str | None]
"""Role -> the array that has it, or None to leave it out."""


@dataclass
class Assignment:
    """Role -> array, for each split (or the whole) and for the set; and the arrays that are not used."""

    parts: dict[str, dict[str, RawArray]] = field(default_factory=dict)
    shared: dict[str, RawArray] = field(default_factory=dict)
    metadata: dict[str, dict[str, RawArray]] = field(default_factory=dict)
    """Split -> name -> array: further vectors with one value per sample."""
    ignored: list[RawArray] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def role_names(self) -> dict[int, str]:
        """Return the role of each array by its `id`: `val_logits`, `labels`, `head_weight`, `metadata`."""
        given = list(self.shared.items())
        given += [(role_name(split, role), item) for split, part in self.parts.items() for role, item in part.items()]
        given += [(METADATA_ROLE, item) for named in self.metadata.values() for item in named.values()]
        return {id(item): role for role, item in given}

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

    def choose_rows(self, candidates: Sequence[Candidate]) -> dict[str, RawArray]:
        """Return the preferred candidate of each role with one entry per sample."""
        return {role: array for each in ROW_ROLES for role, array in self.choose(each, candidates).items()}

    def guessed(self, array: RawArray, role: str, reason: str = "of its shape") -> None:
        """Add a notice that an array got its role from its shape."""
        self.notices.append(array.notice("guessed_roles", f"is used as the {role} because {reason}.", BY_HAND))


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
    by_hand = any(role.endswith("logits") and key for role, key in (roles or {}).items())
    for split in ("val", "test", WHOLE):
        own = [c for c in rows if c.split == split]
        if own:
            confidences = None if by_hand else as_confidences(own)
            if confidences is not None:
                result.parts[split] = result.choose_rows(confidences)
                found = result.parts[split]["confidence"]
                if not roles and role_of(str(found.path[-1] if found.path else "p")) is None:
                    result.guessed(found, "confidence", "it alone holds numbers from 0 to 1")
                result.ignored += [c.array for c in confidences if c.role is None]  # metadata, if they are as long
            else:
                result.parts[split] = _part(split, without_confidences(own), files, result)
            _keep_metadata(split, own, result)
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


def assign_confidences(files: Sequence[RawFile], roles: Roles | None = None) -> Assignment:
    """Return the confidences of each split: what a calibrator of confidences is applied to."""
    rows = [c for c in candidates_of(files, roles) if c.per_sample]
    result = Assignment()
    for split in (WHOLE, "val", "test"):
        own = [c for c in rows if c.split == split]
        known = as_confidences(own) or own
        found = [c.array for c in known if c.role == "confidence"]
        scores = [
            c.array for c in own if c.role in (None, "logits") and is_vector(c.array) and could_be_scores(c.array)
        ]
        if found or len(scores) == 1:
            result.parts[split] = {"confidence": (found or scores)[0]}
    if result.parts:
        return result
    fix = "give one column named confidence"
    raise LogitFileError("no confidences were found, which this calibrator needs", fix, file=file_names(files))


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
    names = [".".join(map(str, item.path)) for file in files for item in file.arrays] + [file.stem for file in files]
    settled = {split for name in names if (split := split_of(name, ("val", "test"))) is not None}
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
    own = _METADATA.fullmatch(text)
    if own is not None and item.role is None:  # of a bundle that `save_bundle` wrote
        return Candidate(item, own[1] or item.split or file.split or WHOLE, METADATA_ROLE)
    if item.role == METADATA_ROLE:  # words in its name say nothing of the split
        return Candidate(item, item.split or file.split or split_of(file.stem, settled) or WHOLE, METADATA_ROLE)
    role = item.role or role_of(last) or role_of(text) or (role_of(file.stem) if len(file.arrays) == 1 else None)
    if role in CONFIDENCE_ROLES and not is_vector(item):
        role = None  # a single number, or one per class
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
    part = result.choose_rows(own)
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
        text = f"holds labels and {labels.label} holds logits; they were swapped."
        result.notices.append(scores.notice("swapped", text, BY_HAND))
        part |= {"logits": labels, "labels": scores}
    return part


def _keep_metadata(split: str, own: list[Candidate], result: Assignment) -> None:
    """Keep the unused vectors of a split that have one value per sample, under their names."""
    part = result.parts[split]
    rows = max((part.get("confidence") or part["labels"]).shape, default=0)
    mine = {id(c.array) for c in own}
    kept = result.metadata.setdefault(split, {})
    result.ignored += [c.array for c in own if c.role == METADATA_ROLE]
    for item in [item for item in result.ignored if id(item) in mine]:
        if item.array is None or not is_vector(item) or max(item.shape) != rows:
            continue
        name = _own_name(item)
        if name and name not in kept:
            kept[name] = item
    used = {id(item) for item in kept.values()}
    result.ignored = [item for item in result.ignored if id(item) not in used]


def _own_name(item: RawArray) -> str:
    """Return the name of an array without the split: `age` for `val_age`."""
    text = ".".join(map(str, item.path))
    own = _METADATA.fullmatch(text)
    if own is not None:
        return own[2]
    first, _, rest = text.partition("_")
    return rest if rest and any(first.lower() in known for known in SPLIT_NAMES.values()) else text


def _missing(
    role: str, split: str, own: Sequence[Candidate], fits: list[RawArray], files: Sequence[RawFile], fix: str
) -> LogitFileError:
    """Return the error that no array has the role, or that several could have it."""
    names, choose = file_names(files), Fix("roles", role_name(split, role))
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


def file_names(files: Sequence[RawFile]) -> str:
    """Return `logits.npy and labels.npy`."""
    return " and ".join(dict.fromkeys(file.name for file in files))
