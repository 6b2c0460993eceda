"""Text as NumPy holds it: every entry as wide as the longest, so a single long one could fill the memory.

Names go on to figures, tables, files and terminals: what no name needs and each of these could stumble over is taken
out here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from smart_core.data.limits import Budget
from smart_core.data.logitset import Array, Notice

MAX_CHARACTERS = 256
"""No class, group or label has a longer name; what is longer is cut, and said to be."""

UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
"""Control characters, line separators, marks that turn the direction of writing, and halves of surrogate pairs."""


def cleaned(words: Array) -> Array:
    """The strings with a question mark for every unfit character; the same array where there is none."""
    names = np.unique(words)
    fit = np.array([UNFIT.sub("?", name) for name in names.tolist()], dtype=np.str_)
    if np.array_equal(names, fit):
        return words
    return fit[np.searchsorted(names, words)]


def text_array(words: Sequence[str], label: str, budget: Budget, notices: list[Notice]) -> Array:
    """The words as an array of strings of one width, paid for out of the file's budget."""
    longest = max(map(len, words), default=1)
    if longest > MAX_CHARACTERS:
        text = f"{budget.file}: texts of {label} are cut at {MAX_CHARACTERS} characters (the longest has {longest:,})."
        notices.append(Notice("long_text", text))
        words = [word[:MAX_CHARACTERS] for word in words]
    budget.spend(label, text_bytes(len(words), longest))
    return np.array(words, dtype=np.str_)


def repeated(words: Array, codes: Array, label: str, budget: Budget) -> Array:
    """words[codes]: a vocabulary and the place of each entry in it."""
    budget.spend(label, codes.size * words.dtype.itemsize)
    return words[codes]


def text_bytes(count: int, longest: int) -> int:
    """What NumPy takes for `count` strings: four bytes a character, all as wide as the longest."""
    return 4 * count * min(max(longest, 1), MAX_CHARACTERS)
