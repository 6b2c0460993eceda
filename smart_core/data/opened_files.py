"""`OpenedFiles`: files of one experiment, or of several of which each call chooses one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from smart_core.data.file_groups import experiments, matching, without_experiment
from smart_core.data.formats import read, read_arrays
from smart_core.data.formats.raw import MAX_CHARACTERS, ArrayPath, RawFile, Source
from smart_core.data.parsed import ParsedDocument
from smart_core.data.shards import joined
from smart_core.errors import Fix, LogitFileError
from smart_core.formatting import plural, printable, quoted

Choice = list[tuple[RawFile, list[ArrayPath]]]
"""The arrays to read of each file."""


class OpenedFiles:
    """Parsed files; arrays that are only listed so far are read with the experiment that they belong to."""

    def __init__(self, sources: Sequence[Source], name: str | None = None) -> None:
        raw = [read(source) for source in sources]
        listed = [file for file in raw if file.unread is not None]
        self._name = name
        self._files = [file for file in raw if file.unread is None]
        self._listed: dict[str, Choice] = {}
        self._chosen: tuple[str, ParsedDocument] | None = None
        for file in listed:
            paths = list(file.unread or {})
            short = [tuple(str(part)[:MAX_CHARACTERS] for part in path) for path in paths]
            for group, places in (experiments(short, bundles=False) or {"": []}).items():
                self._listed.setdefault(group, []).append((file, [paths[place] for place in places]))
        if len(listed) > 1:  # an experiment is in all of them, unless they are pieces or parts of one
            whole = {group: choice for group, choice in self._listed.items() if len(choice) == len(listed)}
            self._listed = whole or {"": [each for choice in self._listed.values() for each in choice]}

    @property
    def groups(self) -> list[str]:
        """The names of the experiments; empty if there is only one."""
        return list(self._listed) if len(self._listed) > 1 else []

    def document(self, group: str | None = None) -> ParsedDocument:
        key = self._key(group)
        if self._chosen is None or self._chosen[0] != key:
            chosen = [_relative(read_arrays(file, paths)) for file, paths in self._listed.get(key, [])]
            name = key if self.groups else self._name
            self._chosen = key, ParsedDocument.of(joined([*self._files, *chosen]), printable(name) if name else None)
        return self._chosen[1]

    def _key(self, group: str | None) -> str:
        file = next((choice[0][0].name for choice in self._listed.values()), self._files[0].name if self._files else "")
        if not self.groups:
            if group:
                raise LogitFileError(f"holds no group '{printable(group)}'", "leave the group out", file=file)
            return next(iter(self._listed), "")
        if group is None:
            raise choose_group(self.groups, file)
        key = matching(group, self.groups)
        if key is None:
            problem = f"holds no group '{printable(group)}'"
            raise LogitFileError(problem, f"the groups are {quoted(self.groups, 6)}", file=file)
        return key


def choose_group(groups: Sequence[str], file: str) -> LogitFileError:
    """Return the error that one of several experiments must be chosen."""
    problem = f"holds {plural(len(groups), 'experiment')}: {quoted(groups, 4)}"
    return LogitFileError(problem, Fix("group"), file=file)


def _relative(file: RawFile) -> RawFile:
    """Return the file with the paths of its arrays below the group of their experiment."""
    arrays = [replace(item, path=without_experiment(tuple(map(str, item.path)))) for item in file.arrays]
    return replace(file, arrays=arrays)
