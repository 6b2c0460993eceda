"""Numbers, counts, durations, sizes and text from files, as tables, figures, messages and pages write them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from itertools import islice

NBSP = "\u00a0"
"""A space that does not break, between a number and its unit."""

MINUS = "\u2212"
"""The minus sign of text that is read; the terminal and files of numbers have a hyphen."""

MISSING = "–"
"""Shown for a value that is not known."""

_CLASS = re.compile(r"<class '(?:\w+\.)*(\w+)'>")
_OBJECT = re.compile(r"<[^<>]* at 0x[0-9a-fA-F]+>")
"""The default repr of an object, which contains its address."""


def decimal(value: float, form: str = ".2f") -> str:
    """A number with a real minus sign, by default with two decimals: `0.44`, `−0.63`."""
    return f"{value:{form}}".replace("-", MINUS)


def percent(value: float, decimals: int | None = None, sign: str = "") -> str:
    """A fraction in per cent, by default with one decimal, or two below 1%: `4.3%`, `0.61%`, `−2.0%`.

    With `sign="+"`, a positive number has its sign too.
    """
    if not math.isfinite(value):
        return MISSING
    share = 100 * value
    if decimals is None:
        decimals = 1 if abs(share) >= 1 or share == 0 else 2
    return decimal(share, f"{sign}.{decimals}f") + "%"


def plural(count: int, noun: str) -> str:
    """A count with its noun: `1 row`, `2,000 rows`, `3 classes`, `0 studies`."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith('s') else 's'}"


def join_words(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return ", ".join(items[:-1]) + " and " + items[-1] if len(items) > 1 else "".join(items)


def duration(seconds: float) -> str:
    """`0.4 s`, `4 s`, `2 min 10 s`."""
    whole = round(seconds)
    if whole < 1:
        return f"{seconds:.1f}{NBSP}s"
    minutes, rest = divmod(whole, 60)
    parts = ([f"{minutes}{NBSP}min"] if minutes else []) + ([f"{rest}{NBSP}s"] if rest or not minutes else [])
    return " ".join(parts)


def shorten(text: object, longest: int = 40) -> str:
    """Text on one line, cut to `longest` characters with an ellipsis; nothing is escaped."""
    words = " ".join(str(text).split())
    return words if len(words) <= longest else words[: longest - 1].rstrip() + "…"


def printable(text: str, limit: int = 80) -> str:
    """Text from a file on one line: unprintable characters replaced by `?`, cut after `limit` characters."""
    clean = "".join(c if c.isprintable() else "?" for c in text[: limit + 1])
    return clean if len(clean) <= limit else clean[: limit - 3] + "..."


def first_few(items: Iterable[object], limit: int = 5) -> str:
    """`a, b, c`, with `, …` at the end where there are more than `limit`."""
    texts = [str(item) for item in islice(items, limit + 1)]
    return ", ".join(texts[:limit]) + (", …" if len(texts) > limit else "")


def quoted(items: Iterable[object], limit: int = 5) -> str:
    """`'a', 'b', 'c'`, made printable, with `, …` at the end where there are more than `limit`."""
    return first_few((f"'{printable(str(item))}'" for item in items), limit)


def error_text(error: Exception) -> str:
    """The first line of another library's error, for use in parentheses: no addresses of objects, classes by name.

    >>> error_text(TypeError("Expected dict, got <class 'numpy.float32'>"))
    'Expected dict, got float32'
    """
    first = _CLASS.sub(r"\1", next(iter(str(error).strip().splitlines()), ""))
    return printable(_OBJECT.sub("something else", first) or type(error).__name__, 120).rstrip(".")


def shape_text(shape: tuple[int, ...]) -> str:
    """`60 x 4`, `60`, or `()` for a single value."""
    return " x ".join(map(str, shape)) or "()"


def bytes_text(count: int) -> str:
    """`1.5 MB`."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
