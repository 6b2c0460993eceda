"""Stratified splits into validation and test, and nested subsets. They depend on the labels and a seed alone."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smart_core.data.checks import notices_of
from smart_core.data.logitset import Array, Cure, LogitSet, Notice, Part, read_only
from smart_core.errors import LogitFileError

Indices = NDArray[np.int64]

SPLIT_AGAIN = Cure("split_seed", None, "Split again")


def largest_remainder(counts: NDArray[np.int64], total: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return integers q_c with sum `total`, each the floor or the ceiling of total * counts_c / sum(counts).

    The classes with the largest fractional parts are rounded up; ties are broken by `rng`.
    """
    quota = counts * (total / counts.sum())
    seats = np.floor(quota + 1e-9).astype(np.int64)
    remainder = quota - seats
    order = np.lexsort((rng.random(len(counts)), -np.round(remainder, 9)))
    seats[order[: total - int(seats.sum())]] += 1
    return seats


def stratified_split(labels: NDArray[np.integer], fraction: float, seed: int) -> tuple[Indices, Indices]:
    """Return sorted (validation, test) indices; validation takes round(fraction * N) rows in proportion to the classes.

    Neither part is ever empty. The same labels, fraction and seed give the same split.

    >>> validation, test = stratified_split(np.array([0, 0, 0, 0, 1, 1]), 0.5, seed=0)
    >>> len(validation), len(test), int((validation < 4).sum())
    (3, 3, 2)
    """
    labels = np.asarray(labels)
    rows = len(labels)
    if not 0.0 < fraction < 1.0:
        raise ValueError(f"the validation fraction must lie between 0 and 1, not {fraction}")
    if rows < 2:
        raise ValueError(f"at least 2 rows are needed for a split, not {rows}")
    rng = np.random.default_rng(seed)
    size = min(max(round(fraction * rows), 1), rows - 1)
    member, counts = _members(labels)
    seats = largest_remainder(counts, size, rng)
    rank = _rank_within_class(member, counts, rng)
    chosen = rank < seats[member]
    return np.flatnonzero(chosen), np.flatnonzero(~chosen)


def stratified_subset(labels: NDArray[np.integer], size: int, seed: int) -> Indices:
    """Return `size` sorted indices in proportion to the classes; for one seed, larger subsets contain smaller ones.

    The r-th row drawn of a class with n_c rows has the position (r + u_c) / n_c, u_c uniform. A subset is the first
    `size` rows in that order, so the count of each class is within one row of its proportion.

    >>> small, large = (stratified_subset(np.array([0, 0, 0, 0, 1, 1]), size, seed=0) for size in (2, 4))
    >>> set(small.tolist()) <= set(large.tolist())
    True
    """
    labels = np.asarray(labels)
    if not 0 < size <= len(labels):
        raise ValueError(f"the subset must have between 1 and {len(labels)} rows, not {size}")
    rng = np.random.default_rng(seed)
    member, counts = _members(labels)
    offset = rng.random(len(counts))
    rank = _rank_within_class(member, counts, rng)
    position = (rank + offset[member]) / counts[member]
    first = np.flatnonzero(position <= np.partition(position, size - 1)[size - 1])
    return np.sort(first[np.argsort(position[first], kind="stable")[:size]])


