"""Which array is what: by the roles given by hand, by name, then by shape; whatever was guessed is said."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from smart_core.data.found import Found, plural, refuse, shape_shown
from smart_core.data.logitset import Notice
from smart_core.data.reading import BY_HAND
from smart_core.data.roles import ROLES, ROW_ROLES, preference
from smart_core.data.shapes import could_be_labels, could_be_scores, same_length
from smart_core.data.slots import WHOLE, Files, Roles, Slot, file_names, slots_of
from smart_core.errors import LogitFileError


@dataclass
class Assignment:
    """Role -> array, for each side (or the whole) and for the set; with what was left over."""

    parts: dict[str, dict[str, Found]] = field(default_factory=dict)
    shared: dict[str, Found] = field(default_factory=dict)
    ignored: list[Found] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def role_text(self, found: Found) -> str:
        """`val_logits`, `labels`, `head_weight`, or `ignored`."""
        for split, part in self.parts.items():
            for role, item in part.items():
                if item is found:
                    return role if split == WHOLE else f"{split}_{role}"
        return next((role for role, item in self.shared.items() if item is found), "ignored")


def assign(files: Files, roles: Roles | None = None) -> Assignment:
    """Gives every array its place, or says in one sentence what is missing or ambiguous."""
    slots = slots_of(files, roles)
    result = Assignment(ignored=[s.found for s in slots if s.role == "ignore"])
    for role in ROLES:
        if role not in ROW_ROLES:
            put(result.shared, role, [s for s in slots if s.role == role], result.ignored)
    rows = [s for s in slots if s.of_rows]
    if {s.split for s in rows} == {WHOLE}:
        rows = _nameless_quartet(rows, result)
    for split in ("val", "test", WHOLE):
        mine = [s for s in rows if s.split == split]
        if mine:
            result.parts[split] = _part(mine, files, result)
    if not result.parts:
        cure = "save logits and labels, under these names"
        raise refuse(file_names(files), "no arrays were found that could be logits", cure)
    if any(s.found.split == s.split and s.role is None for s in rows):
        text = f"{file_names(files)}: the first pair of arrays is taken as validation, the second as test."
        result.notices.append(Notice("positional_pairs", text, BY_HAND))
    if result.ignored:
        names = ", ".join(f"'{item.key}'" for item in result.ignored[:5])
        more = ", ..." if len(result.ignored) > 5 else ""
        result.notices.append(Notice("ignored_arrays", f"{file_names(files)}: not used: {names}{more}.", BY_HAND))
    return result


def _nameless_quartet(slots: list[Slot], result: Assignment) -> list[Slot]:
    """Four nameless arrays, two of logits and two of labels: validation first, test second."""
    scores = [s for s in slots if s.role is None and could_be_scores(s.found)]
    labels = [s for s in slots if s.role is None and could_be_labels(s.found)]
    if len(slots) != 4 or len(scores) != 2 or len(labels) != 2:
        return slots
    first, second = scores[0].found.shape[0], scores[1].found.shape[0]
    lengths = [s.found.shape[0] for s in labels]
    if first != second and lengths == [second, first]:
        labels = labels[::-1]
    file = slots[0].found.file
    text = f"{file}: four nameless arrays; the first logits are taken as validation, the second as test."
    result.notices.append(Notice("guessed_roles", text, BY_HAND))
    return [
        Slot(pair[i].found, side, role)
        for role, pair in (("logits", scores), ("labels", labels))
        for i, side in enumerate(("val", "test"))
    ]


def _part(slots: list[Slot], files: Files, result: Assignment) -> dict[str, Found]:
    """The arrays of one side, roles missing by name found by shape."""
    part: dict[str, Found] = {}
    for role in ROW_ROLES:
        put(part, role, [s for s in slots if s.role == role], result.ignored)
    free = [s.found for s in slots if s.role is None]
    for role, test in (("labels", could_be_labels), ("logits", could_be_scores)):
        if role in part:
            continue
        other = part.get("labels" if role == "logits" else "logits")
        likely = [item for item in free if test(item)]
        fits = [item for item in likely if other is None or same_length(item, other)]
        if not fits and len(likely) == 1 and other is not None:
            raise _unequal(role, likely[0], other)
        if len(fits) != 1:
            raise _missing(role, slots, fits, files)
        part[role] = fits[0]
        free.remove(fits[0])
        if not (fits[0].path and isinstance(fits[0].path[-1], int)):  # a (logits, labels) pair is no guess
            text = f"{fits[0].file}: {fits[0].label} taken as the {role}, by its shape."
            result.notices.append(Notice("guessed_roles", text, BY_HAND))
    result.ignored += free
    return _swapped(part, result)


def _swapped(part: dict[str, Found], result: Assignment) -> dict[str, Found]:
    """Logits and labels given in the wrong order, where the shapes leave no doubt."""
    scores, labels = part["logits"], part["labels"]
    if could_be_scores(labels) and len(labels.shape) == 2 and len(scores.shape) == 1 and could_be_labels(scores):
        text = f"{scores.file}: {scores.label} holds labels and {labels.label} logits, against their names."
        result.notices.append(Notice("swapped", text, BY_HAND))
        return {**part, "logits": labels, "labels": scores}
    return part


def put(target: dict[str, Found], role: str, slots: list[Slot], ignored: list[Found]) -> None:
    """The likeliest of several arrays with one role; two that differ and are equally likely are an error."""
    if not slots:
        return

    def rank(slot: Slot) -> tuple[bool, int]:
        flat = role == "logits" and len(slot.found.shape) < 2
        return flat, preference(str(slot.found.path[-1]) if slot.found.path else "")

    ordered = sorted(slots, key=rank)
    first = ordered[0].found
    for second in (s.found for s in ordered[1:] if rank(s) == rank(ordered[0])):
        if first.array is not None and second.array is not None and np.array_equal(first.array, second.array):
            continue
        what = f"both {first.label} and {second.label} of {second.file} could be the {role}"
        raise refuse(first.file, what, "give the files as val= and test=, or say which is which with roles=")
    target[role] = ordered[0].found
    ignored += [slot.found for slot in ordered[1:]]


def _missing(role: str, slots: list[Slot], fits: list[Found], files: Files) -> LogitFileError:
    listed = ", ".join(_described(s.found) for s in slots[:6]) + (", ..." if len(slots) > 6 else "")
    if fits:
        what = f"several arrays could be the {role}: " + ", ".join(f"'{item.key}'" for item in fits[:6])
        return refuse(file_names(files), what, f"name one of them {role}, or say which with roles=")
    broken = next((s.found for s in slots if s.found.problem), None)
    if broken is not None:
        what = f"no {role} were found, and {broken.label} {broken.problem}"
        return refuse(file_names(files), what, broken.cure)
    mine, other = ("label", "logit") if role == "labels" else ("logit", "label")
    cure = f"give the {mine} file beside the {other} file"
    return refuse(file_names(files), f"no {role} were found among {listed}", f"{cure}, or name the array {role}")


def _unequal(role: str, item: Found, other: Found) -> LogitFileError:
    """The only array that could have the role, but for its length."""
    labels, logits = (item, other) if role == "labels" else (other, item)
    counts = f"{plural(logits.shape[0], 'row')} but {labels.label} has {max(labels.shape, default=0):,} entries"
    where = labels.file if labels.file == logits.file else f"{logits.file} and {labels.file}"
    cure = f"save logits and labels from the same samples, or name another array {role}"
    return refuse(where, f"{logits.label} has {counts}", cure)


def _described(item: Found) -> str:
    return f"'{item.key}' ({shape_shown(item.shape)} {item.dtype})" if item.shape else f"'{item.key}' (a single value)"
