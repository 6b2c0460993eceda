"""What came of the files handed in, and how to read them differently."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import smart_core as sc
from pages.shared.uploads import FILES_AT_ONCE, Handed
from smart_core.data import ArrayInfo, describe
from smart_core.data.logitset import Cure
from smart_core.data.roles import ROLES, ROW_ROLES
from smart_core.errors import LogitFileError

Options = dict[str, Any]
"""What `sc.load` is told instead of leaving it to be understood, by the names of its arguments."""

ALLOWED: dict[str, Callable[[Any], bool]] = {
    "labels_start_at": lambda value: value in (0, 1) and not isinstance(value, bool),
    "transposed": lambda value: isinstance(value, bool),
    "values": lambda value: value in ("logits", "probabilities"),
    "roles": lambda value: isinstance(value, dict) and all(isinstance(item, str | None) for item in value.values()),
}
"""The options that an address may hold, and what each may be."""

IGNORE = "ignore"


@dataclass(frozen=True, eq=False)
class Reading:
    """A data set, or the sentence that says why there is none; and the arrays that the files hold."""

    mark: tuple[str, ...]
    """Of the files: these themselves are not kept."""
    options: Options
    arrays: list[ArrayInfo]
    data: sc.LogitSet | None = None
    fault: str | None = None


def read(handed: Handed, options: Options) -> Reading:
    """Read the files; what is wrong with them is said, never raised."""
    if len(handed) > FILES_AT_ONCE:
        fault = f"{len(handed)} files were given, more than {FILES_AT_ONCE}: give the files of one data set at a time."
        return Reading(handed.mark, options, [], fault=fault)
    arrays: list[ArrayInfo] = []
    try:
        arrays = describe(**handed.sources(), roles=options.get("roles"))
        return Reading(handed.mark, options, arrays, data=sc.load(**handed.sources(), **options))
    except LogitFileError as error:
        return Reading(handed.mark, options, arrays, fault=str(error))
    except MemoryError:
        fault = "The server's memory does not hold these files: save fewer rows."
        return Reading(handed.mark, options, arrays, fault=fault)


def cure(notice: sc.Notice) -> Cure | None:
    """How to undo at one click what was understood; what takes a choice has its own form."""
    offered = notice.cure
    return offered if offered is not None and offered.option in ALLOWED and offered.value is not None else None


def call(handed: Handed, options: Options) -> str:
    """The Python that loads these files: `sc.load("logits.npz", labels_start_at=0)`."""
    parts = []
    for side, names in handed.names.items():
        if names:
            quoted = [json.dumps(name, ensure_ascii=False) for name in names]
            value = quoted[0] if len(quoted) == 1 else f"[{', '.join(quoted)}]"
            parts.append(value if side == "whole" else f"{side}={value}")
    return f"sc.load({', '.join(parts + [f'{name}={value!r}' for name, value in options.items()])})"


def roles() -> list[str]:
    """What an array can be, as `load` names it."""
    rows = [role for role in ROW_ROLES if role != "split"]
    sides = [f"{side}_{role}" for side in ("val", "test") for role in rows]
    return [IGNORE, *sides, *ROLES]


def place(info: ArrayInfo) -> str:
    """How the option `roles` speaks of an array."""
    return f"{info.file}:{info.key}"


def by_role(arrays: Iterable[ArrayInfo], chosen: Mapping[str, str]) -> dict[str, str | None]:
    """The option `roles` from the role chosen for each array by its place; an empty choice leaves the array be."""
    given: dict[str, str | None] = {}
    for info in arrays:
        role = chosen.get(place(info), "")
        if role == IGNORE and info.role in roles():
            given.setdefault(info.role, None)
        elif role and role != IGNORE:
            if given.get(role) is not None:
                raise LogitFileError(f"Two arrays were chosen as {role}; choose one.")
            given[role] = place(info)
    return given


def packed(options: Options) -> str:
    """The options as an address holds them; empty for none."""
    return json.dumps(options, separators=(",", ":"), sort_keys=True) if options else ""


def unpacked(text: str) -> Options:
    """The options of an address; whatever is not one is dropped."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):  # no JSON, or nested without end
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if name in ALLOWED and ALLOWED[name](value)}


def on_the_page(fault: str) -> str:
    """A sentence of the engine with its cure in the page's words: a reader has a form here, not arguments."""
    fault = fault.replace("give the files as val= and test=", "give validation and test in files of their own")
    return fault.replace("say which is which with roles=", BELOW).replace("say which with roles=", BELOW)


BELOW = "say below which array is what"
