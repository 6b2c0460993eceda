"""What the caller, an array's path and its file's name say of it, and which side of the split it is on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from smart_core.data.found import Contents, Found, refuse
from smart_core.data.roles import ROLES, ROW_ROLES, parse_role, role_of, sides_told, split_of
from smart_core.data.source import Source
from smart_core.errors import LogitFileError

WHOLE = "whole"
"""The split of arrays that belong to neither side yet."""

Files = Sequence[tuple[Source, Contents]]
Roles = Mapping[str, str | None]
"""Role -> the array that has it, or None where it is to be left out."""


@dataclass(frozen=True, eq=False)
class Slot:
    """An array with the place it is thought to have; role `ignore` for one that has none."""

    found: Found
    split: str
    role: str | None

    @property
    def of_rows(self) -> bool:
        """Whether it has, or might have, one entry a sample."""
        return self.role is None or self.role in ROW_ROLES

    @property
    def told(self) -> str:
        """The place in words: `val_logits`, `head_weight`, `ignored`, or `unknown`."""
        if self.role in (None, "ignore"):
            return "unknown" if self.role is None else "ignored"
        return self.role if self.split == WHOLE or not self.of_rows else f"{self.split}_{self.role}"


def slots_of(files: Files, roles: Roles | None = None) -> list[Slot]:
    """Every array's place: by the roles given by hand, else as far as names tell."""
    given, taken = _by_hand(files, roles or {})
    by_hand = {id(slot.found) for slot in given}
    named = []
    settled = _settled(files)
    for source, contents in files:
        rest = [item for item in contents.found if id(item) not in by_hand]
        slots = [_by_name(source, item, len(contents.found) == 1, settled) for item in rest]
        named += _on_one_side([_displaced(slot, taken) for slot in slots], source.split)
    slots = _one_side_is_whole(given + (named if roles else _crossed_pairs(named)), files)
    return _without_leftovers(slots)


def names_validation_only(files: Files, roles: Roles | None = None) -> bool:
    """Whether the names of the arrays and their files, or the roles given, speak of validation and of no other side."""
    given, taken = _by_hand(files, roles or {})
    by_hand = {id(slot.found) for slot in given}
    settled = _settled(files)
    named = [
        _displaced(_by_name(source, item, len(contents.found) == 1, settled), taken)
        for source, contents in files
        for item in contents.found
        if id(item) not in by_hand
    ]
    slots = given + (named if roles else _crossed_pairs(named))
    sides = {slot.split for slot in slots if slot.of_rows} - {WHOLE}
    return sides == {"val"} and all(slot.role != "split" for slot in slots)


def _by_hand(files: Files, roles: Roles) -> tuple[list[Slot], list[tuple[str | None, str]]]:
    """The arrays that the caller gave a role, and all roles that the caller spoke of."""
    slots, taken = [], []
    for text, key in roles.items():
        parsed = parse_role(text)
        if parsed is None:
            raise LogitFileError(f"'{text}' is no role; use {', '.join(ROLES)}, or val_ or test_ before one.")
        side, role = parsed
        taken.append(parsed)
        if key is None:
            continue
        own = [
            Slot(item, side or source.split or WHOLE, role)
            for source, contents in files
            for item in contents.found
            if key in _keys(item) and (side is None or source.split in (None, side))
        ]
        if not own:
            listed = ", ".join(f"'{item.key}'" for _, contents in files for item in contents.found[:10])
            what = f"holds no array '{key}' to be the {text}"
            raise refuse(file_names(files), what, f"the arrays are {listed}")
        slots += own
    return slots, taken


def _keys(item: Found) -> tuple[str, str]:
    """The names by which a caller may speak of an array."""
    return f"{item.file}:{item.key}", item.key


def _displaced(slot: Slot, taken: Sequence[tuple[str | None, str]]) -> Slot:
    """A role that was given by hand is not also found by name."""
    gone = any(slot.role == role and side in (None, slot.split) for side, role in taken)
    return replace(slot, role="ignore") if gone else slot


def _settled(files: Files) -> set[str]:
    """The sides that the names of arrays or files speak of outright."""
    names = [".".join(map(str, item.path)) for _, contents in files for item in contents.found]
    return sides_told([*names, *(source.stem for source, _ in files)])


def _by_name(source: Source, item: Found, alone: bool, settled: set[str]) -> Slot:
    text = ".".join(str(step) for step in item.path)
    last = str(item.path[-1]) if item.path else source.stem
    role = item.role or role_of(last) or role_of(text) or (role_of(source.stem) if alone else None)
    if role == "class_names" and item.kind not in ("U", "S"):
        role = None  # numbers called `classes` are more likely labels
    if role is None and not item.shape and item.array is not None:
        role = "ignore"  # a single value (an accuracy, an epoch) is nothing by its shape
    split = split_of(text, settled) or item.split or source.split or split_of(source.stem, settled)
    return Slot(item, split or WHOLE, role)


def _on_one_side(slots: list[Slot], side: str | None) -> list[Slot]:
    """A file given as val= or test= gives its arrays of that side, or all if it names only the other."""
    if side is None:
        return slots
    any_own = any(s.of_rows and s.split in (side, WHOLE) for s in slots)
    return [
        replace(s, role="ignore") if any_own and s.of_rows and s.split not in (side, WHOLE) else replace(s, split=side)
        for s in slots
    ]


def _crossed_pairs(slots: list[Slot]) -> list[Slot]:
    """((logits, logits), (labels, labels)) is crossed: there the second index tells validation from test."""
    paths = [s.found.path for s in slots]
    if sorted(paths, key=str) != [(0, 0), (0, 1), (1, 0), (1, 1)]:
        return slots
    dims = {path: len(s.found.shape) for path, s in zip(paths, slots, strict=True)}
    if dims[0, 0] == dims[0, 1] != dims[1, 0] == dims[1, 1]:
        return [replace(s, split=("val", "test")[int(s.found.path[1])]) for s in slots]
    return slots


def _one_side_is_whole(slots: list[Slot], files: Files) -> list[Slot]:
    """A file that speaks of one side only is a whole set, to be split; training arrays count if alone."""
    if any(source.split for source, _ in files):
        return slots
    sides = {s.split for s in slots if s.of_rows} - {WHOLE}
    if len(sides) == 1 or sides <= {"train"}:
        return [replace(s, split=WHOLE) for s in slots]
    if sides == {"train", "test"} or sides == {"train", "val"}:
        return [s if s.split == "train" else replace(s, split=WHOLE) for s in slots]
    return slots


def _without_leftovers(slots: list[Slot]) -> list[Slot]:
    """Training arrays are ignored, and undivided ones where both sides are complete by themselves."""
    complete = all(sum(s.of_rows and s.split == side for s in slots) > 1 for side in ("val", "test"))
    left = ("train", WHOLE) if complete else ("train",)
    return [replace(s, role="ignore") if s.of_rows and s.split in left else s for s in slots]


def file_names(files: Files) -> str:
    """The files, as a sentence names them."""
    return " and ".join(dict.fromkeys(source.name for source, _ in files))
