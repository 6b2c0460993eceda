"""Bins of equally many samples that keep equal values together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smart_core.types import Vector


def equal_mass_groups(values: Vector, bins: int) -> list[NDArray[np.int64]]:
    """The samples' indices in at most `bins` groups of rising value and about equal size.

    A group starts at a value that occurs, so equal values share a group and no group is empty.
    """
    wanted = max(1, min(bins, len(values)))
    starts = np.unique(np.sort(values)[np.arange(wanted) * len(values) // wanted])
    member = np.searchsorted(starts, values, side="right") - 1
    order = np.argsort(member, kind="stable")
    return np.split(order, np.cumsum(np.bincount(member))[:-1])
