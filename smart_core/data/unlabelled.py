"""Logits without labels: what a fitted calibrator is applied to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from smart_core.data import extras
from smart_core.data.assign import put
from smart_core.data.found import Found, plural, refuse
from smart_core.data.load import one_sentence
from smart_core.data.logitset import Array, Notice
from smart_core.data.parts import logits_of
from smart_core.data.readers import read
from smart_core.data.reading import BY_HAND, Reading
from smart_core.data.scores import oriented
from smart_core.data.shapes import could_be_labels, could_be_scores, squeezed
from smart_core.data.slots import WHOLE, Files, Roles, Slot, file_names, slots_of
from smart_core.data.source import Sources, collect


@dataclass(frozen=True, eq=False)
class Unlabelled:
    """Logits (N, K) and, where the file has them, the features (N, D) of the same rows."""

    logits: Array
    features: Array | None
    notices: tuple[Notice, ...]


def load_logits(
    source: Sources,
    *,
    name: str | None = None,
    classes: int | None = None,
    roles: Roles | None = None,
    values: Literal["logits", "probabilities"] | None = None,
    transposed: bool | None = None,
) -> dict[str, Unlabelled]:
    """The logits of a file, by side: "" for a file without a split, "val_" and "test_" for one with both.

    Everything that `load` understands is understood here, by the same options. Labels are not needed: where a file has
    them, they only tell rows from columns, as does `classes`, the number of classes of the calibrator.
    Whatever is wrong raises `LogitFileError`.
    """
    reading = Reading(values, transposed=transposed)
    files = [(item, read(item)) for item in collect(source, None, None, name)]
    with one_sentence(files[0][0].name):
        rows = [slot for slot in slots_of(files, roles) if slot.of_rows]
        shared = [notice for _, contents in files for notice in contents.notices]
        sides = [split for split in (WHOLE, "val", "test") if any(slot.split == split for slot in rows)]
        chosen = {split: _roles_of([slot for slot in rows if slot.split == split], shared) for split in sides}
        chosen = {split: part for split, part in chosen.items() if "logits" in part}
        if not chosen:
            raise _no_logits(files, rows)
        return _unlabelled(chosen, classes, reading, shared)


def _roles_of(slots: list[Slot], notices: list[Notice]) -> dict[str, Found]:
    """The arrays of one side: by their names, else the only one whose shape could be logits."""
    part: dict[str, Found] = {}
    ignored: list[Found] = []
    for role in ("logits", "features", "labels"):
        put(part, role, [slot for slot in slots if slot.role == role], ignored)
    if "logits" not in part:
        nameless = [slot.found for slot in slots if slot.role is None and could_be_scores(slot.found)]
        if len(nameless) == 1:
            part["logits"] = nameless[0]
            if len(slots) > 1:
                text = f"{nameless[0].file}: {nameless[0].label} taken as the logits, by its shape."
                notices.append(Notice("guessed_roles", text, BY_HAND))
    return part


def _unlabelled(
    chosen: dict[str, dict[str, Found]], classes: int | None, reading: Reading, shared: Sequence[Notice]
) -> dict[str, Unlabelled]:
    notices = list(shared)
    items = [part["logits"] for part in chosen.values()]
    rows = [_rows(part, classes) for part in chosen.values()]
    scores = oriented(items, rows, reading.transposed, notices)
    widths = [matrix.shape[1] for matrix in scores]
    if len(set(widths)) > 1:
        what = f"{items[0].label} has {plural(widths[0], 'class')}, {items[1].label} {widths[1]:,}"
        raise refuse(items[1].file, what, "give files of the same model")
    result = {}
    for (split, part), logits in zip(chosen.items(), logits_of(items, scores, reading.values, notices), strict=True):
        features = part.get("features")
        read_features = None if features is None else extras.features_of(features, len(logits), notices)
        result["" if split == WHOLE else f"{split}_"] = (logits, read_features)
    said = tuple(dict.fromkeys(notices))
    return {side: Unlabelled(logits, features, said) for side, (logits, features) in result.items()}


def _rows(part: dict[str, Found], classes: int | None) -> int | None:
    """The number of samples, from the labels beside the logits, else from the number of classes."""
    labels = part.get("labels")
    if labels is not None and could_be_labels(labels) and sum(n != 1 for n in labels.shape) == 1:
        return max(labels.shape)
    shape = squeezed(part["logits"].shape)
    if classes is None or len(shape) == 0 or len(shape) > 2:
        return None
    height, width = (*shape, 1)[:2]
    return width if height == classes != width else height


def _no_logits(files: Files, slots: list[Slot]) -> Exception:
    likely = [slot.found for slot in slots if slot.role is None and could_be_scores(slot.found)]
    if len(likely) > 1:
        listed = ", ".join(f"'{item.key}'" for item in likely[:6])
        return refuse(file_names(files), f"several arrays could be the logits: {listed}", "name one of them logits")
    broken = next((slot.found for slot in slots if slot.found.problem), None)
    if broken is not None:
        return refuse(file_names(files), f"no logits were found, and {broken.label} {broken.problem}", broken.cure)
    return refuse(file_names(files), "no logits were found", "save them as one matrix, or name the array logits")
