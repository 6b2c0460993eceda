"""One side's arrays brought to one form; what must be decided for both sides at once is decided here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from smart_core.data import extras
from smart_core.data.assign import Assignment
from smart_core.data.found import Found, plural, refuse
from smart_core.data.labels import coded_text, flat_labels, zero_based
from smart_core.data.logitset import Array, Notice, Part, read_only
from smart_core.data.scores import column_to_matrix, matrix_to_logits, oriented


@dataclass(frozen=True)
class Cures:
    """What the caller decides instead of leaving it to be understood; None leaves it."""

    treat_as: str | None = None
    one_based: bool | None = None
    transpose: bool | None = None


def parts_of(
    assigned: Assignment, cures: Cures, notices: list[Notice]
) -> tuple[dict[str, Part], tuple[str, ...] | None]:
    """Each side's arrays brought to one form; what must be decided for both sides at once is decided here."""
    sides = list(assigned.parts)
    label_items = [assigned.parts[side]["labels"] for side in sides]
    score_items = [assigned.parts[side]["logits"] for side in sides]
    labels = [flat_labels(item, notices) for item in label_items]
    for item, values in zip(label_items, labels, strict=True):
        if len(values) == 0:
            raise refuse(item.file, f"{item.label} is empty", "save at least one row")
    scores = [
        oriented(item, len(values), cures.transpose, notices) for item, values in zip(score_items, labels, strict=True)
    ]
    for item, matrix, other, values in zip(score_items, scores, label_items, labels, strict=True):
        if len(matrix) != len(values):
            what = f"{item.label} has {plural(len(matrix), 'row')} but {other.label} has {len(values):,} entries"
            raise refuse(item.file, what, "save both from the same samples")
    classes = _class_count(score_items, scores)
    names_item = assigned.shared.get("class_names")
    names = extras.class_names_of(names_item, max(classes, 2), notices) if names_item is not None else None
    labels, names = coded_text(list(zip(label_items, labels, strict=True)), names)
    if classes == 1:
        labels, logits = _binary(score_items, scores, labels, cures, notices)
        classes = 2
    else:
        labels = zero_based(list(zip(label_items, labels, strict=True)), classes, cures.one_based, notices)
        logits = [
            matrix_to_logits(item, matrix, cures.treat_as, notices)
            for item, matrix in zip(score_items, scores, strict=True)
        ]
    for item in score_items:
        if item.dtype in ("float16", "bfloat16", "int8", "uint8"):
            text = f"{item.file}: {item.label} was saved as {item.dtype}: margins carry its rounding."
            notices.append(Notice("coarse_dtype", text))
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


def _binary(
    items: Sequence[Found], scores: Sequence[Array], labels: list[Array], cures: Cures, notices: list[Notice]
) -> tuple[list[Array], list[Any]]:
    """One column of scores: two classes if the labels are 0 and 1 (or -1 and 1), else an error."""
    seen = set(np.unique(np.concatenate(labels)).tolist())
    if seen == {-1, 1}:
        labels = [(values + 1) // 2 for values in labels]
        notices.append(Notice("signed_labels", f"{items[0].file}: labels -1 and 1 taken as classes 0 and 1."))
    elif seen == {1, 2} and cures.one_based is not False:
        labels = [values - 1 for values in labels]
        notices.append(Notice("one_based_labels", f"{items[0].file}: labels 1 and 2 taken as classes 0 and 1."))
    elif seen != {0, 1}:
        shape = f"{items[0].label} has a single column"
        if len(seen) == 1:
            raise refuse(
                items[0].file,
                f"{shape} and every label is {seen.pop()}: one class only",
                "give two or more classes",
            )
        what = f"{shape}, but the labels run from {min(seen)} to {max(seen)}"
        raise refuse(items[0].file, what, "give one column of scores a class, not predicted classes")
    inside = all(float(column.min()) >= 0 and float(column.max()) <= 1 for column in scores)
    probabilities = cures.treat_as == "probabilities" or (cures.treat_as is None and inside)
    if probabilities and not inside:
        raise refuse(items[0].file, f"{items[0].label} holds values outside 0 to 1", "read it as logits")
    return labels, [
        column_to_matrix(item, column, probabilities, notices) for item, column in zip(items, scores, strict=True)
    ]


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
