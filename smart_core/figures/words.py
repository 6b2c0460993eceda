"""Numbers in the sentences, legends and labels of figures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

NARROW = "\u00a0"
"""A space that does not break: a number stays with its unit."""


def percent(value: float) -> str:
    """A fraction in per cent with one digit, two below 1 %."""
    if not np.isfinite(value):
        return "unknown"
    share = 100 * value
    return f"{share:.{1 if abs(share) >= 1 or share == 0 else 2}f}{NARROW}%"


def listed(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return ", ".join(items[:-1]) + " and " + items[-1] if len(items) > 1 else "".join(items)


def counted(number: int, noun: str) -> str:
    """`1 sample`, `2,000 samples`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def spoken(text: object, longest: int = 40) -> str:
    """Foreign text (class, group and file names) for a sentence: on one line and cut to `longest`, nothing escaped."""
    words = " ".join(str(text).split())
    return words if len(words) <= longest else words[: longest - 1].rstrip() + "…"
