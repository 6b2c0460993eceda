"""Published logit pickles, through the interpreter that can build arrays and plain containers only."""

from __future__ import annotations

from smart_core.data.found import Contents
from smart_core.data.source import Source
from smart_core.data.unpickle_numpy import unpickle


def read_pickle(source: Source) -> Contents:
    """The arrays of ((logits, labels), (logits, labels)), of a dict of arrays, or of both nested."""
    return unpickle(source.name, source.data)
