"""Load the files of one data set, with options that override what names, shapes and values suggest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import smart_core as sc
from pages.shared.uploads import MAX_FILES, UploadedFiles
from smart_core.data import ArrayInfo, Document
from smart_core.data.lazy.opening import open as open_shards
from smart_core.data.logitset import Cure
from smart_core.data.normalize.logits import THESE_ARE_LOGITS, THESE_ARE_PROBABILITIES
from smart_core.data.roles.names import ROLES, ROW_ROLES
from smart_core.errors import Fix, LogitFileError

Options = dict[str, Any]
"""Arguments of `sc.load` that the user chose."""

VALID: dict[str, Callable[[Any], bool]] = {
    "labels_start_at": lambda value: value in (0, 1) and not isinstance(value, bool),
    "transposed": lambda value: isinstance(value, bool),
    "values": lambda value: value in ("logits", "probabilities"),
    "group": lambda value: isinstance(value, str) and 0 < len(value) <= MAX_GROUP,
    "roles": lambda value: isinstance(value, dict) and all(isinstance(item, str | None) for item in value.values()),
}
"""The options that a URL may contain, and a check of each value."""

MAX_CLASSES = 300_000
"""Classes of a data set: more than any vocabulary. An evaluation takes 6 kB for each, however few the samples are."""
MAX_GROUP = 1000
"""Characters in the name of an experiment."""
IGNORE = "ignore"
"""The role of an array that is not used."""


@dataclass(frozen=True, eq=False)
class ReadResult:
    """The data set read from files, or the error; and the arrays in the files."""

    file_ids: tuple[str, ...]
    options: Options
    arrays: list[ArrayInfo]
    data: sc.LogitSet | None = None
    error: LogitFileError | None = None
    groups: tuple[str, ...] = ()
    """The experiments in the files, if there are several."""

    @property
    def asks_for_group(self) -> bool:
        """Whether nothing was read because one of several experiments must be chosen."""
        return self.error is not None and Fix("group") in self.error.fixes

    @property
    def fixes(self) -> list[Cure]:
        """The options that would avoid the error, one button each."""
        asked = self.error is not None and Fix("values") in self.error.fixes
        return [THESE_ARE_LOGITS, THESE_ARE_PROBABILITIES] if asked else []


def parse(files: UploadedFiles) -> Document:
    """Parse the files; raise `LogitFileError` for whatever is wrong with them."""
    if len(files) > MAX_FILES:
        problem = f"{len(files)} files were given, more than {MAX_FILES}"
        raise LogitFileError(problem, "upload the files of one data set at a time")
    return Document.open(**files.sources())


def read(
    files: UploadedFiles, options: Options, document_of: Callable[[UploadedFiles], Document] = parse
) -> ReadResult:
    """Read the files with these options; an error is returned in the result, never raised."""
    arrays: list[ArrayInfo] = []
    groups: tuple[str, ...] = ()
    try:
        if files.in_place:
            return ReadResult(files.ids, options, arrays, open_shards(list(map(str, files.whole))))
        document = document_of(files)
        groups = tuple(document.groups)
        arrays = document.describe(options.get("roles"), options.get("group"))
        data = document.load(**options)
        check_classes(data)
        return ReadResult(files.ids, options, arrays, data, groups=groups)
    except LogitFileError as error:
        error.__traceback__ = error.__context__ = None  # their frames hold the content of the files
        return ReadResult(files.ids, options, arrays, error=error, groups=groups)
    except MemoryError:
        too_large = LogitFileError("The files do not fit into the server's memory", "save fewer rows")
        return ReadResult(files.ids, options, arrays, error=too_large, groups=groups)


def check_classes(data: sc.LogitSet) -> None:
    """Raise `LogitFileError` for a set of so many classes that its pages would take the memory of all sessions."""
    if data.kind == "logits" and data.classes > MAX_CLASSES:
        problem = f"has {data.classes:,} classes, and the dashboard shows sets of at most {MAX_CLASSES:,}"
        raise LogitFileError(problem, "use the command line", "make a reduced set with smart reduce", file=data.name)


def button_fix(notice: sc.Notice) -> Cure | None:
    """Return the fix of a notice that one button can apply, if it has one."""
    fix = notice.cure
    return fix if fix is not None and fix.option in VALID and fix.value is not None else None


def role_choices() -> list[str]:
    """Return the roles that an array can have, as `load` names them."""
    rows = [role for role in ROW_ROLES if role != "split"]
    return [IGNORE, *(f"{part}_{role}" for part in ("val", "test") for role in rows), *ROLES]


def array_id(info: ArrayInfo) -> str:
    """Return the name of an array in the option `roles`."""
    return f"{info.file}:{info.key}"


def roles_option(arrays: Iterable[ArrayInfo], chosen: Mapping[str, str]) -> dict[str, str | None]:
    """Return the option `roles` for the chosen role of each array; arrays without a choice keep their role."""
    roles: dict[str, str | None] = {}
    for info in arrays:
        role = chosen.get(array_id(info), "")
        if role == IGNORE and info.role in role_choices():
            roles.setdefault(info.role, None)
        elif role and role != IGNORE:
            if roles.get(role) is not None:
                raise LogitFileError(f"Two arrays have the role {role}", "choose one of them")
            roles[role] = array_id(info)
    return roles


def to_url(options: Options) -> str:
    """Return the options as a URL contains them; empty if there are none."""
    return json.dumps(options, separators=(",", ":"), sort_keys=True) if options else ""


def from_url(text: str) -> Options:
    """Return the options in a URL; whatever is not a valid option is dropped."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):  # not JSON, or nested too deeply
        return {}
    return valid(found)


def valid(found: Any) -> Options:
    """Return the valid options in a value from a URL or a file."""
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if name in VALID and VALID[name](value)}


def fix_text(fix: Fix) -> str:
    """Return a fix in terms of the controls on Start."""
    return {
        "roles": f"choose the {fix.role} below" if fix.role else "choose the role of each array below",
        "val": "upload the validation file as well",
        "test": "upload the test file as well",
        "splits": "upload validation and test as separate files",
        "values": "choose logits or probabilities below",
        "group": "choose one below",
    }[fix.option]
