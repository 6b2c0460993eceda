"""One labelled part by itself: what a fit needs, and all it needs."""

from __future__ import annotations

from dataclasses import dataclass

from smart_core.data import extras
from smart_core.data.assign import assign
from smart_core.data.found import refuse
from smart_core.data.load import one_sentence
from smart_core.data.logitset import Head, Notice, Part
from smart_core.data.parts import parts_of
from smart_core.data.readers import read
from smart_core.data.reading import Reading
from smart_core.data.slots import Roles, names_validation_only
from smart_core.data.source import Sources, collect


@dataclass(frozen=True, eq=False)
class Labelled:
    """A part, the head where the files have one, and what was understood on the user's behalf."""

    part: Part
    head: Head | None
    notices: tuple[Notice, ...]


def is_validation_only(source: Sources, roles: Roles | None = None) -> bool:
    """Whether files say that they are a validation part: for a fit there is nothing to be split off then."""
    return names_validation_only([(item, read(item)) for item in collect(source, None, None, None)], roles)


def load_validation(source: Sources, roles: Roles | None = None) -> Labelled:
    """The validation part of files that need hold no other; whatever is wrong raises `LogitFileError`."""
    files = [(item, read(item)) for item in collect(None, source, None, None)]
    with one_sentence(files[0][0].name):
        notices = [notice for _, contents in files for notice in contents.notices]
        assigned = assign(files, roles)
        notices += assigned.notices
        parts, _ = parts_of(assigned, Reading(), notices)
        if "val" not in parts:
            raise refuse(
                files[0][0].name, "no val logits and labels were found", "give the file of the validation part"
            )
        part = parts["val"]
        head = extras.head_of(assigned.shared, part.classes, part.features, notices)
        return Labelled(part, head, tuple(dict.fromkeys(notices)))
