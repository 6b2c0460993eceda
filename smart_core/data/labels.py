"""Labels as users save them -> whole numbers 0..K-1, every liberty taken noted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smart_core.data.found import Found, plural, refuse, shape_shown, shown
from smart_core.data.logitset import Array, Notice
from smart_core.data.reading import START_AT_0, START_AT_1
from smart_core.data.text import cleaned


def is_one_hot(array: Array) -> bool:
    """Whether every row is zero but for a single one."""
    if array.ndim != 2 or array.shape[1] < 2 or array.shape[0] == 0:
        return False
    top = array.max(axis=1)
    return bool(np.all(top == 1) and np.all(np.count_nonzero(array, axis=1) == 1))


def flat_labels(item: Found, notices: list[Notice]) -> Array:
    """A vector: int64, or strings. (N, 1) and (1, N) are squeezed, one-hot rows replaced by their place."""
    values = item.values
    if values.ndim == 0:
        raise refuse(item.file, f"{item.label} is a single value", "give one whole number a row")
    if values.ndim > 1 and sum(n != 1 for n in values.shape) <= 1:
        text = f"{item.file}: {item.label} of shape {shape_shown(values.shape)} taken as a vector of labels."
        notices.append(Notice("column_labels", text))
        values = values.reshape(-1)
    if values.ndim == 2 and values.dtype.kind in "biuf":
        for matrix, turned in ((values, ""), (values.T, ", turned on its side")):
            if is_one_hot(matrix):
                text = f"{item.file}: {item.label} is one-hot{turned}; the place of the 1 is the label."
                notices.append(Notice("one_hot_labels", text))
                return matrix.argmax(axis=1).astype(np.int64)
    if values.ndim != 1:
        what = f"{item.label} of shape {shape_shown(values.shape)} is neither a vector of labels nor one-hot"
        raise refuse(item.file, what, "give one whole number a row")
    if values.dtype.kind == "S":
        return np.char.decode(values, "utf-8", "replace")
    if values.dtype.kind == "U":
        return values
    if values.dtype.kind == "f":
        values = _whole(item, values, notices)
    if values.dtype.kind == "u" and len(values) and int(values.max()) > np.iinfo(np.int64).max:
        row = int(values.argmax())
        raise refuse(item.file, f"{item.label} holds {values[row]} at row {row}", "labels are classes 0 to K-1")
    return values.astype(np.int64)


def _whole(item: Found, values: Array, notices: list[Notice]) -> Array:
    with np.errstate(invalid="ignore"):
        bad = ~(np.isfinite(values) & (values % 1 == 0) & (np.abs(values) < 2**53))
    if bad.any():
        row = int(np.argmax(bad))
        where = f"at row {row} (counted from 0){_and_more(bad)}"
        what = f"{item.label} holds {values[row]:g}, no whole number, {where}"
        raise refuse(item.file, what, "give the class of each row as a whole number, and drop rows without one")
    notices.append(Notice("float_labels", f"{item.file}: {item.label} holds whole numbers as {item.dtype}."))
    return values


def _and_more(bad: NDArray[np.bool_]) -> str:
    count = int(bad.sum()) - 1
    return f" and in {plural(count, 'further row')} the like" if count else ""


def coded_text(
    labels: list[tuple[Found, Array]], names: tuple[str, ...] | None
) -> tuple[list[Array], tuple[str, ...] | None]:
    """Text labels as places in the class names; digits as text need no names."""
    if all(values.dtype.kind != "U" for _, values in labels):
        return [values for _, values in labels], names
    stripped = [cleaned(np.char.strip(values.astype(np.str_))) for _, values in labels]
    if all(np.all(np.char.isdecimal(values)) and np.char.str_len(values).max() < 10 for values in stripped):
        return [values.astype(np.int64) for values in stripped], names
    if names is None:
        item = labels[0][0]
        word = shown(str(stripped[0][0]))
        what = f"{item.label} holds text such as '{word}', and no class names say which class is which"
        raise refuse(item.file, what, "add class_names in the order of the logit columns, or give whole numbers")
    place = {name: i for i, name in enumerate(names)}
    twice = {name for i, name in enumerate(names) if place[name] != i}
    coded = []
    for (item, _), values in zip(labels, stripped, strict=True):
        _refuse_twofold(item, values, names, twice)
        codes = np.array([place.get(text, -1) for text in values.tolist()], dtype=np.int64)
        if (codes < 0).any():
            row = int(np.argmax(codes < 0))
            word = shown(str(values[row]))
            what = f"{item.label} holds '{word}' at row {row} (counted from 0), which is no class name"
            raise refuse(item.file, what, f"the class names are {', '.join(shown(n) for n in names[:5])}, ...")
        coded.append(codes)
    return coded, names


def _refuse_twofold(item: Found, values: Array, names: tuple[str, ...], twice: set[str]) -> None:
    """Raises where a label is a name that two classes share."""
    row = next((i for i, text in enumerate(values.tolist()) if text in twice), None) if twice else None
    if row is not None:
        word = str(values[row])
        bearers = " and ".join(str(k) for k, name in enumerate(names) if name == word)
        what = f"{item.label} holds '{shown(word)}' at row {row} (counted from 0), the name of classes {bearers}"
        raise refuse(item.file, what, "give every class its own name, or whole numbers as labels")


def zero_based(
    labels: list[tuple[Found, Array]], classes: int, start_at: int | None, notices: list[Notice]
) -> list[Array]:
    """Labels in 0..K-1; those in 1..K (K occurs, 0 does not, on either side) are shifted down."""
    arrays = [values for _, values in labels]
    low = min(int(values.min()) for values in arrays)
    high = max(int(values.max()) for values in arrays)
    shift = low >= 1 and high == classes if start_at is None else start_at == 1
    run = f"{labels[0][0].file}: labels run from {low} to {high} for {plural(classes, 'class')}"
    if shift:
        arrays = [values - 1 for values in arrays]
        notices.append(Notice("one_based_labels", f"{run}; 1 was subtracted.", START_AT_0))
    elif low == 1 and high < classes:
        notices.append(Notice("no_label_is_0", f"{run}; taken as counted from 0.", START_AT_1))
    for (item, _), values in zip(labels, arrays, strict=True):
        bad = (values < 0) | (values >= classes)
        if bad.any():
            row = int(np.argmax(bad))
            value = int(values[row]) + int(shift)
            what = (
                f"{item.label} holds {value} at row {row} (counted from 0), outside {int(shift)} to "
                f"{classes - 1 + int(shift)}, in {plural(int(bad.sum()), 'row')}"
            )
            raise refuse(
                item.file,
                what,
                "correct or drop these rows, or check that the logits have a column per class",
            )
    return arrays
