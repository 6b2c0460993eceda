"""One set of rows made into validation and test; two parts pooled and split again."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real

import numpy as np

from smart_core.data.checks import notices_of
from smart_core.data.found import refuse
from smart_core.data.logitset import Array, Cure, LogitSet, Notice, Part, read_only
from smart_core.data.split import stratified_split
from smart_core.errors import LogitFileError

OTHER_SPLIT = Cure("split_seed", None, "Split again")


def check_split(val_fraction: float, seed: int) -> None:
    """Refuses a fraction or a seed that cannot be split by."""
    if not isinstance(val_fraction, Real) or not 0.0 < val_fraction < 1.0:
        raise LogitFileError(f"The validation fraction must lie between 0 and 1, not {val_fraction}.")
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise LogitFileError(f"The split seed must be a whole number from 0 up, not {seed}.")


def split_part(
    whole: Part, file: str, fraction: float, seed: int, notices: list[Notice], what: str = "One set"
) -> tuple[Part, Part]:
    """(validation, test) at random, stratified by label, which is noted."""
    if len(whole) < 2:
        raise refuse(file, "holds a single row, which cannot be split", "give more rows, or val= and test= files")
    validation, test = stratified_split(whole.labels, fraction, seed)
    text = (
        f"{what} of {len(whole):,} rows, split at random and stratified by label: "
        f"{len(validation):,} validation, {len(test):,} test (fraction {fraction:g}, seed {seed})."
    )
    notices.append(Notice("split", text, OTHER_SPLIT))
    return whole.subset(validation), whole.subset(test)


def resplit(data: LogitSet, val_fraction: float, seed: int) -> LogitSet:
    """The rows of both parts, validation's first, split at random and stratified by label.

    The same set, fraction and seed give the same split, and every array follows its row. Distances and groups
    that one part lacks are filled (NaN, no name); features, and with them the head, are kept only where both
    parts have them. What was noted about the old parts alone is looked at anew.
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
    def joined(name: str, missing: float | str | None = None) -> Array | None:
        sides = [getattr(part, name) for part in (first, second)]
        if all(side is None for side in sides):
            return None
        rows = (len(first), len(second))
        return read_only(
            np.concatenate([np.full(n, missing) if s is None else s for s, n in zip(sides, rows, strict=True)])
        )

    lacking = [part.features is None for part in (first, second)]
    if any(lacking) and not all(lacking):
        side = "test" if lacking[0] else "validation"
        text = f"Only {side} has features: they cannot follow their rows into a new split and are left out."
        notices.append(Notice("pooled_features", text))
    return Part(
        logits=read_only(np.concatenate([first.logits, second.logits])),
        labels=read_only(np.concatenate([first.labels, second.labels])),
        features=None if any(lacking) else joined("features"),
        cw_l2=joined("cw_l2", np.nan),
        group=joined("group", ""),
    )
