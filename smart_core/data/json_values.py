"""Values of JSON files that this program wrote, which may come from someone else: what the sandbox reads from them.

They travel as one array of bytes, JSON that is written anew from checked values.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from smart_core.data.logitset import Array
from smart_core.data.saved import plain
from smart_core.errors import LogitFileError

MOST_VALUES = 10_000_000
"""A file of 100,000 fits of a benchmark has about 2 million."""


def json_value(content: bytes) -> Array:
    """The value of a JSON file."""
    try:
        return _bytes(json.loads(content))
    except MemoryError:
        raise
    except Exception as error:
        raise LogitFileError("is not JSON that can be used", "use another copy of it") from error


def json_lines(content: bytes) -> Array:
    """A list of the values of the lines; one that was cut off, or cannot be used, is left out."""
    values = []
    for line in content.splitlines():
        try:
            values.append(plain(json.loads(line), arrays=False))
        except (ValueError, RecursionError):
            continue
    return _bytes(values)


def _bytes(value: Any) -> Array:
    checked = plain(value, arrays=False, most=MOST_VALUES)
    return np.frombuffer(json.dumps(checked, allow_nan=False).encode(), dtype=np.uint8)
