"""From assigned arrays to the parts of a set; decisions that both splits must share are made here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from smart_core.data.formats.raw import RawArray
from smart_core.data.logitset import Array, Notice, Part, read_only
from smart_core.data.normalize import extras
from smart_core.data.normalize.confidences import confidence_parts_of, fractions, is_confidences
from smart_core.data.normalize.labels import binary, flat_labels, text_to_codes, zero_based
from smart_core.data.normalize.logits import LOGITS, PROBABILITIES, logits_of, oriented
from smart_core.data.roles.assign import Assignment
from smart_core.data.roles.candidates import WHOLE, could_be_labels, squeezed
from smart_core.errors import LogitFileError
from smart_core.formatting import plural


@dataclass(frozen=True)
class Options:
    """The arguments of `load` that override a guess about values; None keeps the guess."""

    values: str | None = None
    labels_start_at: int | None = None
    transposed: bool | None = None

    def __post_init__(self) -> None:
        for name, allowed in (
            ("values", (LOGITS, PROBABILITIES)),
            ("labels_start_at", (0, 1)),
            ("transposed", (True, False)),
        ):
            value = getattr(self, name)
            if value is not None and value not in allowed:
                raise LogitFileError(f"{name} must be {allowed[0]} or {allowed[1]}, not {value}.")


@dataclass(frozen=True, eq=False)
class Unlabelled:
    """Logits (N, K) and, if the file has them, the features (N, D) of the same rows; or confidences (N,) alone."""

    logits: Array
    features: Array | None
    notices: tuple[Notice, ...]
    confidence: Array | None = None


def parts_of(
    assigned: Assignment, options: Options, notices: list[Notice]
) -> tuple[dict[str, Part], tuple[str, ...] | None]:
    """Return ({split: part}, class names) from the arrays of each split."""
    if is_confidences(assigned):
        return confidence_parts_of(assigned, notices), None
    parts = assigned.parts.values()
    label_items = [part["labels"] for part in parts]
    score_items = [part["logits"] for part in parts]
    labels = [flat_labels(item, notices) for item in label_items]
    scores = oriented(score_items, [len(values) for values in labels], options.transposed, notices)
    for item, matrix, other, values in zip(score_items, scores, label_items, labels, strict=True):
        if len(matrix) != len(values):
            where = item.file if item.file == other.file else f"{item.file} and {other.file}"
            counts = f"has {plural(len(matrix), 'row')} but {other.label} has {len(values):,} entries"
            raise LogitFileError(f"{item.label} {counts}", "save both from the same samples", file=where)
    classes = _class_count(score_items, scores)
    names_item = assigned.shared.get("class_names")
    names = extras.class_names_of(names_item, max(classes, 2), notices) if names_item is not None else None
    labels, names = text_to_codes(label_items, labels, names, classes, notices)
    if classes == 1:
        labels = binary(score_items[0], labels, options.labels_start_at, notices)
    else:
        labels = zero_based(label_items, labels, classes, options.labels_start_at, notices)
    logits = logits_of(score_items, scores, options.values, notices)
    for item, matrix, values in zip(label_items, logits, labels, strict=True):
        _check_label_classes(item, matrix, values)
    rows = zip(assigned.parts.items(), logits, labels, strict=True)
    return {
        split: _part(part, matrix, values, assigned.metadata.get(split, {}), notices)
        for (split, part), matrix, values in rows
    }, names


def _check_label_classes(item: RawArray, logits: Array, labels: Array) -> None:
    """Raise for a label that is a class which its row does not have."""
    missing = np.isneginf(logits[np.arange(len(labels)), labels])
    if missing.any():
        row = int(np.argmax(missing))
        problem = f"holds {int(labels[row])} at row {row} (counted from 0), a class that the row does not have (-inf)"
        raise item.error(f"{problem}, in {plural(int(missing.sum()), 'row')}", "correct or drop these rows")


def unlabelled_of(
    assigned: Assignment, classes: int | None, options: Options, notices: list[Notice]
) -> dict[str, Unlabelled]:
    """Return the logits of each split under the prefix of its arrays ("", "val_" or "test_").

    For a calibrator of confidences, with 0 classes, these take the place of logits.
    """
    if classes == 0:
        found, _ = fractions({split: part["confidence"] for split, part in assigned.parts.items()})
        return {
            _prefix(split): Unlabelled(np.empty((len(values), 0), dtype=np.float32), None, tuple(notices), values)
            for split, values in found.items()
        }
    items = [part["logits"] for part in assigned.parts.values()]
    rows = [_sample_count(part, classes) for part in assigned.parts.values()]
    scores = oriented(items, rows, options.transposed, notices)
    _class_count(items, scores)
    logits = logits_of(items, scores, options.values, notices)
    features = [
        extras.features_of(part["features"], len(matrix), notices) if "features" in part else None
        for part, matrix in zip(assigned.parts.values(), logits, strict=True)
    ]
    unique = tuple(dict.fromkeys(notices))
    rows_of = zip(assigned.parts, logits, features, strict=True)
    return {_prefix(split): Unlabelled(z, x, unique) for split, z, x in rows_of}


def _prefix(split: str) -> str:
    return "" if split == WHOLE else f"{split}_"


def _sample_count(part: Mapping[str, RawArray], classes: int | None) -> int | None:
    """Return the number of samples, from the labels if there are any, else from the number of classes."""
    labels = part.get("labels")
    if labels is not None and could_be_labels(labels) and sum(n != 1 for n in labels.shape) == 1:
        return max(labels.shape)
    shape = squeezed(part["logits"].shape)
    if classes is None or len(shape) == 0 or len(shape) > 2:
        return None
    height, width = (*shape, 1)[:2]
    return width if height == classes != width else height


def _class_count(items: Sequence[RawArray], scores: Sequence[Array]) -> int:
    counts = [matrix.shape[1] for matrix in scores]
    if len(set(counts)) > 1:
        problem = f"{items[0].label} has {plural(counts[0], 'class')}, {items[1].label} {counts[1]:,}"
        raise LogitFileError(problem, "give files of the same model", file=items[1].file)
    return counts[0]


def _part(
    found: Mapping[str, RawArray], logits: Array, labels: Array, metadata: Mapping[str, RawArray], notices: list[Notice]
) -> Part:
    features = found.get("features")
    return Part(
        logits=read_only(logits),
        labels=read_only(np.array(labels, dtype=np.int64)),
        features=None if features is None else extras.features_of(features, len(labels), notices),
        **extras.others_of(found, metadata, len(labels), notices),
    )
