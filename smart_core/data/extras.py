"""Features, head, attack distances, groups and class names, checked against the logits they belong to."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from smart_core.data.found import Found, plural, refuse, shape_shown
from smart_core.data.logitset import Array, Head, Notice
from smart_core.data.scores import as_float32, scan
from smart_core.data.text import cleaned


def features_of(item: Found, rows: int, notices: list[Notice]) -> Array:
    """(N, D) float32."""
    values = item.values
    if item.kind in "US":
        raise refuse(item.file, f"{item.label} holds text instead of numbers", "save the features as numbers")
    if values.ndim == 0:
        raise refuse(item.file, f"{item.label} is a single number", "give one row of features a sample")
    if values.ndim > 2:
        values = values.reshape(len(values), -1)
    if values.ndim == 1:
        values = values[:, None]
    if len(values) != rows and values.shape[1] == rows:
        notices.append(Notice("transposed_features", f"{item.file}: {item.label} was transposed to one row a sample."))
        values = values.T
    _same_rows(item, len(values), rows)
    if values.shape[1] == 0:
        raise refuse(item.file, f"{item.label} has no columns", "save the features again, or leave them out")
    scan(item, values)
    return as_float32(values)


def cw_l2_of(item: Found, rows: int, notices: list[Notice]) -> Array:
    """(N,) float64, NaN where not attacked; an infinite distance is a failed attack, hence NaN."""
    if item.kind in "US":
        raise refuse(item.file, f"{item.label} holds text instead of distances", "write NaN where there is none")
    values = np.array(item.values, dtype=np.float64).reshape(-1)
    _same_rows(item, len(values), rows)
    negative = values < 0
    if negative.any():
        row = int(np.argmax(negative))
        count = plural(int(negative.sum()), "negative distance")
        what = f"{item.label} holds {count}, the first at row {row} (counted from 0)"
        raise refuse(item.file, what, "write NaN where a sample was not attacked")
    infinite = np.isinf(values)
    if infinite.any():
        values[infinite] = np.nan
        count = plural(int(infinite.sum()), "infinite distance")
        text = f"{item.file}: {count} in {item.label} taken as missing."
        notices.append(Notice("infinite_distances", text))
    return values


def text_of(item: Found) -> Array:
    """A vector of strings, whatever type it was saved as."""
    values = item.values.reshape(-1)
    if values.dtype.kind == "S":
        return cleaned(np.char.decode(values, "utf-8", "replace"))
    if values.dtype.kind == "f" and np.all(values % 1 == 0):
        values = values.astype(np.int64)
    return cleaned(np.char.strip(values.astype(np.str_)))


def group_of(item: Found, rows: int) -> Array:
    """(N,) strings."""
    values = text_of(item)
    _same_rows(item, len(values), rows)
    return values


def head_of(shared: Mapping[str, Found], classes: int, features: Array | None, notices: list[Notice]) -> Head | None:
    """The last layer, where its features are there; a (D, K) weight is turned, a missing bias is zero."""
    weight_item = shared.get("head_weight")
    if weight_item is None or features is None:
        if weight_item is not None:
            text = f"{weight_item.file}: a head without features cannot be used."
            notices.append(Notice("head_without_features", text))
        return None
    weight, depth = weight_item.values, features.shape[1]
    if weight.shape == (depth, classes) != (classes, depth):
        notices.append(Notice("head_transposed", f"{weight_item.file}: {weight_item.label} was transposed."))
        weight = weight.T
    if weight.shape != (classes, depth) or weight_item.kind in "US":
        shape = shape_shown(weight.shape)
        needed = f"{classes} classes and {depth} features need {classes} x {depth}"
        what = f"{weight_item.label} is {shape} where {needed}"
        raise refuse(weight_item.file, what, "save the weight of the last layer, or leave it out")
    scan(weight_item, weight)
    bias_item = shared.get("head_bias")
    if bias_item is None:
        notices.append(Notice("head_without_bias", f"{weight_item.file}: the head has no bias; zero is used."))
        bias = np.zeros(classes, dtype=np.float32)
    else:
        if bias_item.values.size != classes or bias_item.kind in "US":
            what = f"{bias_item.label} has {bias_item.values.size} entries for {plural(classes, 'class')}"
            raise refuse(bias_item.file, what, "save the bias of the last layer, or leave it out")
        scan(bias_item, bias_item.values.reshape(1, -1))
        bias = bias_item.values.reshape(-1)
    return Head(as_float32(weight), as_float32(bias))


def class_names_of(item: Found, classes: int, notices: list[Notice]) -> tuple[str, ...] | None:
    """One name a class, or none at all if the count is wrong."""
    names = tuple(str(name) for name in text_of(item))
    if len(names) != classes:
        counts = f"{plural(len(names), 'class name')} for {plural(classes, 'class')}"
        text = f"{item.file}: {counts}; the names are not used."
        notices.append(Notice("class_names", text))
        return None
    return names


def _same_rows(item: Found, found: int, rows: int) -> None:
    if found != rows:
        what = f"{item.label} has {plural(found, 'row')} but the logits have {rows:,}"
        raise refuse(item.file, what, "save both from the same samples, in the same order")
