"""Samples grouped by a column: by its values, or, for many different numbers, by intervals of equally many samples."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from smart_core.data.logitset import Array
from smart_core.formatting import plural

MOST_VALUES = 20
"""Different values that are groups of their own; more numbers become intervals, and the rarest texts one group."""
HASHED_FROM_TEXTS = 1 << 18
"""Texts from which they are told apart by hashing."""
INTERVALS = 5
"""Into how many intervals numbers are divided."""
MISSING_VALUE = "missing"

Rows = NDArray[np.intp]


def partition(values: Array) -> dict[str, Rows]:
    """Return {name: rising indices of its samples}; every sample is in one group, and none is empty.

    Text is grouped by value, the most frequent first. Numbers are grouped by value where there are at most
    `MOST_VALUES` different ones, else by `INTERVALS` (l, u] between their quantiles; NaN and infinity are `missing`.

    >>> import numpy as np
    >>> {name: rows.tolist() for name, rows in partition(np.array(["b", "a", "b"])).items()}
    {'b': [0, 2], 'a': [1]}
    >>> list(partition(np.arange(101.0)))
    ['0 to 20', '20 to 40', '40 to 60', '60 to 80', '80 to 100']
    """
    if values.dtype.kind == "U":
        return _by_text(values)
    known = np.flatnonzero(np.isfinite(values))
    numbers = values[known].astype(np.float64)
    different = np.unique(numbers)
    if len(different) <= MOST_VALUES:
        groups = {_number(number): known[numbers == number] for number in different}
    else:
        groups = {name: known[rows] for name, rows in _by_interval(numbers).items()}
    missing = np.setdiff1d(np.arange(len(values)), known)
    return groups | ({MISSING_VALUE: missing} if len(missing) else {})


def _by_text(values: Array) -> dict[str, Rows]:
    words, first, member, counts = _different(values)
    order = np.lexsort((first, -counts))
    own = order if len(order) <= MOST_VALUES else order[: MOST_VALUES - 1]
    groups = {str(words[w]) or MISSING_VALUE: np.flatnonzero(member == w) for w in own}
    if len(own) < len(order):
        rest = np.flatnonzero(~np.isin(member, own))
        groups[f"{plural(len(order) - len(own), 'other value')}"] = rest
    return groups


def _different(values: Array) -> tuple[Array, Array, Array, Array]:
    """As `np.unique`: the texts in order, where each is first, which one each value is, and how often each occurs."""
    if len(values) < HASHED_FROM_TEXTS:
        return np.unique(values, return_index=True, return_inverse=True, return_counts=True)
    import pyarrow as pa

    # by hashing: sorting so many texts takes many times as long
    made = pa.array(values)  # in pieces, if the texts take more than 2 GB together
    made = made if isinstance(made, pa.ChunkedArray) else pa.chunked_array([made])
    pieces = made.dictionary_encode().unify_dictionaries().chunks
    member = np.concatenate([piece.indices.to_numpy() for piece in pieces])
    texts = np.array(pieces[0].dictionary.to_pylist(), dtype=np.str_)
    counts, first = np.bincount(member), np.arange(len(texts))  # the dictionary is in the order of first appearance
    order = np.argsort(texts)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return texts[order], first[order], rank[member], counts[order]


def _by_interval(numbers: Array) -> dict[str, Rows]:
    # quantiles that are samples themselves, so that no interval is empty
    cuts = np.unique(np.quantile(numbers, np.linspace(0, 1, INTERVALS + 1), method="inverted_cdf"))
    index = np.clip(np.searchsorted(cuts, numbers, side="left") - 1, 0, len(cuts) - 2)
    names = [f"{_number(low)} to {_number(high)}" for low, high in pairwise(cuts)]
    if len({*names}) < len(names):  # four digits do not tell them apart
        names = [f"{low!r} to {high!r}" for low, high in pairwise(cuts.tolist())]
    return {name: np.flatnonzero(index == i) for i, name in enumerate(names)}


def _number(value: float) -> str:
    return f"{value:.0f}" if value % 1 == 0 and abs(value) < 1e15 else f"{value:.4g}"
