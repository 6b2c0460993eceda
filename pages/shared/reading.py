"""Reading the files handed in: as a data set or an error, and the options to read them differently."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import smart_core as sc
from pages.shared.uploads import FILES_AT_ONCE, Handed
from smart_core.data import ArrayInfo, Document
from smart_core.data.logitset import Cure
from smart_core.data.normalize.logits import THESE_ARE_LOGITS, THESE_ARE_PROBABILITIES
from smart_core.data.roles.names import ROLES, ROW_ROLES
from smart_core.errors import Fix, LogitFileError

Options = dict[str, Any]
"""Arguments of `sc.load` that decide what names, shapes and values would decide otherwise."""

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
    """A data set, or the error that says why there is none; and the arrays that the files hold."""

    mark: tuple[str, ...]
    """Of the files: these themselves are not kept."""
    options: Options
    arrays: list[ArrayInfo]
    data: sc.LogitSet | None = None
    error: LogitFileError | None = None

    @property
    def cures(self) -> list[Cure]:
        """The options that would get around the error, one click each."""
        asked = self.error is not None and Fix("values") in self.error.fixes
        return [THESE_ARE_LOGITS, THESE_ARE_PROBABILITIES] if asked else []


def opened(handed: Handed) -> Document:
    """Parse the files; whatever is wrong with them raises `LogitFileError`."""
    if len(handed) > FILES_AT_ONCE:
        problem = f"{len(handed)} files were given, more than {FILES_AT_ONCE}"
        raise LogitFileError(problem, "give the files of one data set at a time")
    return Document.open(**handed.sources())


def read(handed: Handed, options: Options, document_of: Callable[[Handed], Document] = opened) -> Reading:
    """Read the files with these options; an error is kept in the result, never raised."""
    arrays: list[ArrayInfo] = []
    try:
        document = document_of(handed)
        arrays = document.describe(options.get("roles"))
        return Reading(handed.mark, options, arrays, data=document.load(**options))
    except LogitFileError as error:
        return Reading(handed.mark, options, arrays, error=error)
    except MemoryError:
        error = LogitFileError("The server's memory does not hold these files", "save fewer rows")
        return Reading(handed.mark, options, arrays, error=error)


def cure(notice: sc.Notice) -> Cure | None:
    """The option that decides otherwise, for a button; what needs a choice has its own form."""
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
    """The name of an array in the option `roles`."""
    return f"{info.file}:{info.key}"


def by_role(arrays: Iterable[ArrayInfo], chosen: Mapping[str, str]) -> dict[str, str | None]:
    """The option `roles` from the role chosen for each array; arrays without a choice keep their role."""
    given: dict[str, str | None] = {}
    for info in arrays:
        role = chosen.get(place(info), "")
        if role == IGNORE and info.role in roles():
            given.setdefault(info.role, None)
        elif role and role != IGNORE:
            if given.get(role) is not None:
                raise LogitFileError(f"Two arrays were chosen as {role}", "choose one")
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


def on_the_page(fix: Fix) -> str:
    """A fix in the words of the page: its controls in place of the arguments of Python."""
    return {
        "roles": f"choose the {fix.role} below" if fix.role else "choose below which array is which",
        "val": "give the validation file as well",
        "test": "give the test file as well",
        "splits": "give validation and test as separate files",
        "values": "choose below what they are",
    }[fix.option]
