"""One side's arrays brought to one form; what must be decided for both sides at once is decided here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from smart_core.data import extras
from smart_core.data.assign import Assignment
from smart_core.data.found import Found, plural, refuse
from smart_core.data.labels import coded_text, flat_labels, zero_based
from smart_core.data.logitset import Array, Notice, Part, read_only
from smart_core.data.reading import START_AT_0, Reading
from smart_core.data.scores import LogitMatrix, columns_to_logits, matrix_to_logits, oriented


def parts_of(
    assigned: Assignment, reading: Reading, notices: list[Notice]
) -> tuple[dict[str, Part], tuple[str, ...] | None]:
    """Each side's arrays brought to one form; what must be decided for both sides at once is decided here."""
    sides = list(assigned.parts)
    label_items = [assigned.parts[side]["labels"] for side in sides]
    score_items = [assigned.parts[side]["logits"] for side in sides]
    labels = [flat_labels(item, notices) for item in label_items]
    for item, values in zip(label_items, labels, strict=True):
        if len(values) == 0:
            raise refuse(item.file, f"{item.label} is empty", "save at least one row")
    scores = oriented(score_items, [len(values) for values in labels], reading.transposed, notices)
    for item, matrix, other, values in zip(score_items, scores, label_items, labels, strict=True):
        if len(matrix) != len(values):
            what = f"{item.label} has {plural(len(matrix), 'row')} but {other.label} has {len(values):,} entries"
            where = item.file if item.file == other.file else f"{item.file} and {other.file}"
            raise refuse(where, what, "save both from the same samples")
    classes = _class_count(score_items, scores)
    names_item = assigned.shared.get("class_names")
    names = extras.class_names_of(names_item, max(classes, 2), notices) if names_item is not None else None
    labels, names = coded_text(list(zip(label_items, labels, strict=True)), names)
    if classes == 1:
        labels = _binary_labels(score_items[0], labels, reading.labels_start_at, notices)
    else:
        labels = zero_based(list(zip(label_items, labels, strict=True)), classes, reading.labels_start_at, notices)
    logits = logits_of(score_items, scores, reading.values, notices)
    parts = {
        side: _part(assigned.parts[side], matrix, values, notices)
        for side, matrix, values in zip(sides, logits, labels, strict=True)
    }
    return parts, names


def _class_count(items: Sequence[Found], scores: Sequence[Array]) -> int:
    counts = [matrix.shape[1] for matrix in scores]
    if len(set(counts)) > 1:
        what = f"{items[0].label} has {plural(counts[0], 'class')}, {items[1].label} {counts[1]:,}"
        raise refuse(items[1].file, what, "give files of the same model")
    return counts[0]


def logits_of(
    items: Sequence[Found], scores: Sequence[Array], values: str | None, notices: list[Notice]
) -> list[LogitMatrix]:
    """Logits of two or more classes from oriented scores, those of single columns among them."""
    if scores[0].shape[1] == 1:
        logits = columns_to_logits(items, scores, values, notices)
    else:
        logits = [matrix_to_logits(item, matrix, values, notices) for item, matrix in zip(items, scores, strict=True)]
    for item in items:
        if item.dtype in ("float16", "bfloat16", "int8", "uint8"):
            text = f"{item.file}: {item.label} was saved as {item.dtype}: margins carry its rounding."
            notices.append(Notice("coarse_dtype", text))
    return logits


def _binary_labels(item: Found, labels: list[Array], start_at: int | None, notices: list[Notice]) -> list[Array]:
    """The labels beside one column of scores: 0 and 1, or -1 and 1, or 1 and 2; anything else is an error."""
    seen = set(np.unique(np.concatenate(labels)).tolist())
    if start_at is None and seen == {-1, 1}:
        notices.append(Notice("signed_labels", f"{item.file}: labels -1 and 1 taken as classes 0 and 1."))
        return [(values + 1) // 2 for values in labels]
    if seen == {1, 2} and start_at != 0:
        text = f"{item.file}: labels 1 and 2 taken as classes 0 and 1."
        notices.append(Notice("one_based_labels", text, START_AT_0))
        return [values - 1 for values in labels]
    if seen == {0, 1} and start_at != 1:
        return labels
    shape = f"{item.label} has a single column"
    if len(seen) == 1:
        what = f"{shape} and every label is {seen.pop()}: one class only"
        raise refuse(item.file, what, "give two or more classes")
    what = f"{shape}, but the labels run from {min(seen)} to {max(seen)}"
    raise refuse(item.file, what, "give one column of scores a class, not predicted classes")


def _part(found: Mapping[str, Found], logits: Array, labels: Array, notices: list[Notice]) -> Part:
    rows = len(labels)
    features, cw_l2, group = (found.get(role) for role in ("features", "cw_l2", "group"))
    return Part(
        logits=read_only(logits),
        labels=read_only(np.array(labels, dtype=np.int64)),
        features=None if features is None else extras.features_of(features, rows, notices),
        cw_l2=None if cw_l2 is None else read_only(extras.cw_l2_of(cw_l2, rows, notices)),
        group=None if group is None else read_only(extras.group_of(group, rows)),
    )
