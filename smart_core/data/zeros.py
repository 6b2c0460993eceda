"""What stands in for a probability of zero, whose logarithm is not finite; and whether values were rounded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from smart_core.data.logitset import Array

TINY = float(np.finfo(np.float32).tiny)
"""The smallest positive normal float32: nothing stands below it."""
MOST_DECIMALS = 6
SHARE = 0.01
"""The most that the zeros of a row may come to together, so that its softmax stays the row that was saved."""


@dataclass(frozen=True)
class Floor:
    """What the zeros of a matrix of shares are taken as."""

    value: float
    """In the unit of the matrix."""
    decimals: int | None
    """To which all values are rounded, as far as can be seen; None where they are not."""

    @property
    def rounding(self) -> str:
        """`rounded to 3 decimals`, or nothing."""
        if self.decimals is None:
            return ""
        if self.decimals == 0:
            return "rounded to whole numbers"
        return f"rounded to {self.decimals} decimal{'s' if self.decimals > 1 else ''}"


def floor_of(pieces: Iterable[Array], classes: int, total: int = 1, eps: float = 0.0, low: float = 0.0) -> Floor:
    """min(h, 0.01 total / K), where h is half the rounding step 10^-d, else half the smallest positive value.

    A rounded zero may have been anything up to h: far below it, its logit would swamp all others. With many classes
    h for each zero would come to more than the rest of the row, hence the other bound. `eps` is the spacing of the
    stored type at 1, by which a rounded value may be off. `low` is the smallest value of all: where it is positive,
    it need not be searched for.
    """
    eps = max(eps, float(np.finfo(np.float32).eps))
    decimals: int | None = 0
    smallest = low if low > 0 else float(total)
    for rows in pieces:
        if low > 0 and decimals is None:
            break
        above = rows > 0
        smallest = min(smallest, float(np.min(rows, where=above, initial=total)))
        positive = rows[above].astype(np.float64) if decimals is not None else None
        while positive is not None and decimals is not None and not _multiples(positive, decimals, eps):
            fine = decimals < MOST_DECIMALS and 10.0 ** (decimals + 1) * eps * total < 0.2
            decimals = decimals + 1 if fine else None
    half = smallest / 2 if decimals is None else 0.5 * 10.0**-decimals
    return Floor(max(min(half, SHARE * total / classes), TINY * total), decimals)


def _multiples(positive: Array, decimals: int, eps: float) -> bool:
    """Whether all are whole multiples of 10^-decimals, within the relative error of the type."""
    steps = positive * 10.0**decimals
    whole = np.round(steps)
    return bool((np.abs(steps - whole) <= eps * whole).all())
