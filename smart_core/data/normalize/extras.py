"""Features, head, attack distances, groups and class names, checked against the logits they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from smart_core.data.formats.raw import MAX_CHARACTERS, RawArray
from smart_core.data.logitset import Array, Head, Notice, read_only
from smart_core.data.normalize.labels import clean_text
from smart_core.data.normalize.logits import as_float32, scan
from smart_core.formatting import plural, printable, shape_text


def features_of(item: RawArray, rows: int, notices: list[Notice]) -> Array:
    """(N, D) float32."""
    values = item.values
    if item.kind in "US":
        raise item.error("holds text instead of numbers", "save the features as numbers")
    if values.ndim == 0:
        raise item.error("is a single number", "give one row of features per sample")
    values = values.reshape(len(values), -1) if values.ndim > 2 else values[:, None] if values.ndim == 1 else values
    if len(values) != rows and values.shape[1] == rows:
        notices.append(item.notice("transposed_features", "was transposed to one row per sample."))
        values = values.T
    _check_rows(item, len(values), rows)
    if values.shape[1] == 0:
        raise item.error("has no columns", "save the features again", "leave them out")
    scan(item, values)
    return as_float32(values)


def cw_l2_of(item: RawArray, rows: int, notices: list[Notice]) -> Array:
    """(N,) float64, NaN where not attacked; an infinite distance is a failed attack, hence NaN."""
    if item.kind in "US":
        raise item.error("holds text instead of distances", "write NaN where there is none")
    values = np.array(item.values, dtype=np.float64).reshape(-1)
    _check_rows(item, len(values), rows)
    negative = values < 0
    if negative.any():
        count = plural(int(negative.sum()), "negative distance")
        problem = f"holds {count}, the first at row {int(np.argmax(negative))} (counted from 0)"
        raise item.error(problem, "write NaN where a sample was not attacked")
    infinite = np.isinf(values)
    if infinite.any():
        values[infinite] = np.nan
        count = plural(int(infinite.sum()), "infinite distance")
        notices.append(item.notice("infinite_distances", f"holds {count}, used as missing."))
    return values


def text_of(item: RawArray) -> Array:
    """A vector of strings, whatever type it was saved as."""
    values = item.values.reshape(-1)
    if values.dtype.kind == "S":
        return clean_text(np.char.decode(values, "utf-8", "replace"))
    return clean_text(np.char.strip(as_text(values)))


def as_text(values: Array) -> Array:
    """Values as strings; numbers that are all whole have no decimals."""
    if values.dtype.kind == "f" and np.all(values % 1 == 0):
        values = values.astype(np.int64)
    return values.astype(np.str_)


def group_of(item: RawArray, rows: int) -> Array:
    """(N,) strings."""
    values = text_of(item)
    _check_rows(item, len(values), rows)
    return values


def metadata_of(item: RawArray, rows: int) -> Array:
    """(N,) strings, int64, or float64 with NaN where a value is missing; true and false are strings."""
    values = item.values.reshape(-1)
    _check_rows(item, len(values), rows)
    if values.dtype.kind in "USb":
        return text_of(item)
    if values.dtype.kind == "f" or np.iinfo(values.dtype).max > np.iinfo(np.int64).max:
        return values.astype(np.float64)
    return values.astype(np.int64)


def others_of(
    found: Mapping[str, RawArray], metadata: Mapping[str, RawArray], rows: int, notices: list[Notice]
) -> dict[str, Any]:
    """The arguments of a `Part` that neither logits nor confidences decide: distances, groups and metadata."""
    distances, group = found.get("cw_l2"), found.get("group")
    return {
        "cw_l2": None if distances is None else read_only(cw_l2_of(distances, rows, notices)),
        "group": None if group is None else read_only(group_of(group, rows)),
        "metadata": {
            printable(name, MAX_CHARACTERS): read_only(metadata_of(item, rows)) for name, item in metadata.items()
        },
    }


def head_of(shared: Mapping[str, RawArray], classes: int, features: Array | None, notices: list[Notice]) -> Head | None:
    """The last layer, if there are features for it; a (D, K) weight is transposed, a missing bias is zero."""
    item, bias_item = shared.get("head_weight"), shared.get("head_bias")
    if item is None:
        return None
    if features is None:
        notices.append(Notice("head_without_features", f"{item.file}: a head without features cannot be used."))
        return None
    weight, width = item.values, features.shape[1]
    if weight.shape == (width, classes) != (classes, width):
        notices.append(item.notice("head_transposed", "was transposed."))
        weight = weight.T
    if weight.shape != (classes, width) or item.kind in "US":
        needed = f"{classes} classes and {width} features need {classes} x {width}"
        problem = f"is {shape_text(weight.shape)} where {needed}"
        raise item.error(problem, "save the weight of the last layer", "leave it out")
    scan(item, weight)
    if bias_item is None:
        notices.append(Notice("head_without_bias", f"{item.file}: the head has no bias; zero is used."))
        return Head(as_float32(weight), as_float32(np.zeros(classes, dtype=np.float32)))
    bias = bias_item.values.reshape(-1)
    if bias.size != classes or bias_item.kind in "US":
        problem = f"has {bias.size} entries for {plural(classes, 'class')}"
        raise bias_item.error(problem, "save the bias of the last layer", "leave it out")
    scan(bias_item, bias.reshape(1, -1))
    return Head(as_float32(weight), as_float32(bias))


def class_names_of(item: RawArray, classes: int, notices: list[Notice]) -> tuple[str, ...] | None:
    """One name per class, or None if the count is wrong."""
    names = tuple(str(name) for name in text_of(item))
    if len(names) == classes:
        return names
    counts = f"{plural(len(names), 'class name')} for {plural(classes, 'class')}"
    notices.append(Notice("class_names", f"{item.file}: {counts}; the names are not used."))
    return None


def _check_rows(item: RawArray, count: int, rows: int) -> None:
    if count != rows:
        problem = f"has {plural(count, 'row')} but the logits have {rows:,}"
        raise item.error(problem, "save both from the same samples, in the same order")
