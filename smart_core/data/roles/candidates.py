"""`Candidate`, an array with its likely role, and what the shape and the values of an array could be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smart_core.data.formats.raw import RawArray
from smart_core.data.logitset import Array
from smart_core.data.roles.names import METADATA_ROLE, ROW_ROLES

WHOLE = "whole"
"""The split of arrays that are not yet divided into `val` and `test`."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """An array with its likely split and role; the role is None if only its shape can tell."""

    array: RawArray
    split: str
    role: str | None

    @property
    def per_sample(self) -> bool:
        """Whether it has, or may have, one entry per sample."""
        return self.role is None or self.role in (*ROW_ROLES, METADATA_ROLE)

    @property
    def role_name(self) -> str:
        """`val_logits`, `head_weight`, `ignored`, or `unknown`."""
        if self.role is None:
            return "unknown"
        return role_name(self.split, self.role) if self.per_sample else self.role


def role_name(split: str, role: str) -> str:
    """Return `val_logits`, or `logits` for arrays that are not divided yet."""
    return role if split == WHOLE else f"{split}_{role}"


def is_vector(item: RawArray) -> bool:
    """Return whether at most one axis is longer than 1."""
    return bool(item.shape) and sum(n != 1 for n in item.shape) <= 1


def squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape without axes of length 1: those after the first axis and, if needed, the first."""
    short = tuple(n for i, n in enumerate(shape) if n != 1 or i == 0) if len(shape) > 2 else shape
    return short[1:] if len(short) > 2 and short[0] == 1 else short


def could_be_labels(item: RawArray) -> bool:
    """Return whether the array is a vector of integers or text, or a one-hot matrix."""
    if item.array is None or not item.shape:
        return False
    if sum(n != 1 for n in item.shape) <= 1:
        if item.kind in "US":
            return True
        values = item.values
        return item.kind in "biu" or bool(np.all(np.isfinite(values)) and np.all(values % 1 == 0))
    return len(item.shape) == 2 and item.kind in "biuf" and is_one_hot(item.values)


def could_be_scores(item: RawArray) -> bool:
    """Return whether the array is a matrix of numbers, not one-hot, or a vector of numbers, not all integers."""
    if item.kind == "" or item.kind not in "biuf":
        return False
    return len(squeezed(item.shape)) in (1, 2) and not could_be_labels(item)


def is_one_hot(array: Array) -> bool:
    """Return whether every row has a single 1 and zeros elsewhere."""
    if array.ndim != 2 or array.shape[1] < 2 or array.shape[0] == 0:
        return False
    top = array.max(axis=1)
    return bool(np.all(top == 1) and np.all(np.count_nonzero(array, axis=1) == 1))
