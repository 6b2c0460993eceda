"""What a shape says: which arrays could be labels, which scores."""

from __future__ import annotations

import numpy as np

from smart_core.data.found import Found
from smart_core.data.labels import is_one_hot


def squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape without axes of length 1: first those behind the samples', then, if need be, before them."""
    short = tuple(n for i, n in enumerate(shape) if n != 1 or i == 0) if len(shape) > 2 else shape
    return short[1:] if len(short) > 2 and short[0] == 1 else short


def could_be_labels(item: Found) -> bool:
    """A vector of whole numbers or text, or a one-hot matrix."""
    if item.array is None or not item.shape:
        return False
    if sum(n != 1 for n in item.shape) <= 1:
        if item.kind in "US":
            return True
        values = item.values
        return item.kind in "biu" or bool(np.all(np.isfinite(values)) and np.all(values % 1 == 0))
    return len(item.shape) == 2 and item.kind in "biuf" and is_one_hot(item.values)


def could_be_scores(item: Found) -> bool:
    """A matrix of numbers that is not one-hot, or a vector of numbers that are not whole."""
    if item.kind == "" or item.kind not in "biuf":
        return False
    return len(squeezed(item.shape)) in (1, 2) and not could_be_labels(item)


def same_length(item: Found, other: Found) -> bool:
    return bool(set(item.shape) & set(other.shape) - {1})