def _members(labels: NDArray[np.integer]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Return each row's class, numbered from 0 in the order of the labels that occur, and the size of each class."""
    if labels.dtype.kind in "iu" and len(labels) and labels.min() >= 0 and labels.max() < max(len(labels), 1 << 20):
        counts = np.bincount(labels)
        return (np.cumsum(counts > 0) - 1)[labels], counts[counts > 0]
    _, member, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return member, counts


def _rank_within_class(
    member: NDArray[np.intp], counts: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return each row's rank (from 0) in a random order of its class."""
    order = np.argsort(rng.random(len(member)))
    for shift in range(
        0, max(int(member.max()).bit_length(), 1), 16
    ):  # stable sorts of 16 bits count, from the low ones
        order = order[np.argsort((member[order] >> shift).astype(np.uint16), kind="stable")]
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    rank = np.empty(len(member), dtype=np.int64)
    rank[order] = np.arange(len(member)) - np.repeat(starts, counts)
    return rank


def check_split(val_fraction: float, seed: int) -> None:
    """Raise if the fraction or the seed is invalid."""
    if not isinstance(val_fraction, Real) or not 0.0 < val_fraction < 1.0:
        raise LogitFileError(f"The validation fraction must lie between 0 and 1, not {val_fraction}.")
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise LogitFileError(f"The split seed must be an integer of at least 0, not {seed}.")


def split_part(
    whole: Part, file: str, fraction: float, seed: int, notices: list[Notice], what: str = "One set"
) -> tuple[Part, Part]:
    """Return (validation, test), split at random and stratified by label, and add a notice."""
    if len(whole) < 2:
        problem = "holds a single row, which cannot be split"
        raise LogitFileError(problem, "give more rows", "give validation and test as separate files", file=file)
    validation, test = stratified_split(whole.labels, fraction, seed)
    by = "correctness" if whole.kind == "confidence" else "label"
    text = (
        f"{what} of {len(whole):,} rows, split at random and stratified by {by}: "
        f"{len(validation):,} validation, {len(test):,} test (fraction {fraction:g}, seed {seed})."
    )
    notices.append(Notice("split", text, SPLIT_AGAIN))
    return whole.subset(validation), whole.subset(test)


def resplit(data: LogitSet, val_fraction: float, seed: int) -> LogitSet:
    """Return the rows of both parts, validation first, split again at random and stratified by label.

    The same set, fraction and seed give the same split. Distances and groups that one part lacks are filled with NaN
    and empty names; features, and with them the head, are kept only if both parts have them. Notices about the old
    parts are replaced.
    """
    check_split(val_fraction, seed)
    about_parts = {*notices_of(data)}
    notices = [notice for notice in data.notices if notice not in about_parts and notice.code != "split"]
    pool = _pooled(data.validation, data.test, notices)
    validation, test = split_part(pool, data.name, val_fraction, seed, notices, "Validation and test pooled: one set")
    head = data.head if pool.features is not None else None
    result = LogitSet(data.name, validation, test, head, data.class_names)
    return replace(result, notices=tuple(dict.fromkeys([*notices, *notices_of(result)])))


def _pooled(first: Part, second: Part, notices: list[Notice]) -> Part:
    parts = (first, second)

    def joined(name: str, missing: float | str | None = None) -> Array | None:
        return _joined([getattr(part, name) for part in parts], parts, missing)

    lacking = [part.features is None for part in parts]
    if any(lacking) and not all(lacking):
        text = f"Only {'test' if lacking[0] else 'validation'} has features; they are left out of the new split."
        notices.append(Notice("pooled_features", text))
    lazy = not first.in_memory
    logits: Any = first.logits
    return type(first)(
        logits=logits.followed_by(second.logits) if lazy else read_only(np.concatenate([logits, second.logits])),
        labels=read_only(np.concatenate([first.labels, second.labels])),
        features=None if any(lacking) else joined("features"),
        cw_l2=joined("cw_l2", np.nan),
        group=joined("group", ""),
        confidence=joined("confidence"),
        reduced={
            name: read_only(np.concatenate([first.reduced[name], second.reduced[name]])) for name in first.reduced
        },
        metadata={
            name: array
            for name in {**first.metadata, **second.metadata}
            if (array := _joined([part.metadata.get(name) for part in parts], parts, None)) is not None
        },
    )


def _joined(arrays: list[Array | None], parts: tuple[Part, Part], missing: float | str | None) -> Array | None:
    """Return two arrays as one; one that is absent is filled, by default with what its type has for a missing value."""
    known = [array for array in arrays if array is not None]
    if not known:
        return None
    fill = ("" if known[0].dtype.kind == "U" else np.nan) if missing is None else missing
    full = [np.full(len(part), fill) if array is None else array for array, part in zip(arrays, parts, strict=True)]
    if len({array.dtype.kind == "U" for array in full}) > 1:  # numbers in one part and text in the other
        full = [array.astype(np.str_) for array in full]
    return read_only(np.concatenate(full))
