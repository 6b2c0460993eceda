"""What the caller, an array's path and its file's name say of it, and which side of the split it is on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from smart_core.data.found import Contents, Found, refuse
from smart_core.data.roles import ROLES, ROW_ROLES, parse_role, role_of, split_of
from smart_core.data.source import Source
from smart_core.errors import LogitFileError

WHOLE = "whole"
"""The split of arrays that belong to neither side yet."""

Files = Sequence[tuple[Source, Contents]]


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


def slots_of(files: Files, roles: Mapping[str, str]) -> list[Slot]:
    """Every array's place, as far as names tell."""
    slots = [slot for source, contents in files for slot in _slots_of_file(source, contents, roles)]
    keys = {key for slot in slots for key in _keys(slot.found)}
    for key in roles:
        if key not in keys:
            listed = ", ".join(f"'{slot.found.key}'" for slot in slots)
            what = f"holds no array '{key}' to give a role to"
            raise refuse(file_names(files), what, f"the arrays are {listed}")
    slots = _one_side_is_whole(_crossed_pairs(slots), files)
    return _without_leftovers(slots)


def _keys(item: Found) -> tuple[str, str]:
    """The names by which a caller may speak of an array."""
    return f"{item.file}:{item.key}", item.key


def _slots_of_file(source: Source, contents: Contents, roles: Mapping[str, str]) -> list[Slot]:
    slots = []
    for item in contents.found:
        given = next((roles[key] for key in _keys(item) if key in roles), None)
        if given is None:
            slots.append(_by_name(source, item, alone=len(contents.found) == 1))
            continue
        parsed = parse_role(given)
        if parsed is None:
            known = ", ".join(ROLES)
            raise LogitFileError(f"'{given}' is no role; use ignore, {known}, or val_ or test_ before one.")
        slots.append(Slot(item, parsed[0] or source.split or WHOLE, parsed[1]))
    return _on_one_side(slots, source.split)


def _by_name(source: Source, item: Found, alone: bool) -> Slot:
    text = ".".join(str(step) for step in item.path)
    last = str(item.path[-1]) if item.path else source.stem
    role = item.role or role_of(last) or role_of(text) or (role_of(source.stem) if alone else None)
    if role == "class_names" and item.kind not in ("U", "S"):
        role = None  # numbers called `classes` are more likely labels
    split = split_of(text) or item.split or source.split or split_of(source.stem)
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
