"""Stratified splits and nested subsets: which rows go where, decided by labels and a seed alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


def largest_remainder(counts: NDArray[np.int64], total: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Whole numbers q_c with sum `total`, each the floor or the ceiling of total * counts_c / sum(counts).

    The classes with the largest fractional parts are rounded up; ties are broken by `rng`.
    """
    quota = counts * (total / counts.sum())
    seats = np.floor(quota + 1e-9).astype(np.int64)
    remainder = quota - seats
    order = np.lexsort((rng.random(len(counts)), -np.round(remainder, 9)))
    seats[order[: total - int(seats.sum())]] += 1
    return seats


def stratified_split(labels: NDArray[np.integer], fraction: float, seed: int) -> tuple[Indices, Indices]:
    """(validation, test) indices, sorted; validation takes round(fraction * N) rows, each class its share.

    Neither side is ever empty. The same labels, fraction and seed give the same split.
    """
    labels = np.asarray(labels)
    rows = len(labels)
    if not 0.0 < fraction < 1.0:
        raise ValueError(f"the validation fraction must lie between 0 and 1, not {fraction}")
    if rows < 2:
        raise ValueError(f"at least 2 rows are needed for a split, not {rows}")
    rng = np.random.default_rng(seed)
    size = min(max(round(fraction * rows), 1), rows - 1)
    _, member, counts = np.unique(labels, return_inverse=True, return_counts=True)
    seats = largest_remainder(counts, size, rng)
    rank = _rank_within_class(member, counts, rng)
    chosen = rank < seats[member]
    return np.flatnonzero(chosen), np.flatnonzero(~chosen)


def stratified_subset(labels: NDArray[np.integer], size: int, seed: int) -> Indices:
    """`size` sorted indices, each class its share; for one seed smaller subsets lie inside larger ones.

    The r-th row drawn of a class with n_c rows stands at (r + u_c) / n_c, u_c uniform; a subset is the first
    `size` rows in that order, so each class holds its share to within one row.
    """
    labels = np.asarray(labels)
    if not 0 < size <= len(labels):
        raise ValueError(f"the subset must have between 1 and {len(labels)} rows, not {size}")
    rng = np.random.default_rng(seed)
    _, member, counts = np.unique(labels, return_inverse=True, return_counts=True)
    offset = rng.random(len(counts))
    rank = _rank_within_class(member, counts, rng)
    position = (rank + offset[member]) / counts[member]
    return np.sort(np.argsort(position, kind="stable")[:size])


def _rank_within_class(
    member: NDArray[np.intp], counts: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Each row's place (from 0) in a random order of its own class."""
    order = np.lexsort((rng.random(len(member)), member))
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    rank = np.empty(len(member), dtype=np.int64)
    rank[order] = np.arange(len(member)) - np.repeat(starts, counts)
    return rank
